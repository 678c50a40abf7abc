# ruff: noqa: RUF001 - Chinese signs are meant
"""How the tones of Chinese syllables change in speech (tone sandhi), and which words change them together.

The rules are those of `tone_sandhi.py` of PaddleSpeech (Apache-2.0, Copyright 2021 PaddlePaddle Authors), with which
MeloTTS was trained, step by step in other words; that file's two lists of words are read from it.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import jieba
from pypinyin import Style, lazy_pinyin

NEUTRAL: Final = "5"
_PARTICLES: Final = frozenset("吧呢啊呐噻嘛吖嗨呐哦哒额滴哩哟喽啰耶喔诶的地得")
_BEFORE_GE: Final = frozenset("几有两半多各整每做是")
_DIRECTIONS: Final = frozenset("上下进出回过起开")
_PAUSES: Final = frozenset("：，；。？！“”‘’':,;.?!")

Word = tuple[str, str]
"""A word and its part of speech, as jieba names it."""


@dataclass(frozen=True)
class Neutral:
    """Words with a syllable without tone.

    Attributes:
        always: Words whose last syllable has no tone.
        never: Words that look as if theirs had none.
    """

    always: AbstractSet[str]
    never: AbstractSet[str]


def finals_of(word: str) -> list[str]:
    """Returns the finals of a word's syllables, each with the number of its tone ("ang4").

    Thirteen rare characters have no final, at which upstream stops; here it is a tone alone.
    """
    found: list[str] = lazy_pinyin(word, neutral_tone_with_five=True, style=Style.FINALS_TONE3)
    return [final or NEUTRAL for final in found]


def spoken(word: str, kind: str, neutral: Neutral) -> list[str]:
    """Returns the finals of a word with the tones that they have in speech."""
    finals = finals_of(word)
    _change_bu(word, finals)
    _change_yi(word, finals)
    _make_neutral(word, kind, finals, neutral)
    return _change_thirds(word, finals)


def merged(words: Sequence[Word]) -> list[Word]:
    """Joins words that change each other's tones."""
    joined = _with_ge_like(_with_bu(words))
    joined = _third_tones(_doubled(joined), lambda one, two: _all_third(one) and _all_third(two))
    joined = _third_tones(joined, lambda one, two: one[-1][-1] == "3" and two[0][-1] == "3")
    return _joined(joined, lambda _, word, place: place > 0 and word == "儿")


def _with_bu(words: Sequence[Word]) -> list[Word]:
    """Joins "不" and what follows it."""
    found: list[Word] = []
    before = ""
    for word, kind in words:
        whole = before + word if before == "不" else word
        if whole != "不":
            found.append((whole, kind))
        before = whole
    return [*found, ("不", "d")] if before == "不" else found


def _with_ge_like(words: Sequence[Word]) -> list[Word]:
    """Joins "听 一 听", and "一" and what follows it."""
    found: list[Word] = []
    for place, (word, kind) in enumerate(words):
        following = words[place + 1][0] if place + 1 < len(words) else None
        if place and word == "一" and words[place - 1] == (following, "v") and place - 1 < len(found):
            # The place among the words, though some before were joined: so upstream.
            verb, verb_kind = found[place - 1]
            found[place - 1] = (f"{verb}一{verb}", verb_kind)
        elif place and word == "一" and words[place - 1] == (following, "v"):
            return list(words)
        elif place > 1 and kind == "v" and words[place - 1][0] == "一" and words[place - 2][0] == word:
            continue
        else:
            found.append((word, kind))
    return _joined(found, lambda before, _word, _place: before == "一")


def _doubled(words: Sequence[Word]) -> list[Word]:
    return _joined(words, lambda before, word, _place: before == word)


def _joined(words: Sequence[Word], asked: Callable[[str, str, int], bool]) -> list[Word]:
    found: list[Word] = []
    for place, (word, kind) in enumerate(words):
        if found and asked(found[-1][0], word, place):
            found[-1] = (found[-1][0] + word, found[-1][1])
        else:
            found.append((word, kind))
    return found


def _third_tones(words: Sequence[Word], alike: Callable[[list[str], list[str]], bool]) -> list[Word]:
    """Joins words of at most three characters between which third tones meet."""
    finals = [finals_of(word) for word, _ in words]
    found: list[Word] = []
    was_joined = False
    for place, (word, kind) in enumerate(words):
        before = words[place - 1][0]
        was_joined = (
            place > 0
            and not was_joined
            and alike(finals[place - 1], finals[place])
            and not (len(before) == 2 and before[0] == before[1])
            and len(before) + len(word) <= 3
        )
        if was_joined:
            found[-1] = (found[-1][0] + word, found[-1][1])
        else:
            found.append((word, kind))
    return found


def _all_third(finals: Sequence[str]) -> bool:
    return all(final[-1] == "3" for final in finals)


def _set(finals: list[str], place: int, tone: str) -> None:
    finals[place] = finals[place][:-1] + tone


def _change_bu(word: str, finals: list[str]) -> None:
    if len(word) == 3 and word[1] == "不":
        _set(finals, 1, NEUTRAL)
        return
    for place, sign in enumerate(word[:-1]):
        if sign == "不" and finals[place + 1][-1] == "4":
            _set(finals, place, "2")


def _change_yi(word: str, finals: list[str]) -> None:
    if "一" not in word or all(sign.isnumeric() for sign in word):
        return
    if len(word) == 3 and word[1] == "一" and word[0] == word[2]:
        _set(finals, 1, NEUTRAL)
    elif word.startswith("第一"):
        _set(finals, 1, "1")
    else:
        for place, sign in enumerate(word[:-1]):
            if sign == "一":
                if finals[place + 1][-1] == "4":
                    _set(finals, place, "2")
                elif word[place + 1] not in _PAUSES:
                    _set(finals, place, "4")


def _make_neutral(word: str, kind: str, finals: list[str], neutral: Neutral) -> None:
    for place in range(1, len(word)):
        if word[place] == word[place - 1] and kind[0] in "nva" and word not in neutral.never:
            _set(finals, place, NEUTRAL)
    measure = word.find("个")
    last, before = word[-1], word[-2:-1]
    if (
        last in _PARTICLES
        or (before and last in "们子" and kind in {"r", "n"} and word not in neutral.never)
        or (before and last in "上下里" and kind in {"s", "l", "f"})
        or (before and last in "来去" and before in _DIRECTIONS)
    ):
        _set(finals, -1, NEUTRAL)
    elif word == "个" or (measure > 0 and (word[measure - 1].isnumeric() or word[measure - 1] in _BEFORE_GE)):
        _set(finals, measure, NEUTRAL)
    elif word in neutral.always or word[-2:] in neutral.always:
        _set(finals, -1, NEUTRAL)
    first, second = _halves(word)
    for half, end in ((first, len(first)), (second, len(finals))):
        if half in neutral.always or half[-2:] in neutral.always:
            _set(finals, end - 1, NEUTRAL)


def _halves(word: str) -> tuple[str, str]:
    """Cuts a word by the shortest word in it, the first of several."""
    shortest = min(jieba.cut_for_search(word), key=len)
    if word.startswith(shortest):
        return shortest, word[len(shortest) :]
    return word[: -len(shortest)], shortest


def _change_thirds(word: str, finals: list[str]) -> list[str]:
    if len(word) == 2 and _all_third(finals):
        _set(finals, 0, "2")
    elif len(word) == 3:
        cut = len(_halves(word)[0])
        if _all_third(finals):
            for place in {2: (0, 1), 1: (1,)}.get(cut, ()):
                _set(finals, place, "2")
        else:
            parts = finals[:cut], finals[cut:]
            for part in parts:
                if len(part) == 2 and _all_third(part):
                    _set(part, 0, "2")
                elif part is parts[1] and not _all_third(part) and part[0][-1] == parts[0][-1][-1] == "3":
                    _set(parts[0], -1, "2")
            return parts[0] + parts[1]
    elif len(word) == 4:
        for place in (0, 2):
            if _all_third(finals[place : place + 2]):
                _set(finals, place, "2")
    return finals
