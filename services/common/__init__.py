"""The chassis that every service rides on. No domain word stands here."""

__version__ = "0.1.0"
"""Version of the application, which `pyproject.toml` takes from here."""
