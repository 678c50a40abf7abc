"""What a film costs, known before it is rendered.

    seconds = hearing + steps * windows * call + rendered frames * (picture + interpolation)

`windows` follows from the length (`windows.count`). The times are measured, for each size that a tier renders: when the
model warms up, and then with every film.
"""

import math
from typing import Final, Generic, TypeVar

from services.video.dice_talk import windows
from services.video.dice_talk.tiers import Tier

FPS: Final = 25
WINDOW_S: Final = 2 * windows.WINDOW / FPS
"""What a window lasts: up to n times that costs n + 1 windows, of which one holds the idle frames."""
NEWS: Final = 0.2
"""How much a new measurement counts against those before it."""

Key = TypeVar("Key")


def frames_of(duration_s: float) -> int:
    """Returns the frames of a film, at 25 fps, that cover so much speech."""
    return math.ceil(duration_s * FPS - 1e-6)


def rendered_of(frames: int) -> int:
    """Returns the frames that are rendered, at 12.5 fps, for a film of so many.

    One more than half: n of them give 2 n - 1, and the last may lie where the speech ends.
    """
    return frames // 2 + 1 if frames else 0


class _Means(Generic[Key]):
    """Means of what was measured lately, by key; 0 where nothing was."""

    def __init__(self) -> None:
        self._means: dict[Key, float] = {}

    def add(self, key: Key, seconds: float) -> None:
        mean = self._means.setdefault(key, seconds)
        self._means[key] = mean + NEWS * (seconds - mean)

    def __getitem__(self, key: Key) -> float:
        return self._means.get(key, 0.0)


class Costs:
    """Measures, and reckons."""

    def __init__(self) -> None:
        self._audio: _Means[None] = _Means()
        self._call: _Means[int] = _Means()
        self._picture: _Means[int] = _Means()
        self._between: _Means[int] = _Means()

    def add_audio(self, seconds: float) -> None:
        """Takes the time that listening to a segment took."""
        self._audio.add(None, seconds)

    def add_call(self, tier: Tier, seconds: float) -> None:
        """Takes the time of one call of the U-Net."""
        self._call.add(tier.side_px, seconds)

    def add_decoding(self, tier: Tier, rendered: int, seconds: float, interpolation_s: float) -> None:
        """Takes the time of decoding and scaling so many rendered frames; that of interpolating is a part of it."""
        self._picture.add(tier.side_px, (seconds - interpolation_s) / rendered)
        if tier.interpolated:
            self._between.add(tier.side_px, interpolation_s / rendered)

    def reckon(self, duration_s: float, tier: Tier) -> float:
        """Returns the seconds that so much speech takes."""
        rendered = rendered_of(frames_of(duration_s))
        frame_s = self._picture[tier.side_px] + tier.interpolated * self._between[tier.side_px]
        return self._until_decoded(rendered, tier) + rendered * frame_s

    def denoising_part(self, duration_s: float, tier: Tier) -> float:
        """Returns the part of the time, 0 to 1, after which so much speech is denoised and its frames begin to come."""
        return self._until_decoded(rendered_of(frames_of(duration_s)), tier) / (self.reckon(duration_s, tier) or 1.0)

    def _until_decoded(self, rendered: int, tier: Tier) -> float:
        if not rendered:
            return 0.0
        return self._audio[None] + tier.steps * windows.count(rendered) * self._call[tier.side_px]
