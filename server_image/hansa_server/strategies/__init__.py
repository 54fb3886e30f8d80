"""The builtin strategies, a file each; their names are in hansa.api.strategies."""
