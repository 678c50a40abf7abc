"""Chats with sound and frames, as models that hear and see are asked."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.mllm.chat.model import Turn
from services.mllm.domain import AUDIO_RATE_HZ, Frame

CHANCE = np.random.default_rng(5)


def sound(seconds: float) -> NDArray[np.float32]:
    return CHANCE.uniform(-0.5, 0.5, round(seconds * AUDIO_RATE_HZ)).astype(np.float32)


def picture(height_px: int = 120, width_px: int = 160) -> NDArray[np.uint8]:
    """Four colours, a quarter each."""
    quarter = np.ones((height_px // 2, width_px // 2, 1), np.uint8)
    return np.kron(CHANCE.integers(0, 255, (2, 2, 3), dtype=np.uint8), quarter)


def film(count: int, height_px: int = 120, width_px: int = 160) -> tuple[Frame, ...]:
    """Two frames a second."""
    return tuple(Frame(place / 2, picture(height_px, width_px)) for place in range(count))


SOUND, FILM = sound(2.5), film(5)
WORDS = (Turn("system", "Be brief."), Turn("user", "And nobody at work said a word."))
HEARD = (WORDS[0], replace(WORDS[1], audio=SOUND))
SEEN = (WORDS[0], replace(WORDS[1], frames=FILM))
BOTH = (WORDS[0], replace(WORDS[1], audio=SOUND, frames=FILM))
