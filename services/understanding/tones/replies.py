"""Choice of the stored replies that fit a reading best."""

import re
from collections.abc import Sequence

from emotions import Label
from services.understanding.reader import Reading
from services.understanding.tones.fits import Fit
from services.understanding.tones.store import Tone, Valence

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
GOOD_WEIGHT = 0.2
"""Of the probability that a reply takes up just what was said, beside that it can be said."""
ALIKE = 0.02
"""Replies that are worth as much less than the best are as good: the seed decides among them."""
GLADDER = 0.2
"""Least by which the likeliest glad tone must be likelier to fit than the likeliest sad one, or danger, for a glad
reply: gravity is odd, cheer in sorrow hurts. Of 200 glad replies to messages held out 0.5 % were harmful so, 1.4 %
without."""
GLAD_AGAINST, NEVER = 0.9, 2.0
"""Probability that a glad reply can be said from which it is where the panel decided on what feels bad, and where a sad
one may fit as well."""
BAD = -0.2
"""Valence of a label that feels bad (`emotions.Label.valence`)."""
NAME = "{name}"
"""Stands in replies for what the avatar is called."""
NO_FIT = Fit(0.0, 0.0)
TAKES_UP_FIT = 0.75
"""Probability that a reply can be said from which its first sentence alone may take up a message in danger."""
GRAVE = frozenset({"bad", "confide", "danger", "hardship", "hurt", "lonely", "loss", "low", "worry"})
"""Tones of which a first sentence may do so: the others agree, calm or look ahead."""
HOPES = re.compile(r"\bhope\b", re.IGNORECASE)
OFFERED_MAX = 8


def fitting(
    reading: Reading, felt: Label, name: str, said: Sequence[str], seed: int, is_grave: bool = False
) -> tuple[Tone, list[str]]:
    """Return the tone of the reply that fits best, and replies of which no sentence was said, the best first.

    Nothing glad is said where `felt`, what the panel decided on, or a tone denies it, or the talk is grave. Another
    seed may choose another of those that fit alike. `name` is what the avatar is called.
    """
    is_clouded = is_grave or _is_clouded(reading)
    worth, tones = {}, {}
    for each in reading.heard:
        bar = _bar(each.tone, felt, is_clouded)
        for reply in each.tone.replies:
            fit = reading.fits.get(reply, NO_FIT)
            if fit.sayable >= bar and (name or NAME not in reply):
                told = reply.replace(NAME, name)
                worth[told], tones[told] = fit.sayable + GOOD_WEIGHT * fit.good, each.tone
    best = sorted(worth, key=lambda reply: -worth[reply])
    heard = {sentence for earlier in said for sentence in SENTENCE_END.split(earlier)}
    new = [reply for reply in best if not heard.intersection(SENTENCE_END.split(reply))] or best
    alike = [reply for reply in new if worth[reply] >= worth[new[0]] - ALIKE]
    turn = seed % len(alike)
    chosen = [*alike[turn:], *alike[:turn], *new[len(alike) :]][:OFFERED_MAX]
    return tones[chosen[0]], chosen


def first_sentence(reading: Reading, said: Sequence[str]) -> str:
    """Return a new sentence that takes up a message in danger, no question; empty where none surely fits."""
    fits = {
        reply: reading.fits.get(reply, NO_FIT)
        for each in reading.heard
        if each.tone.name in GRAVE
        for reply in each.tone.replies
    }
    worth = {reply: fit.sayable + GOOD_WEIGHT * fit.good for reply, fit in fits.items() if fit.sayable >= TAKES_UP_FIT}
    firsts = (SENTENCE_END.split(reply)[0] for reply in sorted(worth, key=lambda reply: -worth[reply]))
    heard = "\n".join(said)
    return next((each for each in firsts if each.endswith(".") and not HOPES.search(each) and each not in heard), "")


def _is_clouded(reading: Reading) -> bool:
    glad, sad = (
        max(each.fit for each in reading.heard if each.tone.valence is valence)
        for valence in (Valence.GOOD, Valence.BAD)
    )
    return glad < sad + GLADDER


def _bar(tone: Tone, felt: Label, is_clouded: bool) -> float:
    """Return the probability that a reply of a tone can be said from which it is."""
    if tone.valence is not Valence.GOOD:
        return 0.0
    if is_clouded:
        return NEVER
    return GLAD_AGAINST if felt.valence <= BAD else 0.0
