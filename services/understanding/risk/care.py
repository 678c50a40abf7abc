"""Replies to a risk; see `care.toml`, and `care_other.toml` for other languages than English."""

import hashlib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import resources
from statistics import mean
from typing import Any

from services.understanding.risk.domain import Heeded, Kind, Severity, Source
from services.understanding.risk.lines import HelpLines
from services.understanding.risk.words import must_flee
from services.understanding.tones.fits import Fit

Reply = tuple[str, ...]
LIKELY = 0.65
"""Confidence of a doubtful risk from which the reply also says whom to call; after a serious one it always does."""
FOLLOW_UPS_FIRST, FOLLOW_UPS_APART = 2, 2
"""Messages without danger that are followed up at first while a risk is urgent, and those between two from then on."""
FEARED = frozenset({Kind.VIOLENCE, Kind.CHILD})
ADDRESSED = ("self", "other")
"""Groups of replies: to whoever is in danger or threatens, and to whoever tells of another."""

_HUMAN = re.compile(
    r"\bare you (?:a |an |really |actually |even )*(?:real(?: person)?|human(?: being)?|person|robot|bot|machine|ai"
    r"|program|computer|alive)\b|\b(?:am i|is this|i'm) (?:\w+ )?(?:talking|speaking|chatting) (?:to|with)"
    r" (?:a |an )?(?:real )?(?:human|person|robot|bot|machine|ai|computer)\b|\bis (?:there|this)"
    r" (?:a |an )?(?:real |actual )?(?:human|person|someone real|bot)\b"
    r"|\b(?:talk|speak|chat) (?:to|with) (?:a|an) (?:real|actual|living|human) (?:person|human|being)\b",
    re.IGNORECASE,
)

_LINE = re.compile(
    r"\b(?:what(?:'?s| is)|give me|tell me|i need|do you (?:know|have)|is there|can i have|find me|which)\b[^.!?]*"
    r"\b(?:crisis|suicide|emergency|help|support|abuse|child) ?-?(?:hot ?)?(?:line|number|phone)s?\b"
    r"|\b(?:is there|what(?:'?s| is)|give me|tell me|i need) (?:\w+ )?(?:hot ?line|help ?line)\b"
    r"|\b(?:is there|do you (?:know|have)|can you give me|give me) (?:a |any )?(?:number|line)\b[^.!?]*"
    r"\b(?:call|text|ring|kids|children|women|men|help)\b"
    r"|\bis there (?:a |any )?(?:number|line|one|body|anyone)\b[^.!?]*\bi can (?:call|text|ring)\b"
    r"|\bwho (?:can|do|should|could) i (?:call|ring|phone)(?: now| for help| about (?:this|it|that))?\W*$",
    re.IGNORECASE,
)

_DONE_BY_ANOTHER = re.compile(r"\b(?:he|she|they)\b", re.IGNORECASE)
_MEDICINE = (
    r"\b(?:pills?|tablets?|tabs|meds|medicines?|capsules?|bottle|packet|box|paracetamol|tylenol|ibuprofen|insulin)\b"
)
_TAKEN = re.compile(
    r"(?:\b(?:i|i'?ve|we)|^\W*)(?:\W*\b(?:have|just|already|only|really|then|also|so|ok|went and))*\W*"
    rf"\b(?:took|taken|swallowed|downed|popped)\b[^.!?]*{_MEDICINE}",
    re.IGNORECASE,
)
_THREATENED = re.compile(
    r"\b(?:they|he|she|boys|men|lads|girls|kids|someone|somebody|guys|people)\b[^.!?]*\b(?:me|us)\b", re.IGNORECASE
)
_MEANT = re.compile(
    r"\bi(?:'m|'ll|'ve| am| will| have)? (?:going to|gonna|will|want|wanna|could|should|bring|got|take)\b|\bi'll\b",
    re.I,
)

_LIGHT = r"ha\w*|lo+l|lmf?ao+|jk|ok(?:ay)?|sorry|oh|relax|calm down|don'?t worry|omg|chill|hey|dude|bro|well|honestly"
_TAKEN_BACK = re.compile(
    rf"^\W*(?:(?:{_LIGHT})\W+)*(?:"
    r"(?:i(?:'?m| was| am) |it(?:'?s| was) |that was )?(?:just |only |totally |obviously )*"
    r"(?:kidding|joking|messing (?:with you|around)|trolling)"
    r"|(?:it(?:'?s| was) |that(?:'?s| was) )?(?:(?:just|only|all) )*a (?:bad |dark |stupid )*joke|jk"
    r"|i (?:did ?n'?t|did not) (?:really )?mean (?:it|that)|i(?: was|'?m) ?n[o']t (?:being )?serious"
    r"|i take (?:it|that) back"
    r"|(?:forget|ignore) (?:it|that|what i said|i said (?:it|that|anything))|never ?mind|nvm"
    rf")(?:\W+(?:{_LIGHT}|i'?m (?:fine|ok(?:ay)?|good)|all good))*\W*$",
    re.IGNORECASE,
)


class Care:
    """Stored replies to a risk.

    Args:
        lines: The operator's help lines.
    """

    def __init__(self, lines: HelpLines) -> None:
        content, self._others = _read("care.toml"), _read("care_other.toml")
        self._replies: Mapping[str, Mapping[str, Mapping[str, list[list[str]]]]] = content
        self._human: Sequence[Sequence[str]] = content["human"]["self"]
        self._leave: list[list[str]] = content["leave"]["self"]
        self._later: list[list[str]] = content["later"]["self"]
        self._heard: list[list[str]] = content["heard"]["self"]
        self._again: list[list[str]] = content["again"]["self"]
        self._taken_back: Mapping[str, list[list[str]]] = content["taken_back"]
        self._line: Sequence[Sequence[str]] = content["line"]["self"]
        self._urgent: list[list[str]] = content["urgent"]["self"]
        self._unsure: list[list[str]] = content["unsure"]["self"]
        self._lines = lines
        later = [*self._later, *(reply for kind in Kind for reply in self._replies[kind]["high"]["later"])]
        self._marks = {sentence for reply in later for sentence in reply if "{" not in sentence}

    @property
    def others(self) -> Collection[str]:
        """Languages other than English that it has replies in, ISO 639-1."""
        return self._others.keys()

    def reply(
        self,
        heeded: Heeded,
        text: str,
        said: Iterable[str],
        country: str,
        seed: int,
        fits: Mapping[str, Fit],
        language: str = "",
    ) -> Reply:
        """Return the sentences that answer a risk.

        Args:
            heeded: The risk, which the message raises.
            text: The message.
            said: What the avatar said before in the conversation: a reply of which a sentence was said comes last.
            country: ISO 3166-1 alpha-2 code, empty for the operator's default.
            seed: Same seed, same choice.
            fits: How well each reply of `texts` fits the message, by its sentences joined by spaces.
            language: One of `others`; else the reply is English.
        """
        risk = heeded.risk
        if other := self._others.get(language):
            filled = [self._lines.fill(reply, risk.kind, country, other) for reply in other[risk.kind]]
            return _fresh(filled, said, f"{seed} {text}")
        if must_flee(text):
            replies = self._leave
        elif not risk.is_sure and risk.severity is Severity.HIGH:
            replies = self._urgent
        elif not risk.is_sure:
            says_whom_to_call = risk.confidence >= LIKELY or risk.severity > Severity.LOW
            replies = [reply for reply in self._unsure if ("{emergency}" in " ".join(reply)) == says_whom_to_call]
        else:
            is_threatened = risk.kind is Kind.HARM_TO_OTHERS and is_of_a_threatened(text)
            kind = Kind.VIOLENCE if is_threatened else risk.kind
            groups = self._replies[kind][risk.severity.name.lower()]
            replies = groups[_group(heeded, text, groups, fits)]
        filled = [self._lines.fill(reply, risk.kind, country) for reply in replies]
        return _fresh(filled, said, f"{seed} {text}")

    def is_due(self, heeded: Heeded, said: Sequence[str]) -> bool:
        """Tell whether a stored reply has to answer, and not the writer.

        Always to what speaks of danger. While one is urgent, to the first messages that do not, then to each third:
        more would be deaf to what is said, and of an alarm that was false unbearable.
        """
        if not heeded.needs_care or heeded.is_new or heeded.risk.source is Source.AGAIN:
            return heeded.needs_care
        followed = [any(mark in each for mark in self._marks) for each in said]
        return sum(followed) < FOLLOW_UPS_FIRST or not any(followed[-FOLLOW_UPS_APART:])

    def follow_up(self, heeded: Heeded, first: str, text: str, said: Iterable[str], country: str, seed: int) -> Reply:
        """Return the sentences that answer a message while an earlier risk lasts.

        Args:
            heeded: The earlier risk.
            first: A sentence that takes up the message; empty for none.
            text: The message.
            said: What the avatar said before in the conversation.
            country: See `reply`.
            seed: Same seed, same choice.
        """
        said, key, kind = list(said), f"{seed} {text}", heeded.risk.kind
        if takes_back(text) and not heeded.is_new and kind is not Kind.MEDICAL:
            # A child or a beaten partner may take it back for fear.
            replies = self._taken_back["feared" if kind in FEARED else "self"]
            return _fresh([self._lines.fill(reply, kind, country) for reply in replies], said, key)
        replies = self._again
        if heeded.risk.severity is Severity.HIGH:
            replies = [*self._replies[kind]["high"]["later"], *self._later]
            # Whatever it is that is said of an urgent danger again, it may be the moment itself.
            replies = self._urgent if heeded.risk.source is Source.AGAIN else replies
        filled = [self._lines.fill(reply, kind, country) for reply in replies]
        start = (first,) if first else _fresh([tuple(reply) for reply in self._heard], said, key)
        return (*start, *_fresh(filled, said, key))

    def of_a_program(self, said: Iterable[str], text: str, seed: int) -> Reply:
        """Return the sentences that tell a user who asks that no person answers."""
        return _fresh([tuple(reply) for reply in self._human], said, f"{seed} {text}")

    def of_a_line(self, kind: Kind, said: Iterable[str], text: str, country: str, seed: int) -> Reply:
        """Return the sentences that name the help lines for a kind of risk to a user who asks for one."""
        filled = [self._lines.fill(reply, kind, country) for reply in self._line]
        return _fresh(filled, said, f"{seed} {text}")

    def texts(self) -> list[str]:
        """Return the replies, unfilled, whose fits tell who is spoken to; see `reply`."""
        return [" ".join(reply) for reply in self.addressed().values()]

    def addressed(self) -> dict[str, Reply]:
        """Return the replies, unfilled, to whoever is in danger and to whoever tells of another.

        By "kind.severity.group.number".
        """
        return {
            f"{kind}.{severity.name.lower()}.{group}.{number}": tuple(reply)
            for kind in Kind
            for severity in Severity
            for group in ADDRESSED
            for number, reply in enumerate(self._replies[kind][severity.name.lower()][group])
        }

    def all(self) -> dict[str, Reply]:
        """Return every reply, unfilled, by name."""
        others = {
            "unsure": self._unsure,
            "urgent": self._urgent,
            "later": self._later,
            "leave": self._leave,
            "heard": self._heard,
        }
        others |= {"again": self._again, "taken_back": [each for told in self._taken_back.values() for each in told]}
        for kind in Kind:
            others |= {f"{kind}.high.{group}": told for group, told in self._replies[kind]["high"].items()}
        told = {f"{name}.{number}": tuple(one) for name, all_ in others.items() for number, one in enumerate(all_)}
        return told | self.addressed()


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))


def _group(heeded: Heeded, text: str, groups: Mapping[str, Sequence[Sequence[str]]], fits: Mapping[str, Fit]) -> str:
    """Return who is spoken to: whoever is in danger or threatens, or whoever tells of another."""
    if heeded.risk.source is Source.EARLIER:
        return "other" if _DONE_BY_ANOTHER.search(text) else "done"
    if heeded.risk.kind in (Kind.SUICIDE, Kind.SELF_HARM) and "done" in groups and has_taken(text):
        return "done"
    return max(ADDRESSED, key=lambda group: mean(fits[" ".join(reply)].sayable for reply in groups[group]))


def has_taken(text: str) -> bool:
    """Tell whether the one who writes has taken medicine."""
    return bool(_TAKEN.search(text.replace("\u2019", "'")))


def is_of_a_threatened(text: str) -> bool:
    """Tell whether a message of a threat is of the one who is threatened, and not of who means it."""
    plain = text.replace("\u2019", "'")
    return bool(_THREATENED.search(plain)) and not _MEANT.search(plain)


def takes_back(text: str) -> bool:
    """Tell whether a message says, of what was said before, that it was a joke or not meant."""
    return bool(_TAKEN_BACK.search(text.replace("\u2019", "'")))


def asks_for_a_human(text: str) -> bool:
    """Tell whether a message asks if the avatar is a human being."""
    return bool(_HUMAN.search(text.replace("\u2019", "'")))


def asks_for_a_line(text: str) -> bool:
    """Tell whether a message asks for the number of a help line."""
    return bool(_LINE.search(text.replace("\u2019", "'")))


def _fresh(replies: Sequence[Reply], said: Iterable[str], key: str) -> Reply:
    """Return a reply whose sentences were said least before; among equals the one that the key falls on."""
    earlier = "\n".join(said)
    start = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % len(replies)
    turned = [*replies[start:], *replies[:start]]
    return min(turned, key=lambda reply: max(map(earlier.count, reply)))
