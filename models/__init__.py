"""Weights that arrive inside packages: what they are (`manifest.toml`) and how they get into the model folder."""
