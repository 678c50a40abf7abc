"""The orchestrator: the story of a turn, and the door to it."""
