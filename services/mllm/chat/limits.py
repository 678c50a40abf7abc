"""How much sound and how many frames a model takes, and the rest cut off, on record."""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from services.mllm.domain import AUDIO_RATE_HZ, Message


@dataclass(frozen=True)
class Limits:
    """What a model takes at most: the last seconds of the sound, and frames evenly spread."""

    audio_s_max: float
    frames_max: int


@runtime_checkable
class Limited(Protocol):
    """A chat model that hears or sees only so much at once."""

    limits: Limits


def within(message: Message, limits: Limits) -> tuple[Message, str]:
    """Returns as much of `message` as the limits let through, and what was cut, in words; nothing when it all fits.

    Where sound is cut off, so are the frames of that time, and the times of the others count from the new begin.
    """
    cut = []
    audio, frames = message.audio, message.frames
    length_s = 0.0 if audio is None else len(audio) / AUDIO_RATE_HZ
    if audio is not None and length_s > limits.audio_s_max:
        begin_s = length_s - limits.audio_s_max
        audio = audio[round(begin_s * AUDIO_RATE_HZ) :]
        frames = tuple(replace(one, time_s=one.time_s - begin_s) for one in frames if one.time_s >= begin_s)
        cut.append(f"audio {length_s:.1f} s to its last {limits.audio_s_max:g} s")
    if len(frames) > limits.frames_max:
        places = np.linspace(0, len(frames) - 1, limits.frames_max).round().astype(int)
        frames = tuple(frames[place] for place in places)
    if len(frames) < len(message.frames):
        cut.append(f"{len(message.frames)} frames to {len(frames)}")
    return replace(message, audio=audio, frames=frames), ", ".join(cut)
