"""Turns by an OpenAI-compatible server: asked for, and written with the right adapter."""
