"""Shows what it costs to cut a reply in one way or another: rows side by side in one run.

    python -m benchmarks.cuts

The embedded voice speaks ten replies as two people. Segments are counted in windows, as DICE-Talk renders them: one for
each 2 s that are begun, and one more. What does not depend on any machine is all that is printed.
"""

import argparse
import math
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.hearing import people
from e3rg.video.v1 import video_pb2 as video
from orchestrator.segments import Cutter
from services.tts.backends import hibari
from services.tts.domain import Delivery
from services.tts.hibari.network import RATE_HZ

FPS, WINDOW_S, MOST_S = 25, 2.0, 8.0
STRETCH_S = 0.4
SPEAKERS = ("anna", "marcus")
REPLIES = (
    "I'm so sorry to hear that. Losing a friend like that hurts, and there is no right way to feel about it. Would you "
    "like to tell me what he was like?",
    "That is wonderful news! You worked so hard for it, and now it has finally paid off. Tell me everything. How did "
    "they tell you? And who did you call first?",
    "Hm, I see why that made you angry. He promised to call, and then he just didn't. You could write to him tonight, "
    "or wait a day until it feels less raw. Either is fine.",
    "Oh no. Are you hurt? Sit down for a moment, breathe slowly, and drink some water. If it gets worse, please call "
    "someone who can be with you.",
    "It sounds like a long day. You got up at five, you missed the train, and then the meeting was moved. No wonder "
    "you are tired. Maybe tonight you leave the dishes, have something warm, and go to bed early.",
    "Yes, I remember. You said that the garden was the only place where it was quiet. Is it still like that, now that "
    "the new neighbours have moved in?",
    "I don't know the answer to that, but I can tell you how I would think about it. First, ask yourself what you "
    "would regret more. Then, ask what you would advise a friend. Often these two point in the same direction, and you "
    "already know.",
    "Really? That is disgusting. I would not have eaten it either, and I would have told the waiter.",
    "It is normal to be afraid before an exam. You have prepared for weeks, you know the material, and one bad morning "
    "does not change that. Let's go through the first chapter together, slowly, and see what is still there.",
    "Good morning! Did you sleep well?",
)
WAYS = ((4.0, 4.0, 0.0), (4.0, 4.0, WINDOW_S), (2.0, 4.0, WINDOW_S), (1.0, 4.0, 0.0), (1.0, 4.0, WINDOW_S))
"""The least of the first segment, the least of the others, and the windows of which the cutter knows, seconds."""


def spoken() -> Iterator[NDArray[np.int16]]:
    """Yields the replies as each speaker says them."""
    backend = hibari.create()
    for person in people(SPEAKERS):
        voice = person.voice(backend)
        for reply in REPLIES:
            sentences = re.split(r"(?<=[.!?]) ", reply)
            parts = [backend.speak([sentence], voice, Delivery("default", 0.0)) for sentence in sentences]
            yield np.concatenate([speech.samples for speech in chain(*parts)])
    backend.close()


def durations(samples: NDArray[np.int16], way: tuple[float, float, float]) -> list[float]:
    """Cuts a reply as it comes; returns the seconds of its segments."""
    first_s, least_s, window_s = way
    renderer = video.GetModelResponse(
        fps=FPS, segment_first_s=first_s, segment_min_s=least_s, segment_max_s=MOST_S, segment_window_s=window_s
    )
    cutter, step = Cutter(RATE_HZ, renderer), round(STRETCH_S * RATE_HZ)
    coming = chain(*(cutter.add(samples[at : at + step], []) for at in range(0, len(samples), step)))
    return [segment.duration_s for segment in chain(coming, cutter.finish())]


def windows(duration_s: float) -> int:
    """Returns the windows of a segment: its own, and one of idle frames."""
    return math.ceil(duration_s / WINDOW_S) + 1


def row(way: tuple[float, float, float], replies: Sequence[NDArray[np.int16]]) -> str:
    """Cuts all replies in one way, and sums up."""
    cut = [durations(samples, way) for samples in replies]
    segments = list(chain(*cut))
    firsts = [found[0] for found in cut]
    return (
        f"{way[0]:5.0f} {way[1]:6.0f} {'whole windows' if way[2] else 'first pause':>15} {fmean(firsts):11.1f} s"
        f" {fmean(map(windows, firsts)):12.2f} {sum(map(windows, segments)) / sum(segments):14.2f} {len(segments):9}"
    )


def main() -> int:
    """Runs the program."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    replies = list(spoken())
    print(f"{len(replies)} replies, {sum(map(len, replies)) / RATE_HZ:.0f} s of speech")
    print("first  least          cut at  first segment  its windows  windows per s  segments")
    for way in WAYS:
        print(row(way, replies))
    return 0


if __name__ == "__main__":
    sys.exit(main())
