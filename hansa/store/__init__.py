"""Object stores: where adapters, evaluations and experience are kept."""
