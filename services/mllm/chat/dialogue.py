"""What people said, as it may stand in a prompt: as much as fits, and as data."""

import re
from collections.abc import Sequence

from services.mllm.domain import Utterance

_QUOTES = str.maketrans(dict.fromkeys('"\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\uff02', "'"))
_ROLES = re.compile(
    r"\b(speaker|listener|user|assistant|system|human|model|bot|instructions?|emotion|answer|response)\s*[:\uff1a]",
    re.IGNORECASE,
)


def as_data(text: str) -> str:
    """Returns `text` so that it can stand between double quotation marks on one line of a prompt.

    Line ends become spaces, double quotation marks single ones, and a name of a part of a prompt loses its colon:
    so no word of a user ends the quotation, begins a new line, or speaks for somebody else. Some models know turns by
    such names alone (Vicuna's "ASSISTANT:").
    """
    return _ROLES.sub(r"\1 -", " ".join(text.split()).translate(_QUOTES))


def latest(history: Sequence[Utterance], turns_max: int, chars_max: int) -> tuple[Utterance, ...]:
    """Returns the end of `history`: at most `turns_max` whole utterances with at most `chars_max` characters in all."""
    kept: list[Utterance] = []
    for utterance in reversed(history[-turns_max:] if turns_max else ()):
        chars_max -= len(utterance.text)
        if chars_max < 0:
            break
        kept.append(utterance)
    return tuple(reversed(kept))
