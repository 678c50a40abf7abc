"""State of a conversation after a risk: it fades by time, and no harmless message ends it."""

import re
from collections.abc import Sequence
from dataclasses import replace

from services.understanding.risk.domain import Earlier, Heeded, Kind, Risk, Severity, Source

FADES_S = {
    Severity.HIGH: ((900.0, Severity.HIGH), (3600.0, Severity.MEDIUM)),
    Severity.MEDIUM: ((1800.0, Severity.MEDIUM), (3600.0, Severity.LOW)),
    Severity.LOW: ((600.0, Severity.LOW),),
}
"""Severity of a risk up to each age, in seconds. An hour is as long as the memory keeps it."""

ADVISED_S = 600.0
"""Age of a risk up to which the advice on it is taken to be in mind."""

DONE = re.compile(
    r"^\W*((so|and|ok(ay)?|well|yes|yeah|there|now|sorry|please|oh god|fuck|shit)\W+)*"
    r"((i|i've|i have|we|he|she|they) (just |really |finally |already |only )?"
    r"(did|done|took|taken|swallowed|drank|drunk|cut|jumped|shot|hit|stabbed|used|finished|ate)"
    r"( (it|them|that|him|her|myself|all|everything|the rest|too much|too many)( all| now| already| again)*)?"
    r"|it'?s (done|over|too late( now)?|happening|starting( to work)?|all gone|in me( now)?)"
    r"|it is (done|over|too late( now)?|happening|all gone)|done|all (of )?(it|them)|no way back( now)?"
    r"|they'?re (all )?(gone|in me)|too late( now)?"
    r"|i('?m| am) (doing it|going now|bleeding|sleepy|dizzy|drowsy"
    r"|((getting|so|really|very|kinda) )+(sleepy|dizzy|drowsy|cold|tired)))\b"
    r"(\W+(now|already|again|tonight|today|just|all|of|it|them|the|pills|tablets|rest|bottle|sorry|bye|goodbye|and|so|an|a"
    r"|hour|half|few|five|ten|twenty|minutes?|ago|\d+|i'm|im|feel|getting|sleepy|dizzy|tired|scared|cold|is|gone))*\W*$",
    re.IGNORECASE,
)
"""Short messages that mean nothing alone, and that it was done after a risk."""
DONE_CHARS_MAX = 80


def heeded(found: Risk | None, text: str, earlier: Sequence[Earlier]) -> Heeded | None:
    """Return the risk that the reply to a message has to heed, None for none.

    Args:
        found: What the message alone speaks of.
        text: The message.
        earlier: Risks that the conversation raised before.
    """
    still = [(severity, risk) for risk in earlier if (severity := faded(risk))]
    severity, last = max(still, key=lambda each: (each[0], -each[1].age_s), default=(None, None))
    if last and severity and severity >= Severity.MEDIUM and last.kind is not Kind.CHILD and is_done(text):
        found = Risk(last.kind, Severity.HIGH, 1.0, Source.EARLIER)
        return Heeded(found, is_new=True)
    if found and last and severity and severity >= Severity.MEDIUM:
        if severity is Severity.HIGH and not found.is_sure and found.severity is not Severity.HIGH:
            # Nobody is asked whether there is a danger who has just told of one.
            return Heeded(Risk(last.kind, severity, found.confidence, Source.AGAIN), is_new=False)
        if _is_again(found, severity, still):
            return Heeded(Risk(found.kind, severity, found.confidence, Source.AGAIN), is_new=True)
    if found:
        # A weaker sign after a stronger one does not lessen it.
        return Heeded(replace(found, severity=max(found.severity, severity or Severity.LOW)), is_new=True)
    if last and severity:
        return Heeded(Risk(last.kind, severity, 1.0, Source.EARLIER), is_new=False)
    return None


def _is_again(found: Risk, severity: Severity, still: Sequence[tuple[Severity, Earlier]]) -> bool:
    """Tell whether a message surely speaks of a risk on which advice was given, without greater danger than then."""
    if not found.is_sure or found.severity > severity or found.severity is Severity.HIGH:
        return False
    return any(each >= found.severity and risk.kind is found.kind and risk.age_s < ADVISED_S for each, risk in still)


def faded(risk: Earlier) -> Severity | None:
    """Return how urgent an earlier risk still is, None when it has faded."""
    return next((severity for age_s, severity in FADES_S[risk.severity] if risk.age_s < age_s), None)


def is_done(text: str) -> bool:
    """Tell whether a message says, of what was spoken of before, that it was done."""
    said = " ".join(text.replace("\u2019", "'").split())
    return len(said) <= DONE_CHARS_MAX and bool(DONE.match(said))
