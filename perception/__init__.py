"""Reads faces, voices and texts: used by voters, by generators and by the tests that measure what they make."""
