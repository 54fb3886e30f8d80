"""The server program: gate, aggregate, commit; it carries no torch."""
