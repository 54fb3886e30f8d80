"""What surrounds a program: its entry, the warm parent, capacity, and dying with its parent."""
