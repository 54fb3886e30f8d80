"""What speaks to an API server, and what a user's Pod template may hold."""
