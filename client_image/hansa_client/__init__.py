"""The program of one silo: play a world, keep what worked, train an adapter, send it."""
