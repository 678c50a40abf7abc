"""What a message does and is about, and replies that fit whatever is said with it."""
