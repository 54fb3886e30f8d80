"""Experience: what a silo keeps in its private store, and what of it is trained on."""
