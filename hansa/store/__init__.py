"""Object stores: S3, and what wraps, guards and reads them."""
