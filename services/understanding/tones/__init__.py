"""Tones of messages, and replies that fit whatever is said so."""
