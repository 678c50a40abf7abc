"""Risk: found in a message by a screen, remembered for a while, and answered with care."""
