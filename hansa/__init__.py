"""Hansa, federated self-evolution of LLM agents: the contract that all parts share."""

__version__ = "0.1.0"
