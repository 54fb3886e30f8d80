"""Signatures, sealing to public keys, and fingerprints of keys."""
