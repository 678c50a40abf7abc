"""One deployment of real processes and real models for all integration tests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from client import Client, Timed
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from local.deployment import VOTERS, Deployment
from local.message import Spoken, film, speak
from tests.support.spans import Collector, collecting

ROOT = Path(__file__).parents[2]


@dataclass
class Turn:
    """What came back for one message."""

    understood: understanding.UnderstandResponse = field(default_factory=understanding.UnderstandResponse)
    identity: object = None
    recalled: memory.SearchResponse = field(default_factory=memory.SearchResponse)
    delivery: pb.Delivery = field(default_factory=pb.Delivery)
    done: pb.Done = field(default_factory=pb.Done)
    sentences: list[str] = field(default_factory=list)
    pcm: bytes = b""
    sample_rate_hz: int = 0
    phonemes: list[object] = field(default_factory=list)
    mp4: bytes = b""
    degraded: list[pb.Degraded] = field(default_factory=list)
    timings: dict[str, pb.StageTiming] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Deployment]:
    # Every span at once: a test waits for them.
    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}", "OTEL_BSP_SCHEDULE_DELAY": "200"}
    names = [*(f"mllm-{voter}" for voter in VOTERS), "understanding", "memory", "tts", "video", "orchestrator"]
    extra = {name: traced | {"OTEL_SERVICE_NAME": name} for name in names}
    with Deployment(tmp_path_factory.mktemp("run"), ROOT / ".models", environment=extra) as running:
        yield running


@pytest.fixture
def client(deployment: Deployment) -> Iterator[Client]:
    with Client(deployment.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def user_says(deployment: Deployment) -> Callable[[str, str, str], Spoken]:
    """Speech of a user: text, identity, emotion label."""
    return cache(lambda text, who, label: speak(deployment.components["tts"].address, text, who, label))


@pytest.fixture(scope="session")
def user_films(
    deployment: Deployment, user_says: Callable[[str, str, str], Spoken]
) -> Callable[[str, str, str], bytes]:
    """Video of a user: text, identity, emotion label."""

    def make(text: str, who: str, label: str) -> bytes:
        return film(deployment.components["video"].address, user_says(text, who, label), who, label)

    return cache(make)


@pytest.fixture(scope="session")
def take(deployment: Deployment) -> Iterator[Callable[..., Turn]]:
    """Runs a whole turn: fields of the header as keywords, and `audio` and `video` as files' content."""
    with Client(deployment.address) as connected:

        def run(audio: bytes = b"", video: bytes = b"", **header: object) -> Turn:
            return gather(connected.respond(pb.RespondHeader(**header), audio, video))  # type: ignore[arg-type]

        yield run


def gather(events: Iterator[Timed]) -> Turn:
    """Gathers the events of a turn."""
    turn = Turn()
    for timed in events:
        event = timed.event
        kind = event.WhichOneof("event") or ""
        turn.order.append(kind)
        match kind:
            case "understood" | "delivery" | "done" | "identity" | "recalled":
                setattr(turn, kind, getattr(event, kind))
            case "text":
                turn.sentences.append(event.text.sentence)
            case "audio":
                turn.pcm += event.audio.samples
                turn.sample_rate_hz = event.audio.sample_rate_hz
                turn.phonemes += event.audio.phonemes
            case "video":
                turn.mp4 += event.video.content
            case "degraded":
                turn.degraded.append(event.degraded)
            case "timing":
                turn.timings[event.timing.stage] = event.timing
    return turn
