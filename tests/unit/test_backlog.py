"""What a replica promises to render."""

import pytest
from prometheus_client import REGISTRY

from services.common.errors import Overloaded
from services.video.backlog import Backlog
from tests.fake_faces import FakeFace, FakePainter

TIERS = FakePainter.qualities


@pytest.fixture
def backlog() -> Backlog:
    """Of a painter to whom 0.4 s of speech cost 8 s as "fine" and 2 s as "draft"."""
    painter = FakePainter()
    painter.step_s = 1.0
    return Backlog("fake", painter)


def test_promises_add_up_and_shrink_as_they_are_kept(backlog: Backlog) -> None:
    with backlog.promise(0.4, TIERS, None) as first, backlog.promise(0.8, TIERS, None) as second:
        assert (first.before_s, first.cost_s, second.before_s, second.cost_s) == (0, 8, 8, 16)
        assert backlog.seconds == 24
        first.progressed(0.25)
        assert backlog.seconds == 22
        second.progressed(1.0)
        assert backlog.seconds == 6
    assert backlog.seconds == 0


def test_what_is_left_never_grows_again(backlog: Backlog) -> None:
    with backlog.promise(0.4, TIERS, None) as promise:
        promise.progressed(0.5)
        promise.progressed(0.25)
        assert backlog.seconds == 4


def test_a_failed_call_is_no_promise_any_more(backlog: Backlog) -> None:
    def fail() -> None:
        with backlog.promise(0.4, TIERS, None):
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 (the one above)
        fail()
    assert backlog.seconds == 0


@pytest.mark.parametrize(
    ("remaining_s", "quality"), [(None, "fine"), (100.0, "fine"), (16.0, "fine"), (15.9, "draft"), (10.0, "draft")]
)
def test_the_best_tier_that_ends_in_time_is_promised(backlog: Backlog, remaining_s: float | None, quality: str) -> None:
    with backlog.promise(0.4, TIERS, None), backlog.promise(0.4, TIERS, remaining_s) as second:
        assert second.quality == quality


@pytest.mark.parametrize(
    ("remaining_s", "late_s", "retry_after_s"), [(9.0, 1.0, 1.0), (2.0, 8.0, 8.0), (1.0, 9.0, None), (0.0, 10.0, None)]
)
def test_what_cannot_end_in_time_is_refused_with_what_it_lacks_and_when_to_come_again(
    backlog: Backlog, remaining_s: float, late_s: float, retry_after_s: float | None
) -> None:
    labels = {"stage": "video", "model": "fake", "variant": "default", "reason": "deadline"}
    before = REGISTRY.get_sample_value("e3rg_refusals_total", labels) or 0
    with backlog.promise(0.4, TIERS, None):
        for ask in (backlog.check, backlog.promise):
            with pytest.raises(Overloaded, match=rf"8\.0 s of rendering are .* allow {late_s} s more") as refusal:
                ask(0.4, TIERS, remaining_s)
            assert (refusal.value.allow_more_s, refusal.value.retry_after_s) == (late_s, retry_after_s)
        assert (REGISTRY.get_sample_value("e3rg_refusals_total", labels) or 0) - before == 2
        assert backlog.seconds == 8
        backlog.check(0.4, TIERS, remaining_s + late_s)
        assert backlog.seconds == 8
        backlog.promise(0.4, TIERS, remaining_s + late_s)


def test_what_calls_took_corrects_what_the_next_ones_cost(backlog: Backlog) -> None:
    for _ in range(30):
        backlog.promise(0.4, TIERS, None).kept(12.0)
    assert backlog.promise(0.4, TIERS, None).cost_s == pytest.approx(12.0, rel=0.01)
    with pytest.raises(Overloaded):
        backlog.check(0.4, ("fine",), 11.5)


def test_one_bad_minute_does_not_refuse_all_calls(backlog: Backlog) -> None:
    for _ in range(30):
        backlog.promise(0.4, TIERS, None).kept(1e6)
    assert backlog.promise(0.4, TIERS, None).cost_s <= 16.0


def test_a_wished_tier_is_never_bettered(backlog: Backlog) -> None:
    assert backlog.promise(0.4, ("draft",), None).quality == "draft"


def test_what_costs_nothing_is_always_promised() -> None:
    backlog = Backlog("fake", FakeFace())
    assert backlog.promise(0.0, ("full",), 0.0).quality == "full"
