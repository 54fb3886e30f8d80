"""Decoding: what writes the agent's turns, from lock-step to CUDA graphs."""
