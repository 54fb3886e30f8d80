"""Adapters that travel: to a model hub and to a registry, and back, checked by their digests."""
