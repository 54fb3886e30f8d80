"""Commands of `hansa` that need torch or a world; the package registers them by entry points."""
