# ruff: noqa: RUF001 - Chinese signs are meant
"""Cuts Chinese, Japanese and Korean into sentences: their signs need no space behind them, few characters say much."""

import re
from typing import Final

from services.tts.speech import sentences
from services.tts.speech.sentences import Sentence

_SENTENCE: Final = re.compile(r"""([。!?;]+|\.+(?=\s|$))(["'”’」』》)\]]*)\s*""")
_CLAUSE: Final = re.compile(r"(?<=[,、:])\s*|\s+")


def cut(text: str, characters_max: int) -> list[Sentence]:
    """Returns what can be said of a text, in sentences of at most so many characters; a longer one goes on."""
    clean = sentences.clean(text, is_foreign=lambda _: False)
    lines = _SENTENCE.sub(r"\1\2\n", clean).replace("。", ".").splitlines()
    return [piece for line in lines if line.strip() for piece in _pieces(line.strip(), characters_max)]


def _pieces(sentence: str, most: int) -> list[Sentence]:
    if len(sentence) <= most:
        return [Sentence(sentence)]
    pieces = [""]
    for clause in _CLAUSE.split(sentence):
        for start in range(0, len(clause), most):
            part = clause[start : start + most]
            if len(pieces[-1]) + len(part) < most:
                pieces[-1] = f"{pieces[-1]} {part}".strip()
            else:
                pieces.append(part)
    pieces = [piece for piece in pieces if piece]
    return [Sentence(piece, is_cut=place < len(pieces) - 1) for place, piece in enumerate(pieces)]
