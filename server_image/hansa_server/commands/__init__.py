"""Commands of `hansa` that work on adapters; the package registers them by entry points."""
