"""Decisions of the plan, one pure function per file."""
