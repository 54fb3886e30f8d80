"""Models: the base model, its chat template and tokenizer, LoRA on it, and its KV cache."""
