"""OpenEnv's environment servers as worlds: episodes that are played over a WebSocket."""
