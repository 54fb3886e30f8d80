"""Hansa's worlds as an OpenEnv server, so that others can play them."""
