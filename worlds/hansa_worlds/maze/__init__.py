"""The maze of LMRL-Gym: the fixed double-T map, and as many generated mazes as you like."""
