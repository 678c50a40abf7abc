"""How much work a film is worth."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field


class Tier(BaseModel):
    """One quality: every tier gives frames of the same size and rate, so that segments of different tiers fit."""

    model_config = ConfigDict(frozen=True)

    steps: int = Field(ge=1, le=100)
    """Denoising steps; time grows with them."""
    side_px: int = Field(ge=64, le=1024, multiple_of=64)
    """Side of the square that is rendered; time grows with its square or faster. Scaled to the output's size."""
    interpolated: bool
    """Whether a network makes the frames between those that are rendered; if not, each is shown twice."""


TIERS: Final = {
    "best": Tier(steps=25, side_px=512, interpolated=True),
    "good": Tier(steps=15, side_px=512, interpolated=True),
    "draft": Tier(steps=10, side_px=384, interpolated=False),
}
"""Best first. The first is what DICE-Talk's own script does; the others were never seen with the published weights."""
