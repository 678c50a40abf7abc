"""The renderers: one module each, named as the setting that chooses it."""
