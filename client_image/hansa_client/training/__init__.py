"""Training: batches, packing, log-probabilities and the optimizer, for all learners."""
