"""A whole identity as one file."""
