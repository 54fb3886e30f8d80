"""A silo in a cluster or on a machine of its own: what it agreed to, and how it follows orders."""
