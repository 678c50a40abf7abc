"""Cuts a text into sentences while it is being written.

The sentence splitters that are ready-made (pysbd, blingfire, the trained ones) want the whole text and take a
sentence's end for granted where the text ends, which in the middle of a stream is everywhere. This one waits for the
character behind the mark that decides, and no longer.
"""

import re

_END = re.compile(
    # Chinese and Japanese marks need no space behind them; others do, so that "3.5" and "e.g." go on.
    r"(?:[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\u201d\u2019\"')\uff09]*+)(?=.|\n)"
    r"|(?P<mark>[.!?\u2026]+)(?P<closing>[\"'\u201d\u2019)\]*_]*)(?=\s+(?P<next>\S))"
    r"|\n"
)
_LAST_WORD = re.compile(r"[^\s\"'\u201c\u2018(\[*_]+$")
_NEVER_LAST = re.compile(
    r"mrs?|ms|dr|prof|st|e\.g|i\.e|vs|approx|gen|gov|sen|rep|rev|capt|col|lt|sgt|mt|jr|fig", re.IGNORECASE
)
"""Abbreviations that something must follow."""


class Sentences:
    """What has been written and is not cut yet."""

    def __init__(self) -> None:
        self._rest = ""

    def add(self, piece: str) -> list[str]:
        """Returns the sentences that `piece` completes, their marks and closing quotes included."""
        self._rest += piece
        found, start, at = [], 0, 0
        while end := _END.search(self._rest, at):
            at = end.end()
            if end["mark"] and not _is_end(self._rest[start : end.start()], end["mark"], end["next"]):
                continue
            found.append(self._rest[start:at].strip())
            start = at
        self._rest = self._rest[start:]
        return [sentence for sentence in found if sentence]

    def finish(self) -> str:
        """Returns what is left when nothing more is written; it may be a whole sentence or the start of one."""
        rest, self._rest = self._rest.strip(), ""
        return rest


def _is_end(before: str, mark: str, following: str) -> bool:
    if following.islower():
        # "well... maybe", "p.m. on", "'Stop!' he said"
        return False
    if mark != ".":
        return True
    last = _LAST_WORD.search(before)
    word = last[0] if last else ""
    if word.lower() == "no":
        return not following.isdigit()
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    is_number_of_list = word.isdigit() and before.strip() == word
    return not (_NEVER_LAST.fullmatch(word) or is_initial or is_number_of_list)
