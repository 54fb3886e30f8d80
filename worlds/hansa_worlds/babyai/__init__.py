"""BabyAI: the 40 levels of package minigrid, played in words by actions that walk."""
