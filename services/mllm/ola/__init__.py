"""What the Ola back-end needs of the model's own code."""
