"""Serving: adapters behind an HTTP API of OpenAI's shape, decoded in one batch."""
