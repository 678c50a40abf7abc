"""What was erased, and what is kept only for a while."""
