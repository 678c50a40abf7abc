"""Leaves out of what a model writes what it thought aloud before."""

import re
from collections.abc import Iterable, Iterator

_OPEN = re.compile(r"<(?:think|thinking|thought)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)
_BEGUN = re.compile(r"</?[a-z]{0,8}\Z", re.IGNORECASE)
"""The end of a text that may be the beginning of a mark."""


def without_thoughts(pieces: Iterable[str]) -> Iterator[str]:
    """Yields a stream without what stands between <think> and </think>; a thought that does not end is left out."""
    held, is_thought = "", False
    for piece in pieces:
        held += piece
        while mark := (_CLOSE if is_thought else _OPEN).search(held):
            if mark.start() and not is_thought:
                yield held[: mark.start()]
            held, is_thought = held[mark.end() :], not is_thought
        begun = _BEGUN.search(held)
        ready = begun.start() if begun else len(held)
        if ready and not is_thought:
            yield held[:ready]
        held = held[ready:]
    if held and not is_thought:
        yield held


def after_thoughts(text: str) -> str:
    """Returns a whole answer without thoughts, also where the template, and so not the answer, opens the first one."""
    return _CLOSE.split("".join(without_thoughts([text])))[-1]
