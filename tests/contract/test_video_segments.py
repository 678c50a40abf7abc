"""Every promise of `video.proto` about renderers of segments: quality, backlog, progress, seams."""

import asyncio
import io
import math
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import av
import grpc
import pytest

from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from tests.contract.test_video_service import INVALID, boxes, header, portrait, read, rest, speech
from tests.fake_faces import FakeFace, FakePainter
from tests.fakes import Gate
from tests.model_services import serving_video
from tests.samples import pcm, png
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub as Stub

STEPS = FakePainter.steps["fine"]
HEARTBEAT_S = 0.05
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def painter() -> FakePainter:
    return FakePainter()


@pytest.fixture
async def stub(painter: FakePainter, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_video(painter, wheel, heartbeat_s=HEARTBEAT_S) as served:
        yield cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))


def segment(
    seconds: float = 0.8, first_frame: int = 0, quality: str = "", duration_s: float | None = None
) -> list[pb.AnimateRequest]:
    first = header()
    first.header.duration_s = seconds if duration_s is None else duration_s
    first.header.first_frame, first.header.quality = first_frame, quality
    return [first, *portrait(), speech(pcm(seconds))]


async def animate(stub: "Stub", *parts: pb.AnimateRequest, timeout_s: float | None = 20) -> list[pb.AnimateResponse]:
    return [part async for part in stub.Animate(iter(parts), timeout=timeout_s)]


def content(parts: list[pb.AnimateResponse]) -> bytes:
    return b"".join(part.chunk for part in parts)


async def backlog(stub: "Stub") -> float:
    return (await stub.GetModel(pb.GetModelRequest())).backlog_s


async def test_a_renderer_says_its_tiers_and_how_much_it_takes_at_once(stub: "Stub") -> None:
    model = await stub.GetModel(pb.GetModelRequest())
    assert list(model.qualities) == ["fine", "draft"]
    assert (model.segment_first_s, model.segment_min_s, model.segment_max_s) == (0.4, 0.4, 1.2)
    assert model.segment_window_s == 0
    assert model.backlog_s == 0


async def test_a_call_is_accepted_then_progresses_then_shows_all(stub: "Stub", painter: FakePainter) -> None:
    first, rigged, *others = await animate(stub, *segment(0.8))
    assert (first.ready.quality, first.ready.backlog_s) == ("fine", 0)
    assert first.ready.card == (await stub.GetModel(pb.GetModelRequest())).card
    assert rigged.rigged.endswith(painter.packed)
    assert first.ready.cost_s == pytest.approx(painter.cost_s(0.8, "fine"))
    assert first.ready.mime_type.startswith('video/mp4; codecs="avc1.')
    kinds = [part.WhichOneof("part") for part in others]
    assert kinds == ["progress"] * STEPS + ["chunk"] * (len(others) - STEPS)
    done = [part.progress.done for part in others[:STEPS]]
    assert done == pytest.approx([(step + 1) / STEPS for step in range(STEPS)])
    with av.open(io.BytesIO(content(others)), mode="r") as film:
        assert sum(1 for _ in film.decode(video=0)) == 20
    assert painter.painted == [("fine", 0.8)]


async def test_segments_one_after_another_are_one_film(stub: "Stub") -> None:
    parts = [*await animate(stub, *segment(0.52)), *await animate(stub, *segment(0.8, first_frame=13))]
    whole = content(parts)
    assert [name for name in boxes(whole) if name in ("ftyp", "moov")] == ["ftyp", "moov"]
    with av.open(io.BytesIO(whole), mode="r") as film:
        assert [frame.time for frame in film.decode(video=0)] == pytest.approx([frame / 25 for frame in range(33)])
    with av.open(io.BytesIO(whole), mode="r") as film:
        sounds = [(frame.pts, frame.samples) for frame in film.decode(audio=0)]
    assert [pts for pts, _ in sounds] == [1024 * index for index in range(len(sounds))]
    assert len(sounds) == math.ceil(33 / 25 * 48_000 / 1024)


# Quality and backlog


@pytest.mark.parametrize(
    ("step_s", "wish", "timeout_s", "used"),
    [
        (0.01, "", 20, "fine"),
        (0.01, "draft", 20, "draft"),
        (1, "", None, "fine"),  # 16 s, and no deadline
        (2, "", 20, "draft"),  # 32 s
        (2, "fine", 20, "draft"),
    ],
)
async def test_the_best_tier_that_the_deadline_allows_is_used(
    stub: "Stub", painter: FakePainter, step_s: float, wish: str, timeout_s: float | None, used: str
) -> None:
    painter.step_s = step_s
    first, *_ = await animate(stub, *segment(quality=wish), timeout_s=timeout_s)
    assert first.ready.quality == used
    assert first.ready.cost_s == painter.cost_s(0.8, used)
    assert painter.painted == [(used, 0.8)]


async def test_what_cannot_end_in_time_is_refused_with_backlog_cost_and_deadline(
    stub: "Stub", painter: FakePainter
) -> None:
    painter.step_s, painter.before = 1.5, (gate := Gate("step", after=4))
    first = stub.Animate(iter(segment(quality="fine")), timeout=60)
    await gate.reached()
    assert await backlog(stub) == 12  # half of 24
    text = (
        "12.0 s of rendering are promised already and 0.8 s of speech at the lowest quality that may be used, 'draft',"
        " cost 6.0 s more, but the caller's deadline is in 1"
    )
    with refused(EXHAUSTED, text) as failure:
        await animate(stub, *segment(), timeout_s=17)
    told = dict(failure.value.trailing_metadata() or ())
    assert 0 < int(told["allow-more-ms"]) < 3000  # a deadline travels in rounded steps
    assert told["retry-after-ms"] == told["allow-more-ms"]
    assert await backlog(stub) == 12
    second = stub.Animate(iter(segment()), timeout=19)
    ready = (await read(second)).ready
    assert (ready.quality, ready.cost_s, ready.backlog_s) == ("draft", 6, 12)
    assert await backlog(stub) == 18
    gate.open()
    assert content(await rest(first))
    assert content(await rest(second))
    assert await backlog(stub) == 0


async def test_what_cannot_end_in_time_is_refused_before_its_portrait_is_sent(
    stub: "Stub", painter: FakePainter
) -> None:
    painter.step_s = 100
    call = stub.Animate(timeout=20)
    await call.write(segment()[0])
    with refused(EXHAUSTED, "0.0 s of rendering are promised already and 0.8 s of speech"):
        await call.read()


async def test_a_call_has_its_place_when_it_has_sent_its_speech_and_is_rendered_in_that_order(
    stub: "Stub", painter: FakePainter
) -> None:
    painter.before = gate = Gate("step")
    first = stub.Animate(iter(segment(0.4)), timeout=20)
    await gate.reached()
    slow = stub.Animate(timeout=20)
    *before, last = segment(0.52)
    for part in before:
        await slow.write(part)
    quick = stub.Animate(iter(segment(0.8)), timeout=20)
    costs = [painter.cost_s(seconds, "fine") for seconds in (0.4, 0.8)]
    assert (await read(quick)).ready.backlog_s == pytest.approx(costs[0])
    await slow.write(last)
    await slow.done_writing()
    assert (await read(slow)).ready.backlog_s == pytest.approx(sum(costs))
    gate.open()
    for call in (first, quick, slow):
        assert content(await rest(call))
    assert [seconds for _, seconds in painter.painted] == [0.4, 0.8, 0.52]


async def test_the_next_promise_costs_what_the_last_one_took(stub: "Stub", painter: FakePainter) -> None:
    painter.step_s = 10  # it says; it is faster
    costs = [(await animate(stub, *segment(), timeout_s=None))[0].ready.cost_s for _ in range(2)]
    assert costs == pytest.approx([160, 160 * 0.9])


async def test_a_replica_says_which_it_is(stub: "Stub", wheel: Wheel) -> None:
    async with serving_video(FakePainter(), wheel) as served:
        other = cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))
        names = [(await animate(each, *segment()))[0].ready.replica for each in (stub, stub, other)]
    assert names[0] == names[1] != names[2]
    assert all(names)


async def test_a_renderer_that_keeps_up_with_speech_is_never_refused(wheel: Wheel) -> None:
    async with serving_video(FakeFace(), wheel) as served:
        stub = cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))
        first, *_ = await animate(stub, *segment(10))
        assert (first.ready.quality, first.ready.cost_s, first.ready.backlog_s) == ("full", 0, 0)
        with refused(INVALID, "header.quality: 'fine'; use one of: full"):
            await animate(stub, *segment(quality="fine"))


async def test_a_cancelled_call_stops_at_the_next_step_and_its_promise_is_taken_back_at_once(
    stub: "Stub", painter: FakePainter, calls: CallLog
) -> None:
    painter.step_s, painter.before = 0.5, (gate := Gate("step", after=2))
    call = stub.Animate(iter(segment()), timeout=20)
    await gate.reached()
    assert await backlog(stub) == pytest.approx(8 * 6 / 8)
    call.cancel()
    assert [ended.status for ended in await calls.ended("Animate")] == ["CANCELLED"]
    assert await backlog(stub) == 0
    gate.open()
    await painter.stopped.happened()
    assert gate.came == 3
    assert content(await animate(stub, *segment()))


async def test_a_call_that_is_cancelled_while_it_waits_is_never_painted(
    stub: "Stub", painter: FakePainter, calls: CallLog
) -> None:
    painter.before = gate = Gate("step")
    first = stub.Animate(iter(segment()), timeout=20)
    await gate.reached()
    second = stub.Animate(iter(segment()), timeout=20)
    assert (await read(second)).HasField("ready")
    assert await backlog(stub) == pytest.approx(2 * painter.cost_s(0.8, "fine"))
    second.cancel()
    await calls.ended("Animate")
    assert await backlog(stub) == pytest.approx(painter.cost_s(0.8, "fine"))
    gate.open()
    assert [part async for part in first]
    assert len(painter.painted) == 1


async def test_one_that_waits_hears_while_the_renderer_gets_on_and_nothing_while_it_hangs(
    stub: "Stub", painter: FakePainter
) -> None:
    painter.before = gate = Gate("step")
    first = stub.Animate(iter(segment()), timeout=20)
    await gate.reached()
    second = stub.Animate(iter(segment()), timeout=20)
    assert (await read(second)).HasField("ready")
    hearing = asyncio.create_task(read(second))
    await asyncio.wait({hearing}, timeout=6 * HEARTBEAT_S)
    assert not hearing.done()
    painter.before = held = Gate("frame")  # all steps of the first pass, its frames do not
    gate.open()
    await held.reached()
    heard = await hearing
    assert (heard.WhichOneof("part"), heard.progress.done) == ("progress", 0)
    held.open()
    assert content(await rest(first))
    assert content(await rest(second))


# Wrong requests


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            segment(duration_s=0),
            "header.duration_s: 0; this renderer must know it, and takes segments of at",
        ),
        (segment(1.24), "header.duration_s: 1.24; this renderer must know it, and takes segments of at most 1.2 s"),
        (segment(duration_s=-1), "header.duration_s: -1; send the seconds of the speech"),
        (segment(duration_s=math.nan), "header.duration_s: nan; send the seconds of the speech"),
        (segment(duration_s=math.inf), "header.duration_s: inf; send the seconds of the speech"),
        (segment(0.8, duration_s=0.4), "speech.samples: 0.8 s and more came; header.duration_s is 0.4"),
        (segment()[:-1], "speech.samples: none came; send the 0.8 s of speech"),
        (segment(quality="finest"), "header.quality: 'finest'; use one of: fine, draft"),
    ],
)
async def test_a_wrong_segment_is_refused_with_field_value_and_remedy(
    stub: "Stub", parts: list[pb.AnimateRequest], text: str
) -> None:
    with refused(INVALID, text):
        await animate(stub, *parts)
    assert await backlog(stub) == 0
    assert content(await animate(stub, *segment()))


async def test_a_portrait_that_cannot_be_used_is_refused_when_its_turn_comes(
    stub: "Stub", painter: FakePainter
) -> None:
    dark = png(colour=(0, 0, 0))
    first = header(content=dark)
    first.header.duration_s = 0.8
    with refused(INVALID, "portrait: no face in it; send a photograph of one face"):
        await animate(stub, first, *portrait(dark), speech(pcm(0.8)))
    assert painter.painted == []


async def test_a_portrait_is_looked_into_when_its_turn_comes(stub: "Stub", painter: FakePainter) -> None:
    painter.before = gate = Gate("step")
    first = stub.Animate(iter(segment()), timeout=20)
    await gate.reached()
    head = header(content=b"no picture")
    head.header.duration_s = 0.8
    second = stub.Animate(iter([head, *portrait(b"no picture"), speech(pcm(0.8))]), timeout=20)
    assert (await read(second)).HasField("ready")
    gate.open()
    assert content(await rest(first))
    with refused(INVALID, "portrait: 10 bytes that are no JPEG or PNG"):
        await rest(second)
