"""The state machine of a round: pure functions, no I/O, no clock, no randomness."""
