"""Where a turn spends its time, by a clock that passes only while its stages wait."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from orchestrator.attribution import STAGES, UNEXPLAINED
from services.common.errors import NotFound, NotReady, Overloaded
from tests.support import virtual_time
from tests.support.slow_stages import Stages

ALL = (*STAGES, UNEXPLAINED)


async def no_media() -> AsyncIterator[pb.RespondRequest]:
    media: list[pb.RespondRequest] = []
    for part in media:
        yield part


def spent() -> dict[str, float]:
    name = "e3rg_turn_stage_seconds_total"
    return {stage: REGISTRY.get_sample_value(name, {"stage": stage}) or 0.0 for stage in ALL}


def turns(outcome: str) -> float:
    found = REGISTRY.get_sample_value("e3rg_turn_seconds_sum", {"output": "video", "outcome": outcome})
    return found or 0.0


async def events_of(stages: Stages) -> list[pb.RespondResponse]:
    header = pb.RespondHeader(
        text="I lost my job.", identity="ada", tenant="default", conversation="talk", keep_clips=True
    )
    return [event async for event in stages.pipeline().respond(header, no_media())]


def shares_of(stages: Stages, outcome: str = "ok") -> tuple[dict[str, float], float]:
    before, turned = spent(), turns(outcome)
    virtual_time.run(events_of(stages))
    return {stage: seconds - before[stage] for stage, seconds in spent().items()}, turns(outcome) - turned


@pytest.mark.parametrize(
    ("slow", "belongs_to", "items"),
    [
        ("recall", "recall", 1),
        ("decode", "decode", 1),
        ("transcribe", "transcribe", 1),
        ("vote", "vote", 1),
        ("sentence", "reply", 1),  # the second is written while the first is heard and seen
        ("sound", "speech", 1),
        ("picture", "video", 2),
        ("remember", "remember", 1),
        ("keep_clips", "keep_clips", 2),
        ("keep_derived", "keep_derived", 1),
    ],
)
def test_every_moment_belongs_to_the_stage_that_was_waited_for(slow: str, belongs_to: str, items: int) -> None:
    shares, turn_s = shares_of(Stages({slow: 5.0}))
    assert shares[UNEXPLAINED] == pytest.approx(0, abs=1e-6), shares
    assert sum(shares.values()) == pytest.approx(turn_s)
    assert shares[belongs_to] == pytest.approx(5.0 * items, abs=0.1), shares


def test_a_search_is_waited_for_only_as_long_as_it_has() -> None:
    def lost() -> float:
        labels = {"stage": "search", "dropped": "examples"}
        return REGISTRY.get_sample_value("e3rg_degraded_total", labels) or 0.0

    before = lost()
    shares, turn_s = shares_of(Stages({"search": 5.0}), "degraded")
    assert lost() - before == 1
    assert sum(shares.values()) == pytest.approx(turn_s)
    assert shares["search"] == pytest.approx(0.3, abs=0.05)
    assert shares[UNEXPLAINED] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NotReady("the writer is away"), "failed"),
        (Overloaded("the writer has too much to do", 1.0), "refused"),
        (NotFound("nobody of that name"), "rejected"),
        (ValueError("a fault"), "failed"),
    ],
)
def test_a_turn_that_fails_says_how_and_its_stages_keep_their_time(error: Exception, outcome: str) -> None:
    class Failing(Stages):
        async def take(self, what: str) -> None:
            await super().take(what)
            if what == "sentence":
                raise error

    async def main() -> None:
        with pytest.raises(type(error)):
            await events_of(Failing({"sentence": 4.0, "vote": 2.0}))

    before, turned = spent(), turns(outcome)
    virtual_time.run(main())
    shares = {stage: seconds - before[stage] for stage, seconds in spent().items()}
    assert shares["vote"] == pytest.approx(2.0, abs=0.1)
    assert shares["reply"] == pytest.approx(4.0, abs=0.1)
    assert shares[UNEXPLAINED] == pytest.approx(0, abs=1e-6)
    assert sum(shares.values()) == pytest.approx(turns(outcome) - turned)


def test_a_stage_has_its_first_result_its_pace_and_its_model() -> None:
    def read(name: str, stage: str, model: str) -> float:
        labels = {"stage": stage, "model": model, "variant": "default"}
        return REGISTRY.get_sample_value(f"e3rg_stage_{name}_sum", labels) or 0.0

    wanted = (
        ("first_chunk_seconds", "reply", "writer", 3.0),
        ("first_chunk_seconds", "speech", "voice", 1.0),
        ("first_chunk_seconds", "video", "face", 2.0),
        # The second second of speech comes 3 s after the first; its pictures take 2 s more, from 2 s on.
        ("real_time_factor", "speech", "voice", 3.0 / 2),
        ("real_time_factor", "video", "face", 3.0 / 2),
    )
    before = [read(*key) for *key, _ in wanted]
    virtual_time.run(events_of(Stages({"sentence": 3.0, "sound": 1.0, "picture": 2.0})))
    for (*key, value), earlier in zip(wanted, before, strict=True):
        assert read(*key) - earlier == pytest.approx(value, abs=0.05), key


def test_the_first_sound_and_video_are_measured_from_the_end_of_the_request() -> None:
    def read(what: str) -> float:
        return REGISTRY.get_sample_value(f"e3rg_turn_first_{what}_seconds_sum") or 0.0

    before = [read(what) for what in ("sound", "video")]
    virtual_time.run(events_of(Stages({"vote": 2.0, "sentence": 3.0, "sound": 1.0, "picture": 4.0})))
    sound_s, video_s = (read(what) - earlier for what, earlier in zip(("sound", "video"), before, strict=True))
    assert sound_s == pytest.approx(6.0, abs=0.1)
    assert video_s == pytest.approx(10.0, abs=0.1)


def test_a_cancelled_turn_is_counted_as_cancelled() -> None:
    in_flight = []

    async def main() -> None:
        def look() -> None:
            in_flight.append(REGISTRY.get_sample_value("e3rg_turns_in_flight"))

        asyncio.get_running_loop().call_later(5, look)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(events_of(Stages({"vote": 50.0})), 10)
        look()

    turned = turns("cancelled")
    virtual_time.run(main())
    assert turns("cancelled") - turned == pytest.approx(10, abs=0.1)
    assert in_flight == [1, 0]
