"""Adapters as files: LoRA shapes, safetensors, PEFT folders, model cards, masked sums."""
