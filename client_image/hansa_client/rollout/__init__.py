"""Rollout: which tasks are played, and how episodes are played together."""
