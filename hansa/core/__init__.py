"""What every other room uses, and what knows nothing of federations: errors, logs, statistics."""
