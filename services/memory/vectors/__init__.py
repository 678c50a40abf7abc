"""What was said, found again by meaning: immutable blocks of vectors as objects of the store, searched with NumPy."""
