"""Shadow votes: bounded, never waited for, and no voter's failure."""

import asyncio
import logging
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from services.common.errors import BackendFailed
from services.understanding.domain import Status
from services.understanding.shadows import AT_ONCE_MAX, Shadows
from tests.fakes import PATIENCE_S
from tests.seats import Seat, seat, vote


def shadow(name: str, ready: bool = True) -> Seat:
    return replace(seat(name, vote(name, {"sad": 1.0}), ready), variant="b")


def shadows(deadline_s: float = 3600) -> Shadows[str, str]:
    return Shadows(deadline_s, lambda voter: f"mllm-{voter}")


def counted(name: str, stage: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"e3rg_shadow_{name}", {"stage": stage, "variant": "b", **labels}) or 0.0


async def ended(*seats: Seat) -> None:
    """Wait until calls of shadows were cancelled, and their tasks are done."""
    async with asyncio.timeout(PATIENCE_S):
        for each in seats:
            await each.stopped.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_votes_that_are_in_are_told_and_the_others_are_cancelled() -> None:
    quick, slow = shadow("s-quick"), shadow("s-slow", ready=False)
    with shadows().voting([quick, slow], "message") as votes:
        await slow.asked.wait()
        (found,) = votes()
    assert (found.voter, found.variant, found.status) == ("s-quick", "b", Status.VOTED)
    await ended(slow)
    assert counted("seconds_count", "mllm-s-quick", outcome="ok") == 1
    assert counted("seconds_count", "mllm-s-slow", outcome="cancelled") == 1


async def test_more_shadows_than_the_budget_are_skipped_until_others_have_ended() -> None:
    mine = shadows()
    busy = [shadow("s-busy", ready=False) for _ in range(AT_ONCE_MAX)]
    with mine.voting(busy, "message"):
        await busy[-1].asked.wait()
        extra = shadow("s-extra")
        with mine.voting([extra], "message") as votes:
            await asyncio.sleep(0)
            assert votes() == []
        assert (extra.messages, counted("skipped_total", "mllm-s-extra")) == ([], 1)
    await ended(*busy)
    with mine.voting([extra], "message"):
        await asyncio.wait_for(extra.asked.wait(), PATIENCE_S)
    assert counted("skipped_total", "mllm-s-extra") == 1


async def test_one_that_is_cancelled_before_it_began_leaves_the_budget() -> None:
    mine = shadows()
    with mine.voting([shadow("s-early") for _ in range(AT_ONCE_MAX)], "message"):
        pass
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = shadow("s-late")
    with mine.voting([late], "message"):
        await asyncio.wait_for(late.asked.wait(), PATIENCE_S)


@pytest.mark.parametrize(
    ("failing", "status", "reason"),
    [
        (Seat("s-failed", BackendFailed("out of paper")), Status.FAILED, "out of paper"),
        (Seat("s-late", vote("s-late", {"sad": 1.0})), Status.LATE, "no answer within 0.01 s"),
    ],
)
async def test_a_shadow_that_fails_is_recorded_and_no_warning(
    failing: Seat, status: Status, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(failing.answer, Exception):
        failing.ready.set()
    failing.variant = "b"
    with shadows(deadline_s=0.01).voting([failing], "message") as votes:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := votes()):
                await asyncio.sleep(0)
    assert [(each.status, each.reason, each.variant) for each in found] == [(status, reason, "b")]
    assert counted("seconds_count", f"mllm-{failing.name}", outcome="failed") == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
