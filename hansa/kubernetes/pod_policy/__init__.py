"""What a user's Pod template and Secrets may hold."""
