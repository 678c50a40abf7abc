"""Measures the risk screen on messages that nothing was trained or tuned on."""
