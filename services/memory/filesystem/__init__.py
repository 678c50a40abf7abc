"""What the back-end `filesystem` is made of."""
