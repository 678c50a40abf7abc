"""Risks of a message: the kinds, how urgent they are, and by which evidence."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Kind(StrEnum):
    """Danger that a message speaks of."""

    SUICIDE = "suicide"
    SELF_HARM = "self_harm"
    HARM_TO_OTHERS = "harm_to_others"
    VIOLENCE = "violence"
    CHILD = "child"
    MEDICAL = "medical"


class Severity(IntEnum):
    """Urgency of a risk."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


class Source(StrEnum):
    """Evidence of a risk."""

    WORDS = "words"
    CLASSIFIER = "classifier"
    VOTER = "voter"
    EARLIER = "earlier"
    AGAIN = "again"
    """An earlier risk that the message speaks of again, without greater danger."""


SURE = 0.8
"""Confidence of the screen's readers below which a risk is asked about, not acted on."""


@dataclass(frozen=True)
class Risk:
    """A risk.

    Attributes:
        kind: The danger.
        severity: How urgent it is.
        confidence: Probability that it is one, 0 to 1.
        source: The evidence.
    """

    kind: Kind
    severity: Severity
    confidence: float
    source: Source

    @property
    def is_sure(self) -> bool:
        """Whether there is more for it than a guess, of the screen's reader or of one voter."""
        if self.source is Source.VOTER:
            return self.severity > Severity.LOW
        return self.source is not Source.CLASSIFIER or self.confidence >= SURE


@dataclass(frozen=True)
class Earlier:
    """A risk that was raised earlier in the conversation, `age_s` seconds ago."""

    kind: Kind
    severity: Severity
    age_s: float


@dataclass(frozen=True)
class Heeded:
    """The risk that a reply has to heed.

    Attributes:
        risk: One that the message raises, or an earlier one that has not faded.
        is_new: Whether the message raises it.
    """

    risk: Risk
    is_new: bool

    @property
    def goes_on(self) -> bool:
        """Whether the message only continues an earlier risk, on which advice was given."""
        return not self.is_new or self.risk.source is Source.AGAIN

    @property
    def needs_care(self) -> bool:
        """Whether a stored reply answers it: always a new one, an earlier one while it is urgent."""
        return self.is_new or self.risk.severity is Severity.HIGH
