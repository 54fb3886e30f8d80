"""Agents of others: a harness plays a task against a recording endpoint, and says how it went."""
