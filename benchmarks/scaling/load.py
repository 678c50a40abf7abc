"""A day of turns: how many users there are at once, when each speaks, and how long the reply is."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.scaling import renderer
from e3rg.video.v1 import video_pb2 as video
from orchestrator.segments import Cutter

RATE_HZ = 8_000
FPS = 25
SEGMENTS = (1.0, 4.0, 8.0, 2.0)
"""DICE-Talk's least of the first segment, least and most of the others, and window, in seconds (docs/dice_talk.md)."""
SENTENCE_S, PAUSE_S, SENTENCES = (1.2, 2.8), 0.25, (2, 6)
REPLIES = 40
"""Different replies; each turn has one of them."""

USERS: Sequence[tuple[float, float]] = (
    (0, 0.05),
    (20, 0.05),
    (45, 0.6),
    (60, 0.6),
    (65, 1.0),
    (80, 1.0),
    (85, 0.5),
    (89.99, 0.5),
    (90, 1.3),
    (94.99, 1.3),
    (95, 0.5),
    (105, 0.05),
    (120, 0.05),
)
"""Time in 120ths of a day, and users at once as a share of those at noon: night, morning, a plateau, noon, an afternoon
with a burst from one moment to the next, night."""
TURN_EVERY_S = 120.0
"""Time from a user's turn to the next; an assumption: the reply is watched, and the next message is thought of."""
SHORT_S, LONG_S = 7200.0, 86400.0
"""A day in short, whose morning comes within minutes, and one of 24 hours."""


@dataclass(frozen=True)
class Turn:
    """One turn: when its message has come, and which reply it gets."""

    at_s: float
    reply: int


@dataclass(frozen=True)
class Day:
    """A day of turns.

    Attributes:
        noon: Users at once at noon.
        length_s: How long it lasts.
        is_steady: Whether it is noon all day.
    """

    noon: float
    length_s: float = SHORT_S
    is_steady: bool = False

    def users(self, at_s: float) -> float:
        """Return the users at once at that time."""
        times, shares = zip(*USERS, strict=True)
        return self.noon * (1.0 if self.is_steady else float(np.interp(at_s / self.length_s * 120, times, shares)))

    def turns(self, seed: int = 1) -> Iterator[Turn]:
        """Yield the turns in their order: they come by chance, at the rate of the users at once."""
        chance = random.Random(seed)
        most = self.noon * max(share for _, share in USERS)
        at_s = 0.0
        while (at_s := at_s + chance.expovariate(most / TURN_EVERY_S)) < self.length_s:
            if chance.random() * most < self.users(at_s):
                yield Turn(at_s, chance.randrange(REPLIES))


def speech(reply: int) -> "list[np.ndarray[tuple[int], np.dtype[np.int16]]]":
    """Return the sentences of a reply, each a tone and a pause: int16 (n,), mono, at `RATE_HZ`."""
    chance = random.Random(reply)
    sentences = []
    for _ in range(chance.randint(*SENTENCES)):
        count = round(chance.uniform(*SENTENCE_S) * RATE_HZ)
        tone = 8000 * np.sin(np.arange(count) * 2 * np.pi * 220 / RATE_HZ)
        sentences.append(np.append(tone, np.zeros(round(PAUSE_S * RATE_HZ))).astype(np.int16))
    return sentences


def segments() -> list[list[float]]:
    """Return the seconds of each segment of each reply, cut as the gateway cuts them."""
    first_s, min_s, max_s, window_s = SEGMENTS
    renderer = video.GetModelResponse(
        fps=FPS, segment_first_s=first_s, segment_min_s=min_s, segment_max_s=max_s, segment_window_s=window_s
    )
    found = []
    for reply in range(REPLIES):
        cutter = Cutter(RATE_HZ, renderer)
        cuts = [cut for sentence in speech(reply) for cut in cutter.add(sentence, ())]
        found.append([cut.duration_s for cut in (*cuts, *cutter.finish())])
    return found


def work_s(segments: Sequence[Sequence[float]], quality: str) -> float:
    """Return the seconds that rendering a reply takes on average."""
    return sum(renderer.cost_s(each, quality) for reply in segments for each in reply) / len(segments)
