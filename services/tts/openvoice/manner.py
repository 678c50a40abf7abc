"""How strongly a style is spoken: how much of its speaker, at which pace and how loud."""

from dataclasses import dataclass
from typing import Final

from services.tts.domain import Delivery
from services.tts.speech import manner

DEFAULT: Final = "default"
STYLES: Final = tuple(manner.STYLES)
"""The styles of V1's English speaker are those of the wheel."""
PACE_SHARE: Final = 0.5
"""Of the embedded voices' move in pace: the rest is the speaker's own, who was recorded in these styles."""


@dataclass(frozen=True)
class Manner:
    """A style at an intensity.

    Attributes:
        style: Name of the speaker whose manner is mixed in.
        share: Of that speaker, 0 to 1; the rest is the default one.
        pace: Times as fast.
        level_db: Louder by, as in the embedded voices. The speaker's own loudness is levelled out.
        pause: Times as long between sentences.
    """

    style: str = DEFAULT
    share: float = 0.0
    pace: float = 1.0
    level_db: float = 0.0
    pause: float = 1.0


def of(delivery: Delivery) -> Manner:
    """Returns a style at an intensity: the default at 0, the whole style at 1, ever more in between."""
    move = manner.manner(delivery)
    share = 0.0 if delivery.style == DEFAULT else delivery.intensity
    return Manner(delivery.style, share, move.rate**PACE_SHARE, move.level_db, move.pause)
