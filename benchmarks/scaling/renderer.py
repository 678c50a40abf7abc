"""Costs of DICE-Talk, from what is published of it: docs/dice_talk.md says where each figure is from."""

import math

CALL_S = 1.2
"""One call of the U-Net at 512 x 512: three minutes for ten seconds, as the authors of Sonic say of a card of 24 GB."""
WINDOW_S = 2.0
"""What one call covers; each segment has one window of idle frames besides."""
TIERS = {"best": (25, 1.0), "good": (15, 1.0), "draft": (10, (384 / 512) ** 2)}
"""Steps, and the time of a call as a share of that at 512 x 512, which grows with the area."""

POD_S = 240.0
"""From a new pod to its readiness: 60 s until its container runs, image at hand, 180 s for 12 GB of weights and warming
up; an assumption."""
DEADLINE_S = 300.0
"""Time that a turn gets (`turn.deadlineS` of values-gpu.yaml)."""
FAREWELL_S = 0.5
"""What of it the gateway keeps to end well."""


def cost_s(duration_s: float, tier: str) -> float:
    """Return the seconds that so much speech takes."""
    steps, share = TIERS[tier]
    windows = 1 + math.ceil((duration_s - 0.04) / WINDOW_S)
    return steps * windows * CALL_S * share
