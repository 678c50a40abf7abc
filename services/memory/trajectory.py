"""Mood of a conversation: means over its turns, in which an older turn counts less."""

from collections.abc import Sequence

import emotions
from services.memory.domain import Trajectory, Turn

HALF_LIFE_S = 600.0
"""After so long a turn counts half. An own choice, not a measured one: a few minutes' pause keeps the mood, an hour's
pause leaves next to nothing of it beside what is said now."""


def trajectory(turns: Sequence[Turn], now_s: float, half_life_s: float = HALF_LIFE_S) -> Trajectory:
    """Returns how the user felt over `turns`.

    A turn weighs 2 ** -(age / half-life). Valence and arousal are those of its label on the wheel, times the intensity
    that the user's emotion had. Turns whose label the wheel no longer has are left out.

    Args:
        turns: In the order in which they were said.
        now_s: Unix time. A turn that says it is of later is of now: clocks differ.
        half_life_s: Seconds, above 0.
    """
    labels = emotions.load().labels
    felt = [turn for turn in turns if turn.user_emotion in labels]
    ages_s = [max(0.0, now_s - turn.said_at_s) for turn in felt]
    # Only their proportions count. Relative to the youngest no conversation is so old that all weights vanish.
    weights = [2.0 ** -((age_s - min(ages_s)) / half_life_s) for age_s in ages_s]
    valences = [labels[turn.user_emotion].valence * turn.user_intensity for turn in felt]
    arousals = [labels[turn.user_emotion].arousal * turn.user_intensity for turn in felt]
    by_label: dict[str, float] = {}
    for turn, weight in zip(felt, weights, strict=True):
        by_label[turn.user_emotion] = by_label.get(turn.user_emotion, 0.0) + weight / sum(weights)
    half = len(felt) // 2
    older, newer = slice(half), slice(len(felt) - half, None)
    return Trajectory(
        label=max(by_label, key=by_label.__getitem__, default=""),
        weights=by_label,
        valence=_mean(valences, weights),
        arousal=_mean(arousals, weights),
        valence_change=_mean(valences[newer], weights[newer]) - _mean(valences[older], weights[older]),
        half_life_s=half_life_s,
    )


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Returns the weighted mean; of nothing it is 0."""
    together = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / together if together else 0.0
