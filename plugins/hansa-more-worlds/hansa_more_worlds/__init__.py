"""Worlds of other packages: reasoning-gym, TextWorld and ScienceWorld, each behind its extra."""
