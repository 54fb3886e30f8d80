"""Processes: what every program of one machine needs, whichever executor started it."""
