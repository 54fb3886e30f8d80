"""The local executor: the same programs as processes on one machine."""
