"""Measures on finished replies what the paper asked people: expressiveness, consistency, naturalness."""
