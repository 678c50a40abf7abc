"""What remains of a call's time."""

import contextvars

from services.common import deadline


def test_nobody_has_set_a_deadline() -> None:
    assert deadline.remaining_s() is None


def test_a_call_has_what_its_caller_allows_and_no_more_than_nothing_is_left() -> None:
    def serve(allowed_s: float | None) -> float | None:
        deadline.start(allowed_s)
        return deadline.remaining_s()

    assert 99 < (contextvars.copy_context().run(serve, 100) or 0) <= 100
    assert contextvars.copy_context().run(serve, -1) == 0
    assert contextvars.copy_context().run(serve, None) is None
    assert deadline.remaining_s() is None


def test_a_part_of_a_call_gets_no_more_than_the_call_and_gives_it_back() -> None:
    with deadline.within(100):
        with deadline.within(10):
            assert 9 < (deadline.remaining_s() or 0) <= 10
            with deadline.within(50):
                assert 9 < (deadline.remaining_s() or 0) <= 10
        assert 99 < (deadline.remaining_s() or 0) <= 100
    assert deadline.remaining_s() is None
