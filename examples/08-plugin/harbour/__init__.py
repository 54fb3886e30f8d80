"""Three plug-ins for Hansa in one package: a strategy, a learner and a world."""
