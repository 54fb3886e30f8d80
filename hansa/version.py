"""The version of all packages; in a module of its own so that every room may import it."""

__version__ = "0.1.0"
