"""Replicas of the renderer that a day of turns takes, by the chart's own scaling and by others."""
