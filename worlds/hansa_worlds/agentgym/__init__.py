"""AgentGym's environment servers as worlds: text games that are played over HTTP."""
