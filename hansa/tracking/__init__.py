"""A run's figures for experiment trackers: what they are, and one module for each tracker."""
