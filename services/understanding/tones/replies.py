"""Chooses among the stored replies those that fit a reading, the best first."""

import re
from collections.abc import Sequence
from zlib import crc32

from emotions import Label
from services.understanding.reader import DANGER, Heard, Reading
from services.understanding.tones.store import Act, Tone, Valence

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
FITS, FITS_AGAINST, FITS_BROADLY, FITS_ACT, FITS_DANGER = 0.8, 0.9, 0.6, 0.7, 0.8
"""Probability from which the replies of a tone are said, those of one whose valence the panel's vote denies, those that
hardly name more than good or bad, those that answer more than something told, and those that ask whether somebody is
safe, where the risk screen found nothing. Readers found 92 % of plain invitations to go on sayable, whatever was said:
what a reply names must be as likely to be right."""
TOLD = frozenset({Act.TELLING, Act.ANSWER})
BROAD = frozenset({"good", "bad", "any", "detail_good", "detail_bad", "detail_any"})
CLOUDED = 0.25
"""Probability that the replies of a sad tone, or of danger, fit from which no glad one is said: gravity is odd,
cheer in sorrow hurts."""
LISTENING, DECLINING, NODDING = "listening", "declining", "nodding"
"""Tones: one that names no feeling and lets the user go on, one for who does not want to, and one for who says "ok"."""
DECLINED = re.compile(
    r"^(?:please )?(?:never ?mind|forget it|drop it|leave it|leave me alone|stop(?: it| that| asking)?|i'?d rather not)"
    r"(?: please| now)?\W*$"
    r"|\b(?:stop asking|(?:don'?t|do not) ask) (?:me )?(?:so many|any ?thing|any|more|questions|things|stuff|that)\b"
    r"|^(?:don'?t|do not) (?:really )?(?:want to|wanna) (?:talk|say)\b"
    r"|\bi (?:really )?(?:don'?t|do not|would rather not|'d rather not) (?:really )?(?:want to |wanna |like to )?"
    r"(?:talk(?: about (?:it|that|this)| now| today)?\W*$|talk about (?:it|that|this)\b|say\b|go into\b)"
    r"|\btalk about (?:something|anything) else\b|\bnone of your business\b",
    re.IGNORECASE,
)
"""Says that the user would rather not say more."""
BARE = re.compile(
    r"^(?:(?:ok(?:ay)?|k|h+m+|m+|mm-?hm+|no+|nope|nah|yes|yeah|yep|yup|whatever|fine|fair enough|i suppose(?: so| not)?"
    r"|i guess(?: so| not)?|not (?:really|especially)|sure|maybe|perhaps|idk|i don'?t know|dunno|right|al(?:l )?right)"
    r"\W*)+$",
    re.IGNORECASE,
)
"""Says no more than yes, no or perhaps."""
QUESTION = re.compile(
    r"\?\W*$|^(?:so |and |but |ok |okay |hey )?"
    r"(?:(?:can|could|will|would|do|does|did|are|is|should) (?:you|i|u|it|there|we)\b"
    r"|(?:how|why|when|where|who|what)(?:'?s| (?:is|are|do|does|did|can|could|should|would|will|to|old|much|many))\b)",
    re.IGNORECASE,
)
ASKED = 0.2
"""Probability from which a question gets the answer of its likeliest tone, where none is likely enough."""
GOOD, BAD = 0.3, -0.2
"""Valence of a label that feels good, or bad (`emotions.Label.valence`)."""
OFFERED_MAX = 8


def fitting(reading: Reading, felt: Label, text: str, said: Sequence[str], seed: int) -> tuple[Tone, list[str]]:
    """Return the tone that is taken up and its replies, the best first.

    It is the best one that is likely to fit and has a reply that was not said; one that `felt`, what the panel decided
    on, denies must be likelier, and whether somebody is safe is asked before all else. Where none is, the reply lets
    the user go on, or nods; a question gets the answer that fits best of those that answer more than something told,
    and who does not want to talk is not pressed.
    """
    named = {each.tone.name: each.tone for each in reading.heard}
    is_clouded = _is_clouded(reading)
    likely = [each.tone for each in reading.heard if _is_likely(each, felt, is_clouded)]
    plain = text.replace("\u2019", "'").strip()
    if DECLINED.search(plain):
        likely.insert(0, named[DECLINING])
    elif QUESTION.search(plain):
        likely += [each.tone for each in reading.heard if each.tone.act not in TOLD and each.fit >= ASKED][:1]
    elif BARE.search(plain):
        likely.append(named[NODDING])
    likely.sort(key=lambda tone: tone.name != DANGER)
    tones = [*likely, named[LISTENING], named[Valence.ANY]]
    heard = {sentence for earlier in said for sentence in SENTENCE_END.split(earlier)}
    for is_new in (_has_no_sentence_of, _has_no_question_of):
        for tone in tones:
            if replies := [reply for reply in _turned(tone.replies, text, seed) if is_new(reply, heard)]:
                return tone, replies[:OFFERED_MAX]
    return named[LISTENING], list(named[LISTENING].replies)


def _is_clouded(reading: Reading) -> bool:
    return any(each.tone.valence is Valence.BAD and each.fit >= CLOUDED for each in reading.heard)


def _is_likely(heard: Heard, felt: Label, is_clouded: bool) -> bool:
    if heard.tone.name == DANGER:
        return heard.fit >= FITS_DANGER
    if heard.tone.act not in TOLD:
        return heard.fit >= FITS_ACT
    if heard.tone.valence is Valence.GOOD and is_clouded:
        return False
    is_against = {Valence.GOOD: felt.valence <= BAD, Valence.BAD: felt.valence >= GOOD, Valence.ANY: False}
    if is_against[heard.tone.valence]:
        return heard.fit >= FITS_AGAINST
    return heard.fit >= (FITS_BROADLY if heard.tone.name in BROAD else FITS)


def _has_no_sentence_of(reply: str, heard: set[str]) -> bool:
    return not heard.intersection(SENTENCE_END.split(reply))


def _has_no_question_of(reply: str, heard: set[str]) -> bool:
    return SENTENCE_END.split(reply)[-1] not in heard


def _turned(replies: Sequence[str], text: str, seed: int) -> Sequence[str]:
    """Return the replies from another one on for another text or seed."""
    turn = (crc32(text.encode()) + seed) % len(replies)
    return (*replies[turn:], *replies[:turn])
