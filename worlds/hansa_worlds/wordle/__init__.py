"""The wordle of LMRL-Gym, with forty words or a list of yours."""
