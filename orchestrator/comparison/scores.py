"""Automatic scores of texts and decided emotions."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from orchestrator.comparison.summaries import Tally

SCORES = ("hit", "agrees-text", "agrees-voice", "agrees-face")
"""Names of the scores that `benchmarks.scoring` keeps with turns."""

# Chinese and Japanese write no spaces: each of their characters is a token.
_CHARACTER = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_CHARACTER}]|[^\W{_CHARACTER}]+(?:['\u2019][^\W{_CHARACTER}]+)*")


def tokens(text: str) -> list[str]:
    """Split a text into lower-case words; punctuation is left out."""
    return _TOKEN.findall(text.casefold())


def distinct(replies: Iterable[Sequence[str]], length: int) -> float | None:
    """Return Dist-n: the number of different n-grams per token; None without a token.

    Li, Galley, Brockett, Gao & Dolan 2016, "A Diversity-Promoting Objective Function for Neural Conversation Models".
    It falls with the number of tokens, so compare texts of like length, such as single replies.

    Args:
        replies: Tokens of each reply. No n-gram crosses from one reply into the next.
        length: Tokens of an n-gram: 1 for Dist-1, 2 for Dist-2.
    """
    found: set[tuple[str, ...]] = set()
    count = 0
    for reply in replies:
        count += len(reply)
        found.update(zip(*(islice(reply, start, None) for start in range(length)), strict=False))
    return len(found) / count if count else None


def hits(turns: Iterable[tuple[str, str | None]]) -> Tally:
    """Count the turns whose decided emotion is the known label; its mean is HIT.

    Args:
        turns: Decided emotion and known label of each turn; without a label the turn does not count.
    """
    labelled = [decided == label for decided, label in turns if label is not None]
    return Tally(sum(labelled), len(labelled))
