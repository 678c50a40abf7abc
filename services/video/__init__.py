"""The video service."""
