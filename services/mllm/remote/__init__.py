"""What a model behind HTTP is given, and what can be read out of its answers."""
