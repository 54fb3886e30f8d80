"""What parties in clusters of their own send one another: signed letters in the bucket."""
