"""Reads a label out of what a model wrote, or nothing: never a guess."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from services.mllm.chat.thoughts import after_thoughts

_FIELD = re.compile(
    r"""["'](?:emotion|label|answer|feeling|class)["']\s*:\s*\[?\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE
)
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "`": "'"})

_TOKEN = re.compile(
    r"(?P<word>[^\W\d_]+(?:'[^\W\d_]+)*)|(?P<comma>,)|(?P<end>[.;:!?()\[\]\n\u2014\u2013\u2026]|\s-+\s)"
)
_DENIAL = re.compile(
    r"not?|never|neither|nor|none|nothing|without|non|un|hardly|barely|less|cannot|doubt|unlikely"
    r"|\w+n't|(?:do|does|did|is|was|are|ca|wo)nt"
)
_DENIAL_PAIRS = frozenset(
    {
        ("anything", "but"),
        ("far", "from"),
        *((first, "of") for first in ("absence", "devoid", "free", "instead", "lack", "opposite")),
    }
)
_CONTRAST = re.compile(r"but|rather|instead|just|only|though|although|however|yet|other")
"""After one of these, what was denied before it is over; "rather than" and "other than" are told by what follows."""


class LabelParser:
    """Finds the one label that a text names.

    Args:
        labels: What may be answered.
        forms: By label: other words that mean it.
        beside: Patterns of what is said beside an answer and is none.

    Raises:
        ValueError: A form means two labels, or belongs to a word that is no label.
    """

    def __init__(self, labels: Sequence[str], forms: Mapping[str, Sequence[str]], beside: Sequence[str] = ()) -> None:
        self._labels = {label: label for label in labels}
        for label, words in forms.items():
            for word in words:
                if label not in labels or word in self._labels:
                    raise ValueError(f"form {word!r} of {label!r}: not a label of the wheel, or taken already")
                self._labels[word] = label
        self._beside = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in beside) or r"(?!)")

    def parse(self, text: str) -> str:
        """Returns the label that `text` names, or an empty string when it names none or more than one.

        Words count whole and in any case or script style; a word that the text denies does not count.
        """
        named = {label for label, is_denied in self._mentions(_answer_of(after_thoughts(text))) if not is_denied}
        return named.pop() if len(named) == 1 else ""

    def _mentions(self, text: str) -> list[tuple[str, bool]]:
        folded = unicodedata.normalize("NFKC", text).casefold().translate(_APOSTROPHES)
        visible = "".join(one for one in folded if unicodedata.category(one) not in {"Cf", "Mn"})
        mentions: list[tuple[str, bool]] = []
        is_denied, before = False, ""
        for token in _TOKEN.finditer(self._beside.sub(" ", visible)):
            word = token["word"] or token[0]
            if word in self._labels:
                mentions.append((self._labels[word], is_denied))
            elif token["comma"]:
                # "Not happy, sad" and "no, sad", but "not, I think, happy".
                is_denied &= not (before == "no" or before in self._labels)
            elif word == "than":
                is_denied = before != "other"
            elif (before, word) == ("?", "no") and mentions:
                mentions[-1] = (mentions[-1][0], True)
            elif _DENIAL.fullmatch(word) or (before, word) in _DENIAL_PAIRS:
                is_denied = True
            elif token["end"] or (_CONTRAST.fullmatch(word) and before != "no"):
                is_denied = False
            before = word
        return mentions


def _answer_of(text: str) -> str:
    """The values of the answer in JSON, where `text` holds that; else `text`."""
    values = ["".join(found) for found in _FIELD.findall(text)]
    return "; ".join(values) if values else text
