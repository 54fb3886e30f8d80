"""Record-level differential privacy: what a spec asks for, what it costs, what was spent."""
