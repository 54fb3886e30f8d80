"""An adapter for others: the Hugging Face hub, OCI registries, and what is sent there."""
