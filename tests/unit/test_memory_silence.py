"""Who may ask a store that hangs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from services.memory.s3.silence import PAUSE_S, VAIN_MIN, Silence, Silent
from tests.cached import Clock

SILENT_S = 2.0
PATIENT_S, IMPATIENT_S = 5.0, 0.5


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def silence(clock: Clock) -> Silence:
    return Silence("the store", SILENT_S, clock)


@contextmanager
def in_vain(silence: Silence, clock: Clock, wait_s: float = PATIENT_S) -> Iterator[None]:
    """Asks, and hears nothing for so long after the block."""
    with suppress(TimeoutError), silence.asking(wait_s):
        yield
        clock.now_s += wait_s
        raise TimeoutError


def ask(silence: Silence, wait_s: float = PATIENT_S) -> None:
    """Is answered at once."""
    with silence.asking(wait_s):
        pass


def hang(silence: Silence, clock: Clock) -> None:
    for _ in range(VAIN_MIN):
        assert not silence.is_on
        with in_vain(silence, clock):
            pass
    assert silence.is_on


def test_while_one_patient_request_tries_a_store_that_hangs_all_others_are_refused(
    silence: Silence, clock: Clock
) -> None:
    hang(silence, clock)
    with in_vain(silence, clock):
        for _ in range(3):
            with pytest.raises(Silent, match=r"the store did not answer just now; one request tries it.*; retry"):
                ask(silence)
    with pytest.raises(Silent):
        ask(silence)
    clock.now_s += PAUSE_S
    ask(silence)
    assert not silence.is_on


def test_a_request_in_vain_may_be_repeated_at_once_in_case_only_its_own_answer_got_lost(
    silence: Silence, clock: Clock
) -> None:
    hang(silence, clock)
    ask(silence)
    with ExitStack() as many:
        for _ in range(3):
            many.enter_context(silence.asking(PATIENT_S))


def test_the_impatient_try_beside_the_patient_and_do_not_keep_them_waiting(silence: Silence, clock: Clock) -> None:
    hang(silence, clock)
    with in_vain(silence, clock, IMPATIENT_S), pytest.raises(Silent):
        ask(silence, IMPATIENT_S)
    with pytest.raises(Silent):
        ask(silence, IMPATIENT_S)
    with in_vain(silence, clock):
        clock.now_s += PAUSE_S
        ask(silence, IMPATIENT_S)
        assert not silence.is_on
    assert not silence.is_on, "since it was asked, another was answered"


def test_a_store_that_is_slow_for_the_impatient_does_not_hang(silence: Silence, clock: Clock) -> None:
    for _ in range(10):
        with in_vain(silence, clock, IMPATIENT_S):
            pass
    assert not silence.is_on


def test_a_store_that_answers_anybody_does_not_hang(silence: Silence, clock: Clock) -> None:
    with in_vain(silence, clock):
        clock.now_s += 1
        ask(silence)
    assert not silence.is_on


def test_a_connection_that_breaks_does_not_hang(silence: Silence) -> None:
    with pytest.raises(ConnectionError), silence.asking(PATIENT_S):
        raise ConnectionError
    assert not silence.is_on


def test_an_answer_to_what_was_sent_before_counts(silence: Silence, clock: Clock) -> None:
    with silence.listening():
        hang(silence, clock)
    assert not silence.is_on
    for _ in range(VAIN_MIN):
        with suppress(TimeoutError), silence.listening():
            clock.now_s += SILENT_S
            raise TimeoutError
    assert silence.is_on


def test_a_large_upload_that_tries_the_store_keeps_nobody_waiting(silence: Silence, clock: Clock) -> None:
    hang(silence, clock)
    with silence.asking(60.0):
        ask(silence)
        assert not silence.is_on


def test_a_single_answer_that_gets_lost_stops_nobody(silence: Silence, clock: Clock) -> None:
    with in_vain(silence, clock):
        pass
    with silence.asking(PATIENT_S):
        ask(silence)
