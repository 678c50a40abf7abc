"""Repositories: each keeps one kind of thing in the database."""
