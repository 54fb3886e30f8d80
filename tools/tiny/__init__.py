"""How `builtin:tiny` is made: its tokenizer, the play it learns from, its training, its scores."""
