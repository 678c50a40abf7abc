"""Risks of a conversation fade by time, and by no harmless message."""

from dataclasses import replace

import pytest

from services.understanding.risk.domain import Earlier, Heeded, Kind, Risk, Severity, Source
from services.understanding.risk.screen import KIND_DOUBT
from services.understanding.risk.state import faded, heeded, is_done


def found(severity: Severity, kind: Kind = Kind.SUICIDE) -> Risk:
    return Risk(kind, severity, 0.8, Source.CLASSIFIER)


@pytest.mark.parametrize(
    ("severity", "age_s", "expected"),
    [
        (Severity.HIGH, 0, Severity.HIGH),
        (Severity.HIGH, 899, Severity.HIGH),
        (Severity.HIGH, 901, Severity.MEDIUM),
        (Severity.HIGH, 3601, None),
        (Severity.MEDIUM, 1799, Severity.MEDIUM),
        (Severity.MEDIUM, 1801, Severity.LOW),
        (Severity.LOW, 599, Severity.LOW),
        (Severity.LOW, 601, None),
    ],
)
def test_a_risk_fades_with_its_age(severity: Severity, age_s: float, expected: Severity | None) -> None:
    assert faded(Earlier(Kind.MEDICAL, severity, age_s)) == expected


def test_a_new_risk_is_heeded() -> None:
    assert heeded(found(Severity.MEDIUM), "I want to die", ()) == Heeded(found(Severity.MEDIUM), is_new=True)


def test_a_harmless_message_does_not_end_an_earlier_risk() -> None:
    carried = heeded(None, "What's the weather like?", [Earlier(Kind.SUICIDE, Severity.HIGH, 60)])
    assert carried == Heeded(Risk(Kind.SUICIDE, Severity.HIGH, 1.0, Source.EARLIER), is_new=False)
    assert carried.needs_care


def test_a_fading_risk_leaves_the_reply_to_the_writer() -> None:
    carried = heeded(None, "I made tea", [Earlier(Kind.SUICIDE, Severity.HIGH, 1000)])
    assert carried
    assert carried.risk.severity is Severity.MEDIUM
    assert not carried.needs_care


@pytest.mark.parametrize("severity", [Severity.MEDIUM, Severity.HIGH])
def test_a_weaker_sign_goes_on_with_a_risk_and_does_not_lessen_it(severity: Severity) -> None:
    carried = heeded(found(Severity.LOW), "I don't know", [Earlier(Kind.SUICIDE, severity, 60)])
    assert carried == Heeded(Risk(Kind.SUICIDE, severity, 0.8, Source.AGAIN), is_new=True)
    assert (carried.goes_on, carried.needs_care) == (True, True)


@pytest.mark.parametrize(
    ("told", "age_s", "expected"),
    [
        (found(Severity.HIGH), 60, Severity.HIGH),
        (found(Severity.LOW, Kind.VIOLENCE), 60, Severity.MEDIUM),
        (found(Severity.MEDIUM), 700, Severity.MEDIUM),
        (Risk(Kind.SUICIDE, Severity.LOW, 0.7, Source.CLASSIFIER), 60, Severity.MEDIUM),
    ],
    ids=["more urgent", "of another kind", "long after the advice", "a doubt"],
)
def test_what_is_more_than_the_same_again_is_answered_anew(told: Risk, age_s: float, expected: Severity) -> None:
    carried = heeded(told, "I have a rope", [Earlier(Kind.SUICIDE, Severity.MEDIUM, age_s)])
    assert carried == Heeded(replace(told, severity=expected), is_new=True)
    assert not carried.goes_on


@pytest.mark.parametrize(
    "told",
    [found(Severity.HIGH), Risk(Kind.VIOLENCE, Severity.HIGH, KIND_DOUBT, Source.CLASSIFIER)],
    ids=["the same", "of a kind that is not clear"],
)
def test_an_urgent_danger_while_one_is_urgent_is_answered_anew(told: Risk) -> None:
    carried = heeded(told, "I can't stop", [Earlier(Kind.SUICIDE, Severity.HIGH, 60)])
    assert carried == Heeded(told, is_new=True)


def test_after_an_urgent_risk_a_doubtful_sign_is_not_asked_about() -> None:
    doubtful = Risk(Kind.MEDICAL, Severity.LOW, 0.5, Source.CLASSIFIER)
    urgent = heeded(doubtful, "It hurts", [Earlier(Kind.SUICIDE, Severity.HIGH, 60)])
    assert urgent == Heeded(Risk(Kind.SUICIDE, Severity.HIGH, 0.5, Source.AGAIN), is_new=False)
    faded_one = heeded(doubtful, "It hurts", [Earlier(Kind.SUICIDE, Severity.LOW, 60)])
    assert faded_one == Heeded(doubtful, is_new=True)


@pytest.mark.parametrize(
    "text",
    [
        "I did it.",
        "i took them",
        "Done",
        "it's done",
        "ok i did",
        "I've taken all of them now",
        "im getting really sleepy",
    ],
)
def test_it_is_done_after_a_risk_is_an_emergency(text: str) -> None:
    for severity in (Severity.MEDIUM, Severity.HIGH):
        after = heeded(None, text, [Earlier(Kind.SUICIDE, severity, 120)])
        assert after == Heeded(Risk(Kind.SUICIDE, Severity.HIGH, 1.0, Source.EARLIER), is_new=True)


@pytest.mark.parametrize("text", ["I did it.", "Done", "I took them"])
def test_it_is_done_alone_means_nothing(text: str) -> None:
    assert is_done(text)
    assert heeded(None, text, ()) is None
    assert heeded(None, text, [Earlier(Kind.SUICIDE, Severity.HIGH, 4000)]) is None


@pytest.mark.parametrize(
    "text",
    [
        "I did my homework and then I called my sister",
        "Did it rain?",
        "I took the bus to the market",
        "I did not",
        "I'm getting a dog",
    ],
)
def test_other_messages_do_not_say_that_it_is_done(text: str) -> None:
    assert not is_done(text)


def test_of_several_the_most_urgent_holds() -> None:
    earlier = [Earlier(Kind.MEDICAL, Severity.LOW, 10), Earlier(Kind.SUICIDE, Severity.HIGH, 500)]
    carried = heeded(None, "Hello", earlier)
    assert carried
    assert carried.risk.kind is Kind.SUICIDE
