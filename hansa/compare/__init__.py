"""Comparing methods: the same federation run in several ways, with several seeds, on one table."""
