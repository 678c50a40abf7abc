"""Turns what the user said of themselves into what one says to them: "My dog is ill." becomes "your dog was ill".

There is no parser here, so it is careful instead: whatever is not plainly a statement of who did or is what gives
nothing, and the caller then does without.
"""

import re
import tomllib
import unicodedata
from importlib import resources

from services.mllm.reply.gate import words

CLAUSE_WORDS_MIN, CLAUSE_WORDS_MAX = 3, 14
TOPIC_WORDS_MAX = 3
_LOST = re.compile(r"\b([Ii])(m|ve)\b")
_LOST_NOT = re.compile(r"\b(ca|do|does|did|is|are|was|were|has|have|had|could|would|should)nt\b", re.IGNORECASE)
"""Apostrophes that people leave out."""
SUBJECT_WORDS_MAX = 6
"""The verb must stand within so many words of a subject that is no pronoun."""

_CONTENT = tomllib.loads(resources.files("services.mllm.reply").joinpath("second_person.toml").read_text("utf-8"))
_GATE = tomllib.loads(resources.files("services.mllm.reply").joinpath("gate.toml").read_text("utf-8"))
_SWAPPED: dict[str, str] = _CONTENT["swapped"]
_PRESENT: dict[str, str] = _CONTENT["present"]
_PAST: dict[str, str] = _CONTENT["past"]
_PAST_AFTER_YOU: dict[str, str] = _CONTENT["past_after_you"]
_VERBS = frozenset(words(_CONTENT["verbs"]))
_ENDS_NOUN = frozenset(words(_CONTENT["ends_noun"])) | _VERBS
_VAGUE = frozenset(words(_CONTENT["vague"]))
_PEOPLE = frozenset(words(" ".join((_CONTENT["people"], _GATE["male"], _GATE["female"], _GATE["anybody"]))))
_PLACES = frozenset(words(_CONTENT["places"]))
_PARTICLES = frozenset(words(_CONTENT["base_form_follows"]))

_OPENERS = re.compile(_CONTENT["openers"], re.IGNORECASE)
_TIME = re.compile(_CONTENT["time"], re.IGNORECASE)
_TIME_AT_END = re.compile(rf"^(?:{_TIME.pattern})[ ,]+|[ ,]+(?:{_TIME.pattern})$", re.IGNORECASE)
_REFUSED = re.compile(_CONTENT["refused"], re.IGNORECASE)
_DANGLING = re.compile(_CONTENT["dangling"], re.IGNORECASE)
_THIRD_PERSON = re.compile(_CONTENT["third_person"], re.IGNORECASE)
_NAMED = re.compile(_CONTENT["named"], re.IGNORECASE)
_NEXT_CLAUSE = re.compile(_CONTENT["next_clause"], re.IGNORECASE)
_SUBJECT = re.compile(_CONTENT["subject"], re.IGNORECASE)
_SOMEBODY = re.compile(rf"\b(?:{'|'.join(sorted(_PEOPLE))})\b|(?<=[a-z] )[A-Z][a-z]+")
_HAVE_GOT = re.compile(r"\b(i|we)'ve got(?= (?:a|an|the|my|our|no|two)\b)", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z' ,-]+")
_TOKEN = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*|[^A-Za-z]+")
_OWNED = re.compile(r"(?:([A-Za-z']+) )?\b(?:my|our) (?=([A-Za-z' -]+))", re.IGNORECASE)


def clause(sentence: str, is_past: bool = True) -> str:
    """Returns what `sentence` says, told to the one who said it and set in the past, or an empty string.

    "I have a court letter in my mailbox." becomes "you had a court letter in your mailbox", or "you have" where
    `is_past` is false. Times that count from the moment of speaking ("today") are left out where they stand at an end;
    anywhere else they leave nothing.
    """
    if sentence.rstrip().endswith("?"):
        return ""
    said = _plain(sentence).rstrip(".! ")
    said = _ends_cut(_NEXT_CLAUSE.split(_OPENERS.sub("", said), maxsplit=1)[0])
    if len(words(said)) > CLAUSE_WORDS_MAX or not _PLAIN.fullmatch(said):
        return ""
    if any(found.search(said) for found in (_REFUSED, _TIME, _DANGLING)) or _means_stranger(said) or not _states(said):
        return ""
    told = _told(said, is_past)
    return told if len(words(told)) >= CLAUSE_WORDS_MIN else ""


def topic(sentence: str) -> str:
    """Returns the first person or thing that the user calls theirs, as "your dog Rex", or an empty string.

    A thing that only says where something is ("in my mailbox") is not what the sentence is about.
    """
    for owned in _OWNED.finditer(_plain(sentence)):
        name = _noun(owned[2].split())
        is_somebody = name[-1:].isalpha() and (name.split()[-1].lower() in _PEOPLE or not name.islower())
        if name and (is_somebody or (owned[1] or "").lower() not in _PLACES):
            return f"your {name}"
    return ""


def _plain(text: str) -> str:
    text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    text = " ".join(text.replace("\u2019", "'").split())
    return _LOST_NOT.sub(r"\1n't", _LOST.sub(r"\1'\2", text))


def _means_stranger(said: str) -> bool:
    """Tells whether "he", "her", "it" stand for something that the clause has not named before."""
    found = _THIRD_PERSON.search(said)
    if not found:
        return False
    before = said[: found.start()]
    return not (_NAMED if found[0].lower() in _CONTENT["things"] else _SOMEBODY).search(before)


def _ends_cut(said: str) -> str:
    """Leaves out times of the moment where they stand first or last."""
    before = None
    while before != said:
        before = said
        said = _TIME_AT_END.sub("", said).strip(" ,-")
    return said


def _states(said: str) -> bool:
    """Tells whether a clause begins with a subject and goes on with a verb of it."""
    spoken = words(said)
    if not spoken:
        return False
    if spoken[0] in _SWAPPED:
        return spoken[0] not in _CONTENT["possessives"] or _has_verb(spoken)
    return _SUBJECT.match(said) is not None and _has_verb(spoken)


def _has_verb(spoken: list[str]) -> bool:
    return any(word in _VERBS or word.endswith("ed") for word in spoken[: 1 + SUBJECT_WORDS_MAX])


def _told(said: str, is_past: bool) -> str:
    told: list[str] = []
    before = ""
    for place, token in enumerate(_TOKEN.findall(_HAVE_GOT.sub(r"\1 have", said))):
        word = token.lower()
        if not word[0].isalpha():
            told.append(token)
            continue
        is_base = before in _PARTICLES
        if word in _SWAPPED:
            now = _SWAPPED[word] if is_past else _PRESENT.get(word, _SWAPPED[word])
        elif word == "was" and before == "you":
            now = "were"
        elif word == "wasn't" and before == "you":
            now = "weren't"
        elif word == "am":
            now = "were" if is_past else "are"
        elif not is_past:
            now = token if place or not _SUBJECT.fullmatch(token) else word
        elif word in _PAST and not is_base and not (place and token[0].isupper()):
            now = _PAST[word]
        elif word in _PAST_AFTER_YOU and before == "you":
            now = _PAST_AFTER_YOU[word]
        else:
            now = token if place or not _SUBJECT.fullmatch(token) else word
        told.append(now)
        before = now.split()[-1].lower()
    return "".join(told)


def _noun(following: list[str]) -> str:
    """Returns the noun that words after "my" begin with, with the name behind it; empty when its end is not sure."""
    taken: list[str] = []
    for word in following:
        low = word.lower().strip("'")
        owned = low.removesuffix("'s")
        is_name = bool(taken) and word[0].isupper()
        if not is_name and (owned in _ENDS_NOUN or (owned not in _PEOPLE and low.endswith("ed") and taken)):
            break
        taken.append(word.removesuffix("'s").strip("'"))
        if (is_name and not _is_name_next(following, len(taken))) or low != word.lower() or owned != low:
            break
        if owned in _PEOPLE and not _is_name_next(following, len(taken)):
            break
        if len(taken) > TOPIC_WORDS_MAX:
            return ""
    last = taken[-1].lower() if taken else ""
    is_unsure = len(taken) > 1 and last not in _PEOPLE and last.endswith("s") and taken[-1].islower()
    return "" if not taken or is_unsure or last in _VAGUE else " ".join(taken)


def _is_name_next(following: list[str], place: int) -> bool:
    return place < len(following) and following[place][0].isupper()
