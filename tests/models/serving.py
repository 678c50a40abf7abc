"""A back-end as a container runs it: a process of its own, asked over gRPC."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from services.common.images import encode_jpeg
from services.mllm.domain import Frame
from tests.ports import HeldPort

ROOT = Path(__file__).parents[2]
READY_TIMEOUT_S = 300
ANSWER_TIMEOUT_S = 120
TEXT = "My dog died on Monday, and nobody at work said a word."
LABELS = frozenset(emotions.load().labels)


@contextmanager
def process(backend: str, settings: dict[str, str], log: Path) -> Iterator[mllm_pb2_grpc.MllmServiceStub]:
    """Runs `python -m services.mllm` with this interpreter until the block ends; it then has to stop by itself.

    Args:
        backend: Its name.
        settings: Of the back-end, without the prefix E3RG_MLLM_.
        log: File that its output goes to.
    """
    with service("mllm", {"BACKEND": backend, "DTYPE": "float32", **settings}, log) as channel:
        yield mllm_pb2_grpc.MllmServiceStub(channel)


@contextmanager
def service(name: str, settings: dict[str, str], log: Path) -> Iterator[grpc.Channel]:
    """Runs `python -m services.NAME` with this interpreter until the block ends; it then has to stop by itself.

    Args:
        name: Of the service.
        settings: Of the service and its back-end, without the prefix E3RG_NAME_.
        log: File that its output goes to.
    """
    with HeldPort() as port, _service_at(port.number, name, settings, log) as channel:
        yield channel


@contextmanager
def _service_at(port: int, name: str, settings: dict[str, str], log: Path) -> Iterator[grpc.Channel]:
    known = {"HOST": "127.0.0.1", "PORT": str(port), "METRICS_PORT": "0", "DEVICE": "cpu"}
    chosen = {**known, "MODELS_DIR": str(ROOT / ".models"), **settings}
    environment = {
        **os.environ,
        **{f"E3RG_{name.upper()}_{field}": value for field, value in chosen.items()},
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "tests" / "models" / "torchvision_names"),
    }
    with log.open("wb") as output:
        served = subprocess.Popen(
            [sys.executable, "-m", f"services.{name}"], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            _wait_ready(channel, served, log)
            yield channel
        served.terminate()
        assert served.wait(60) == 0, log.read_text()
    finally:
        served.kill()
        served.wait()


def _wait_ready(channel: grpc.Channel, served: "subprocess.Popen[bytes]", log: Path) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    lights = health.Watch(
        health_pb2.HealthCheckRequest(service="readiness"), timeout=READY_TIMEOUT_S, wait_for_ready=True
    )
    # Nobody else tells that the process has died.
    threading.Thread(target=lambda: (served.wait(), lights.cancel()), daemon=True).start()
    try:
        for light in lights:
            if light.status == health_pb2.HealthCheckResponse.SERVING:
                lights.cancel()
                return
    except grpc.RpcError as error:
        raise AssertionError(f"not ready ({error}), status {served.poll()}:\n{log.read_text()}") from error


def predict(
    stub: mllm_pb2_grpc.MllmServiceStub, pcm: bytes = b"", frames: Sequence[Frame] = (), text: str = TEXT
) -> pb.PredictEmotionResponse:
    """Asks for the emotion of a message with these media."""
    header = pb.PredictEmotionHeader(text=text, ontology_hash=emotions.load().digest)
    parts = [pb.PredictEmotionRequest(header=header)]
    parts += [pb.PredictEmotionRequest(audio=pcm[at : at + 2**20]) for at in range(0, len(pcm), 2**20)]
    for frame in frames:
        message = pb.Frame(time_s=frame.time_s, jpeg=encode_jpeg(frame.image))
        parts.append(pb.PredictEmotionRequest(frame=message))
    answer: pb.PredictEmotionResponse = stub.PredictEmotion(iter(parts), timeout=ANSWER_TIMEOUT_S)
    return answer


def reply(stub: mllm_pb2_grpc.MllmServiceStub, seed: int = 0) -> tuple[list[str], pb.ReplyRecord]:
    """Asks for a reply; returns its sentences and its record, which comes last."""
    wheel = emotions.load().digest
    request = pb.WriteReplyRequest(
        text=TEXT,
        user_emotion=common.Emotion(label="sad", ontology_hash=wheel),
        reply_emotion=common.Emotion(label="caring", ontology_hash=wheel),
        profile=common.Profile(name="Anna", age="young", gender="female", timbre="mid", language="en"),
        seed=seed,
    )
    *sentences, last = stub.WriteReply(request, timeout=ANSWER_TIMEOUT_S)
    return [part.sentence for part in sentences], last.record
