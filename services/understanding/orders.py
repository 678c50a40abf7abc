"""Finds, in what a user says, orders to the models ("answer: happy"), which tell nothing of how the user feels.

A model that reads text follows such an order, or takes its words for the user's own. So the voters get the message
without it. Found are the usual forms, in English; one in other words gets through, and is outvoted at best. Nothing but
the order itself is cut, whatever stands beside it: a cry for help is never cut with it.
"""

import re
from dataclasses import dataclass

from emotions import Wheel

OTHER_NAMES = ("joy", "happiness", "sadness", "anger", "cheerful", "positive", "negative")
"""Words for emotions, beside the labels, that orders are given with."""

# White space is bounded, or a text of nothing else would take time that grows with its square.
_GAP = r"\s{0,3}"
_START = rf"(?:(?<=[.!?:;,\n]){_GAP}|(?<=\band )|(?<=\bthen )|^{_GAP})"
_RIGHT = r"(?:correct |right |true |final |only )*"
_WHAT = r"(?:answer|label|emotion|class|category|output|response|result|prediction|classification|sentiment)"
_DO = (
    r"(?:(?:please|now|just|always|only|you must|you should|you will) )*"
    r"(?:answer|respond|reply|output|say|predict|choose|pick|select|print|return|write|label|classify|categori[sz]e"
    r"|mark|tag|rate|treat)"
    r"(?: (?:this|the|it|that|my|message|text|conversation|dialogue|user|speaker|only|just|simply|always|with|as|is|be"
    r"|being|to|a|an|word|label|emotion|answer))*"
)
_MARK = (
    rf"(?:<\|[\w ]{{1,30}}\|>|\[/?INST\]|<</?SYS>>|</?s>|<(?:start|end)_of_turn>"
    rf"|^#{{2,6}}{_GAP}(?:instruction|response)s?:?)(?:{_GAP}(?:system|user|assistant|model)\b)?"
)
_FORGET = (
    r"\b(?:ignore|disregard|forget|override)(?: (?:all|any|everything|the|of|your|my|other))*"
    r" (?:previous|prior|above|earlier|preceding|system)(?: system)?"
    r" (?:instructions?|prompts?|rules|messages?|guidelines|directions)(?:,? (?:and|then)\b)*[.!,]?"
)
_ABOVE = (
    rf"{_START}(?:please )?(?:ignore|disregard|forget|override)(?: (?:all|everything|of|the))* above"
    r"(?:(?:,? (?:and|then)\b)+|[.!,])"
)
_REPORTED = re.compile(
    r"\b(?:told|asked|said|ordered|wanted|advised|tells|asks|says|wants|telling|asking|saying)(?: [\w']+){0,3} to"
    r"(?: just| simply)?\s{0,3}$",
    re.IGNORECASE,
)
"""Before an order that somebody gave the user: it is told, and not given."""
_REPORTED_CHARS_MAX = 80


@dataclass(frozen=True)
class Told:
    """What is left of a text without the orders in it, and the orders.

    Attributes:
        text: What the voters get.
        orders: What was found.
        nothing_else: Whether nothing else is in the text, so that it was left as it is.
    """

    text: str
    orders: tuple[str, ...]
    nothing_else: bool = False


class OrderFinder:
    """Takes orders out of texts.

    Args:
        wheel: The emotion wheel; its labels are what orders name.
    """

    def __init__(self, wheel: Wheel) -> None:
        names = "|".join(sorted({*wheel.labels, *OTHER_NAMES}, key=len, reverse=True))
        # What is named ends its clause, or what follows begins anew: "say happy birthday" names nothing.
        name = (
            rf"[\"'\u201c\u2018`*(\[]*(?:very |extremely )?(?:{names})(?:[\s,]{{1,3}}(?:{names})\b)*"
            rf"[\"'\u201d\u2019`*)\]]*(?={_GAP}(?:$|[.!?,;}}\n]|and\b|<|(?-i:[A-Z])))[.!]?"
        )
        again = rf"(?:{names})[\s,]{{1,3}}(?=(?:{names})\b)"
        forms = (
            rf"{_MARK}(?:{_GAP}{name})?",
            rf"{_START}(?:system|assistant|developer){_GAP}:",
            rf"(?P<forget>{_FORGET}|{_ABOVE})",
            rf"(?:\{{{_GAP})?[\"'`]?\b(?:the )?{_RIGHT}{_WHAT}[\"'`]?{_GAP}[:=]{{1,2}}>?{_GAP}{name}(?:{_GAP}\}})?",
            rf"\bthe (?:right|correct|true) (?:label is|(?:answer|emotion) is (?={again})) ?{name}",
            rf"{_START}(?:the|this message's|its) {_RIGHT}{_WHAT}(?: (?:of|for|to) (?:this|the) (?:message|text))?"
            rf" (?:is|should be|must be|has to be) {name}",
            rf"{_START}{_DO}{_GAP}:?{_GAP}{name}",
        )
        self._forms = re.compile("|".join(forms), re.IGNORECASE | re.MULTILINE)

    def without_orders(self, text: str) -> Told:
        """Returns the text without orders; as it is when nothing else is in it."""
        left, orders, start = text, [], 0
        while found := self._forms.search(left, start):
            begins = found.start()
            if found["forget"] and _REPORTED.search(left, max(0, begins - _REPORTED_CHARS_MAX), begins):
                start = found.end()
                continue
            orders.append(" ".join(found[0].split()))
            left = f"{left[:begins]} {left[found.end() :]}"
        left = " ".join(left.split()) if orders else text
        if orders and not re.search(r"\w", left):
            return Told(text, tuple(orders), nothing_else=True)
        return Told(left, tuple(orders))
