"""Automatic scores of kept turns: a batch job beside a deployment, never part of a turn."""
