"""How a message sounds, and replies that fit whatever is said so."""
