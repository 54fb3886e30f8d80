"""The model that comes with Hansa: network, LoRA and tokenizer without transformers or PEFT."""
