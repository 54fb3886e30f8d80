"""Checks of documents and the messages they give; generic, knows no spec."""
