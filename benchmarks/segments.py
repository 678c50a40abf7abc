"""Measures how a reply in segments gets faster with replicas of its renderer, side by side in one run.

    python -m benchmarks.segments [--replicas 1 2 4] [--work 1.0]

Each replica is a process of its own that serves the real contract. Its renderer only waits, a fixed time per second of
film and in steps, as a caller waits for a GPU that is busy with nothing else; what is measured is everything around
it: cutting, spreading over the replicas, order, seams. The speech is a tone with pauses, there at once.

The last two rows are a turn that meets two replicas, one of them busy with all of another turn just like it: first
called in turn, then by the least predicted wait.
"""

import argparse
import asyncio
import hashlib
import io
import math
import multiprocessing
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import av
import grpc
import numpy as np
from numpy.typing import NDArray
from PIL import Image

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2, video_pb2_grpc
from orchestrator.filming import Camera
from orchestrator.flow import Flow
from orchestrator.messages import Scene
from orchestrator.stages import Video
from services.common import clients, server
from services.common.inference import InferenceQueue
from services.common.settings import ServiceSettings
from services.video.domain import Expression, Frame, Performance, Portrait, Progress, Rig, Segments, Speech, Studio
from services.video.servicer import VideoServicer

RATE_HZ = 16_000
SENTENCES, SENTENCE_S, PAUSE_S = 16, (1.8, 2.4), 0.25
STEPS_PER_S = 4
"""Steps of the renderer for each second of its work."""
DEADLINE_S = 600.0


class WaitingBackend:
    """A renderer that waits `work` seconds for each second of film."""

    model = "waiting renderer"
    digest = "0" * 64
    rigging = 1
    classes: tuple[str, ...] = ("neutral",)
    fps = 25
    size_px = 128
    qualities: tuple[str, ...] = ("full",)
    segments: Segments | None = Segments(first_s=2.0, min_s=4.0, max_s=8.0)

    def __init__(self, work: float) -> None:
        self.work = work

    def cost_s(self, duration_s: float, quality: str) -> float:
        """Returns how long it will wait."""
        return duration_s * self.work

    def prepare(self, portrait: Portrait) -> Rig:
        """Has nothing to do."""
        return object()

    def pack(self, rig: Rig) -> bytes:
        """Has nothing to keep."""
        return b""

    def unpack(self, content: bytes, image: Callable[[], NDArray[np.uint8]]) -> Rig:
        """Was never given anything to keep."""
        raise ValueError("nothing is ever packed")

    def flaw(self, image: NDArray[np.uint8]) -> str:
        """Takes every picture."""
        return ""

    def perform(self, rig: Rig, expression: Expression, seed: int, quality: str) -> Performance:
        """Begins a segment."""
        return WaitingPerformance(self)

    def close(self) -> None:
        """Holds nothing."""


class WaitingPerformance:
    """One segment."""

    def __init__(self, backend: WaitingBackend) -> None:
        self._backend = backend
        self._duration_s = 0.0

    def feed(self, speech: Speech) -> Iterator[Frame | Progress]:
        """Takes speech; shows nothing yet."""
        self._duration_s += len(speech.samples) / speech.sample_rate_hz
        return iter(())

    def finish(self) -> Iterator[Frame | Progress]:
        """Waits, then gives all frames."""
        cost_s = self._backend.cost_s(self._duration_s, "full")
        steps = max(1, round(cost_s * STEPS_PER_S))
        for step in range(steps):
            time.sleep(cost_s / steps)
            yield Progress((step + 1) / steps)
        size_px = self._backend.size_px
        for index in range(math.ceil(self._duration_s * self._backend.fps - 1e-6)):
            yield np.full((size_px, size_px, 3), index % 256, np.uint8)


def serve(work: float, told: Connection) -> None:
    """Serves one replica until the other end of `told` is closed; tells its port there."""

    async def main() -> None:
        backend = WaitingBackend(work)
        queue = InferenceQueue("video", backend.model, waiting_max=SENTENCES)
        servicer = VideoServicer("waiting", backend, Studio(backend, 1), queue, emotions.load())
        async with server.running(
            video_pb2.DESCRIPTOR.services_by_name["VideoService"].full_name,
            "video",
            ServiceSettings(port=0, metrics_port=0, shutdown_grace_s=1),
        ) as running:
            running.serve(
                lambda to: video_pb2_grpc.add_VideoServiceServicer_to_server(servicer, to),
                servicer.load,
                servicer.model,
            )
            await running.set_ready()
            told.send(running.port)
            await asyncio.to_thread(told.poll, None)
        queue.close()

    asyncio.run(main())


@asynccontextmanager
async def replicas(count: int, work: float) -> AsyncIterator[list[str]]:
    """Runs so many replicas; gives their addresses."""
    spawn = multiprocessing.get_context("spawn")
    processes, ends = [], []
    try:
        for _ in range(count):
            mine, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(work, theirs), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            ends.append(mine)
        yield [f"127.0.0.1:{await asyncio.to_thread(end.recv)}" for end in ends]
    finally:
        for end in ends:
            end.close()
        for process in processes:
            await asyncio.to_thread(process.join)


@asynccontextmanager
async def calling(addresses: list[str]) -> AsyncIterator[Video]:
    """Gives the stage that calls the replicas at these addresses."""
    async with clients.open_channel(f"ipv4:{','.join(addresses)}") as channel:
        await channel.replicas.wait_ready(len(addresses))
        yield Video(channel)


@asynccontextmanager
async def going_round(addresses: list[str]) -> AsyncIterator[Video]:
    """Gives the stage that calls the replicas in turn, as gRPC does that knows of no backlog."""
    config = '{"loadBalancingConfig": [{"round_robin": {}}]}'
    async with grpc.aio.insecure_channel(f"ipv4:{','.join(addresses)}", [("grpc.service_config", config)]) as channel:
        yield Video(channel)


def reply(sentences: int) -> tts.SpeechChunk:
    """Sentences of a tone, and pauses."""
    random, parts = np.random.default_rng(7), []
    for _ in range(sentences):
        count = round(random.uniform(*SENTENCE_S) * RATE_HZ)
        parts += [8000 * np.sin(np.arange(count) * 2 * np.pi * 220 / RATE_HZ), np.zeros(round(PAUSE_S * RATE_HZ))]
    return tts.SpeechChunk(samples=np.concatenate(parts).astype("<i2").tobytes(), sample_rate_hz=RATE_HZ)


def scene() -> Scene:
    """Whose face is filmed."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), (180, 140, 120)).save(file, "PNG")
    portrait = file.getvalue()
    digest = hashlib.sha256(portrait).hexdigest()
    emotion = common.Emotion(label="neutral", ontology_hash=emotions.load().digest)
    return Scene(pb.Delivery(emotion=emotion, face_class="neutral"), portrait, digest, RATE_HZ, seed=1)


@dataclass(frozen=True)
class Measured:
    """Seconds from the end of the speech, and how many segments there were."""

    first_s: float
    finish_s: float
    segments: int


async def measure(stage: Video, speech: tts.SpeechChunk) -> Measured:
    """Films the reply once.

    Raises:
        RuntimeError: The film lacks frames.
    """
    flow: Flow[tts.SpeechChunk] = Flow()
    model = await stage.model()
    camera = Camera(stage, model, "", idle_s=20.0, left_s=lambda: DEADLINE_S, lowered=print, uneven=print)
    started_s, arrived_s = time.monotonic(), []
    content, segments = b"", 0
    flow.put(speech)
    flow.end()
    async for chunk in camera.film(scene(), flow):
        arrived_s.append(time.monotonic() - started_s)
        content += chunk.content
        segments += bool(chunk.quality)
    with av.open(io.BytesIO(content), mode="r") as film:
        frames = sum(1 for _ in film.decode(video=0))
    wanted = math.ceil(len(speech.samples) / 2 / RATE_HZ * model.fps - 1e-6)
    if frames != wanted:
        raise RuntimeError(f"the film has {frames} frames of {wanted}")
    return Measured(arrived_s[0], arrived_s[-1], segments)


async def compare(counts: list[int], work: float, sentences: int = SENTENCES) -> None:
    """Prints a row for each number of replicas, and two of what another turn costs."""
    speech = reply(sentences)
    speech_s = len(speech.samples) / 2 / RATE_HZ
    print(f"{speech_s:.1f} s of speech, {work:g} s of rendering for each second of film")
    print(f"{'replicas':30}{'segments':>10}{'first chunk':>13}{'finish':>10}{'of the first row':>18}{'1/k':>7}")
    async with replicas(max(*counts, 2), work) as addresses:
        first: Measured | None = None
        for count in counts:
            async with calling(addresses[:count]) as stage:
                found = await measure(stage, speech)
            first = first or found
            print(f"{count:<30}{row(found, first)}{counts[0] / count:7.2f}", flush=True)
        for name, kind in (("2, one busy, in turn", going_round), ("2, one busy, by wait", calling)):
            async with calling(addresses[:1]) as alone, kind(addresses[:2]) as stage:
                other = asyncio.create_task(measure(alone, speech))
                while not other.done() and not (await alone.model()).backlog_s:
                    await asyncio.sleep(0.01)
                print(f"{name:30}{row(await measure(stage, speech), first or found)}", flush=True)
                await other


def row(found: Measured, first: Measured) -> str:
    """A row of figures, each beside the first row's."""
    return f"{found.segments:10}{found.first_s:11.2f} s{found.finish_s:8.2f} s{found.finish_s / first.finish_s:17.2f}x"


def main() -> int:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4], help="numbers to compare")
    parser.add_argument("--work", type=float, default=1.0, help="seconds of rendering for each second of film")
    options = parser.parse_args()
    asyncio.run(compare(options.replicas, options.work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
