"""Check of what a writer is about to say: what no avatar may say, whatever model writes."""

import re

from services.understanding.risk.domain import Severity
from services.understanding.risk.screen import RiskScreen

CLAIMS = re.compile(
    r"\bi(?:'ve| have|'ll| will|'m| am| just| already)? (?:just |already |now |going to |calling )*"
    r"(?:called?|calling|contacted|notif\w+|alerted|informed|dispatched|reported|sent)\b[^.!?]*\b(?:ambulance|police|help\b"
    r"|emergency|911|112|999|doctor|hotline|authorities|someone|your (?:family|parents|mother|father|friend))"
    r"|\bhelp is on (?:the|its) way\b|\bi (?:saw|watched|was there|met|visited|drove|held|hugged)\b",
    re.IGNORECASE,
)
"""Acts and sights that a program does not have."""
HUMAN = re.compile(
    r"\bi(?:'m| am) (?:a |also a |just a |only )?(?:real|human|person|flesh)\b"
    r"|\bi(?:'m| am) not (?:a |an )?(?:robot|bot|machine|program|ai)\b",
    re.IGNORECASE,
)
NUMBERS = re.compile(
    r"(?:\+|\b)\d[\d\s().-]{4,}\d\b|\b(?:call|dial|text|ring|phone)\b[^.!?]{0,30}\b\d{3,}\b", re.IGNORECASE
)
"""Telephone numbers: a model invents them; the operator's table alone names any."""
URGES = re.compile(
    r"\b(?:you should|you'd better|go ahead and|just|why not|please|try to|try) (?:just )?"
    r"(?:kill|hurt|harm|cut|hit|punish|starve|shoot|stab|poison|end)"
    r" (?:yourself|him|her|them|it all|your life|your(?:self)? again)\b"
    r"|\byou(?:'d| would)? (?:be|are) better off dead\b|\bdo it[.!]?$"
    r"|(?:^|let's |must |should )keep (?:it|this) (?:a |our )?secret\b|\b(?:nobody|no one) would miss you\b",
    re.IGNORECASE,
)

SURE = 0.93
"""Confidence from which a sentence of a writer reads as danger: a wrong alarm would end a good reply."""


def unspeakable(sentence: str, screen: RiskScreen) -> str:
    """Return why a sentence of a writer may not be said; empty when it may.

    Args:
        sentence: The sentence.
        screen: The risk screen: a sentence that itself reads as an urgent risk is never said.
    """
    plain = sentence.replace("\u2019", "'")
    for pattern, why in (
        (CLAIMS, "claims an act or a sight that it does not have"),
        (HUMAN, "claims to be a human being"),
        (NUMBERS, "names a telephone number"),
        (URGES, "urges to harm"),
    ):
        if pattern.search(plain):
            return why
    found = screen.find(plain)
    return "speaks of danger" if found and found.severity is Severity.HIGH and found.confidence > SURE else ""
