"""The understanding service."""
