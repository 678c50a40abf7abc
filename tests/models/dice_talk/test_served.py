"""DICE-Talk over gRPC, by the servicer that every renderer has; and as a container runs it."""

import asyncio
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from services.video.backends.dice_talk import DiceTalkBackend, Settings
from services.video.dice_talk.costs import Costs
from services.video.dice_talk.tiers import Tier
from tests.model_services import serving_video
from tests.models.dice_talk.tiny import PORTRAIT, ROOT, settings_of
from tests.models.dice_talk.watching import SCHEDULE_WARNS, watching
from tests.ports import HeldPort
from tests.samples import pcm
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub as Stub

pytestmark = SCHEDULE_WARNS
RATE_HZ = 16_000
CONTENT = PORTRAIT.read_bytes()
MIB = 1 << 20
READY_TIMEOUT_S = 300


@pytest.fixture
async def stub(backend: DiceTalkBackend, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_video(backend, wheel) as served:
        yield cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))


def order(seconds: float, quality: str = "", seed: int = 0, first_frame: int = 0) -> Iterator[pb.AnimateRequest]:
    """What a caller sends for one segment."""
    emotion = common.Emotion(label="joyful", intensity=0.8, ontology_hash=emotions.load().digest)
    yield pb.AnimateRequest(
        header=pb.AnimateHeader(
            emotion=emotion,
            face_class="happy",
            portrait_digest=hashlib.sha256(CONTENT).hexdigest(),
            portrait_size_bytes=len(CONTENT),
            sample_rate_hz=RATE_HZ,
            seed=seed,
            first_frame=first_frame,
            duration_s=seconds,
            quality=quality,
        )
    )
    for at in range(0, len(CONTENT), MIB):
        yield pb.AnimateRequest(portrait=CONTENT[at : at + MIB])
    sound = pcm(seconds, RATE_HZ)
    for at in range(0, len(sound), 12_800):
        yield pb.AnimateRequest(speech=pb.SpeechChunk(samples=sound[at : at + 12_800]))


def frames_of(parts: Sequence[pb.AnimateResponse]) -> list[NDArray[np.int64]]:
    """Decodes a film."""
    chunks = b"".join(part.chunk for part in parts if part.HasField("chunk"))
    with av.open(io.BytesIO(chunks), mode="r") as film:
        return [frame.to_ndarray(format="rgb24").astype(np.int64) for frame in film.decode(video=0)]


async def test_it_tells_tiers_and_segments(stub: "Stub", backend: DiceTalkBackend) -> None:
    model = await stub.GetModel(pb.GetModelRequest())
    assert (model.card.model, model.card.digest) == ("DICE-Talk", backend.digest)
    assert tuple(model.qualities) == ("best", "good", "draft")
    assert (model.segment_first_s, model.segment_min_s, model.segment_max_s) == (0.5, 1.0, 4.0)
    assert (model.segment_window_s, model.backlog_s) == (2.0, 0.0)
    assert (model.fps, model.size_px) == (25, 512)


async def test_a_segment_becomes_a_film_that_covers_its_speech(stub: "Stub") -> None:
    first, *others = [part async for part in stub.Animate(order(0.7, "draft"), timeout=120)]
    assert first.ready.quality == "draft"
    assert first.ready.cost_s > 0
    done = [part.progress.done for part in others if part.HasField("progress")]
    assert done == sorted(done)
    assert done[-1] == 1
    frames = frames_of(others)
    assert len(frames) == 18
    assert {frame.shape for frame in frames} == {(512, 512, 3)}


async def test_segments_of_one_reply_begin_alike(stub: "Stub") -> None:
    async def first_frame(seconds: float, seed: int) -> NDArray[np.int64]:
        parts = [part async for part in stub.Animate(order(seconds, "draft", seed), timeout=120)]
        return frames_of(parts)[0]

    one = await first_frame(0.4, seed=3)
    other, stranger = await first_frame(0.6, seed=3), await first_frame(0.6, seed=4)
    assert np.abs(one - other).mean() < 0.5 * np.abs(one - stranger).mean()


async def test_the_tier_is_lowered_and_the_call_refused_where_the_deadline_asks_for_it(
    stub: "Stub", backend: DiceTalkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend.renderer, "costs", costs := Costs())
    costs.add_call(backend.tiers["best"], 20.0)
    costs.add_call(backend.tiers["good"], 1.0)
    parts = [part async for part in stub.Animate(order(0.1, "best"), timeout=120)]
    assert (parts[0].ready.quality, parts[0].ready.cost_s) == ("good", 6.0)  # three steps, two windows
    monkeypatch.setattr(backend.renderer, "costs", costs := Costs())
    costs.add_call(backend.tiers["best"], 20.0)
    costs.add_call(backend.tiers["good"], 20.0)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "of rendering are promised already") as failure:
        async for _part in stub.Animate(order(0.5), timeout=30):
            pass
    told = dict(failure.value.trailing_metadata() or ())
    assert int(told["allow-more-ms"]) > 0
    assert "retry-after-ms" not in told  # it is idle


async def test_a_film_that_nobody_wants_any_more_stops_at_the_call_that_runs(
    stub: "Stub", backend: DiceTalkBackend, calls: CallLog
) -> None:
    with watching(backend.renderer.models.unet) as denoised, watching(backend.renderer.models.vae.decoder) as decoded:
        call = stub.Animate(order(3.0, "best"), timeout=120)
        async for part in call:
            if part.HasField("progress"):
                call.cancel()
                break
        await calls.ended("Animate")
        # One thread renders: when it has answered this, the other film has stopped.
        parts = [part async for part in stub.Animate(order(0.04, "draft"), timeout=120)]
        sizes = [call.positional[0].shape[-1] for call in denoised]
        assert sizes.count(16) < 4 * 3  # of the calls that the film would have taken
        assert [call.positional[0].shape[-1] for call in decoded] == [8]
    assert len(frames_of(parts)) == 1


@asynccontextmanager
async def container(settings: Settings, log: Path) -> AsyncIterator["Stub"]:
    """Runs `python -m services.video` with this interpreter until the block ends; it then has to stop by itself."""
    with HeldPort() as port:
        async with _container_at(port.number, settings, log) as stub:
            yield stub


@asynccontextmanager
async def _container_at(port: int, settings: Settings, log: Path) -> AsyncIterator["Stub"]:
    chosen = {"BACKEND": "dice_talk", "HOST": "127.0.0.1", "PORT": str(port), "METRICS_PORT": "0"}
    environment = {f"E3RG_VIDEO_{name}": value for name, value in {**chosen, **settings_of(settings)}.items()}
    with log.open("wb") as output:
        served = subprocess.Popen(
            [sys.executable, "-m", "services.video"],
            cwd=ROOT,
            env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=output,
        )
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            lights = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(service="readiness"), timeout=READY_TIMEOUT_S, wait_for_ready=True
            )
            async for light in lights:
                if light.status == health_pb2.HealthCheckResponse.SERVING:
                    break
            lights.cancel()
            yield cast("Stub", video_pb2_grpc.VideoServiceStub(channel))
        served.terminate()
        assert await asyncio.to_thread(served.wait, 60) == 0, log.read_text()
    finally:
        served.kill()
        served.wait()


async def test_it_runs_as_a_container_runs_it(settings: Settings, tmp_path: Path) -> None:
    small = settings.model_copy(update={"tiers": {"draft": Tier(steps=2, side_px=64, interpolated=False)}})
    async with container(small, tmp_path / "log") as stub:
        assert (await stub.GetModel(pb.GetModelRequest())).qualities == ["draft"]
        parts = [part async for part in stub.Animate(order(0.3), timeout=120)]
    assert len(frames_of(parts)) == 8
