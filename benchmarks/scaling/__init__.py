"""How many replicas of the renderer a day of turns takes, and what the chart's own scaling makes of it."""
