"""Measures a turn: overlapped, and the same stages run one after another, side by side in one run.

    python -m benchmarks.turn [--turns N]

"one after another" calls the same services with the same inputs, but starts a stage only when the one before has
ended, as scripts that hand over files do: understand, write the whole reply, speak all of it, then film all of it.

"where it goes" attributes each moment of a turn, as its caller sees it, to one stage; `unexplained` is the rest.
"""

import argparse
import statistics
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from prometheus_client.parser import text_string_to_metric_families

import emotions
from benchmarks.messages import MESSAGES
from client import Client
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.understanding.v1 import understanding_pb2_grpc
from local.deployment import Deployment
from local.message import film, speak
from orchestrator.attribution import STAGES, UNEXPLAINED, Interval, shares

CHUNK_BYTES = 1 << 18
CALLS_MAX = 12
TARGETS_S = {"first audio": 2.5, "first video": 3.0}


@dataclass
class Measured:
    """Seconds after the end of the request."""

    first_audio_s: float
    first_video_s: float
    total_s: float
    media_s: float
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def real_time_factor(self) -> float:
        """Seconds from the first video chunk to the last per second of video; under 1 plays without a pause."""
        return (self.total_s - self.first_video_s) / self.media_s


def overlapped(client: Client, header: pb.RespondHeader, audio: bytes, video: bytes) -> Measured:
    """One turn through the orchestrator."""
    first: dict[str, float] = {}
    work: list[Interval] = []
    total_s = media_s = 0.0
    for timed in client.respond(header, audio, video):
        kind = timed.event.WhichOneof("event") or ""
        first.setdefault(kind, timed.seconds)
        if kind == "done":
            total_s, media_s = timed.seconds, timed.event.done.audio_duration_s
        elif kind == "timing" and timed.event.timing.stage in STAGES:
            timing = timed.event.timing
            work.append(Interval(timing.stage, timing.start_s, timing.end_s))
    return Measured(first["audio"], first["video"], total_s, media_s, shares(work, 0.0, total_s))


def one_after_another(deployment: Deployment, header: pb.RespondHeader, audio: bytes, video: bytes) -> Measured:
    """The same stages as scripts would run them; nothing starts before the one before has ended."""
    at = {name: component.address for name, component in deployment.components.items()}
    start_s = time.monotonic()
    with grpc.insecure_channel(at["understanding"]) as channel:
        stub = understanding_pb2_grpc.UnderstandingServiceStub(channel)
        understood = stub.Understand(_parts(header, audio, video))
        felt = emotions.load().reply_to(understood.emotion.label)
        reply = common.Emotion(label=felt.label, intensity=felt.intensity, ontology_hash=emotions.load().digest)
        order = mllm.WriteReplyRequest(
            text=understood.text,
            user_emotion=understood.emotion,
            reply_emotion=reply,
            profile=common.Profile(name="Anna", age="young", gender="female", timbre="mid", language="en"),
        )
        parts = stub.WriteReply(understanding.WriteReplyRequest(reply=order))
        text = " ".join(part.sentence for part in parts if part.sentence)
    spoken = speak(at["tts"], text, header.identity, reply.label)
    spoken_s = time.monotonic() - start_s
    film(at["video"], spoken, header.identity, reply.label)
    total_s = time.monotonic() - start_s
    return Measured(spoken_s, total_s, total_s, len(spoken.pcm) / 2 / spoken.sample_rate_hz)


def _parts(header: pb.RespondHeader, audio: bytes, video: bytes) -> Iterator[understanding.UnderstandRequest]:
    yield understanding.UnderstandRequest(
        header=understanding.UnderstandHeader(
            text=header.text,
            audio_size_bytes=len(audio),
            video_size_bytes=len(video),
            ontology_hash=emotions.load().digest,
        )
    )
    for start in range(0, len(audio), CHUNK_BYTES):
        yield understanding.UnderstandRequest(audio=audio[start : start + CHUNK_BYTES])
    for start in range(0, len(video), CHUNK_BYTES):
        yield understanding.UnderstandRequest(video=video[start : start + CHUNK_BYTES])
    yield understanding.UnderstandRequest(context=understanding.UnderstandContext())


def compare(name: str, pairs: list[tuple[Measured, Measured]]) -> None:
    """Prints the medians of both ways and their ratio."""
    print(f"\n{name}: median of {len(pairs)} turns (worst in brackets)")
    print(f"{'':24}{'overlapped':>18}{'one after another':>20}{'ratio':>8}")
    for row, key in (("first audio", "first_audio_s"), ("first video", "first_video_s"), ("whole reply", "total_s")):
        ours = [getattr(mine, key) for mine, _ in pairs]
        theirs = [getattr(other, key) for _, other in pairs]
        mine, other = statistics.median(ours), statistics.median(theirs)
        target = f"  (target {TARGETS_S[row]} s)" if row in TARGETS_S else ""
        print(
            f"  {row:22}{f'{mine:.2f} s ({max(ours):.2f})':>18}{f'{other:.2f} s ({max(theirs):.2f})':>20}"
            f"{other / mine:7.1f}x{target}"
        )
    factors = [mine.real_time_factor for mine, _ in pairs]
    print(f"  real-time factor after the first video chunk: {statistics.median(factors):.2f} ({max(factors):.2f})")
    print(f"  length of the reply: {statistics.median(mine.media_s for mine, _ in pairs):.1f} s")
    turns_s = sum(mine.total_s for mine, _ in pairs)
    spent = {stage: sum(mine.shares.get(stage, 0.0) for mine, _ in pairs) for stage in (*STAGES, UNEXPLAINED)}
    parts = [f"{stage} {seconds / turns_s:.1%}" for stage, seconds in spent.items() if seconds]
    print(f"  where it goes: {', '.join(parts)} (target: unexplained at most 5 %)")


def calls(deployment: Deployment) -> Counter[str]:
    """Return how many RPCs the services have answered, by service and method; streams of load are not among them."""
    found: Counter[str] = Counter()
    for name, component in deployment.components.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{component.metrics_port}/metrics") as page:
            for family in text_string_to_metric_families(page.read().decode()):
                for sample in family.samples:
                    if sample.name == "e3rg_call_seconds_count":
                        found[f"{name} {sample.labels['method']}"] += int(sample.value)
    return found


def count_calls(deployment: Deployment, client: Client) -> None:
    """Print the RPCs of one warm text turn with video, which is kept."""
    header = pb.RespondHeader(text=MESSAGES[0], identity="anna", conversation="calls", person="someone")
    overlapped(client, header, b"", b"")
    before = calls(deployment)
    overlapped(client, header, b"", b"")
    made = calls(deployment) - before
    print(f"\nRPCs of a warm text turn with video, kept: {made.total()} (target: at most {CALLS_MAX})")
    print("  " + ", ".join(f"{name} {count}" if count > 1 else name for name, count in sorted(made.items())))


def memory_mib(deployment: Deployment) -> dict[str, float]:
    """Proportional set size of each service: shared pages are counted once over all."""
    sizes = {}
    for name, component in deployment.components.items():
        assert component.process
        rows = Path(f"/proc/{component.process.pid}/smaps_rollup").read_text("utf-8").splitlines()
        sizes[name] = next(int(row.split()[1]) for row in rows if row.startswith("Pss:")) / 1024
    return sizes


def main() -> int:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=len(MESSAGES), help="turns of each kind")
    options = parser.parse_args()
    started_s = time.monotonic()
    with Deployment(Path(".run/bench"), Path(".models")) as deployment, Client(deployment.address) as client:
        print(f"cold start of all services: {time.monotonic() - started_s:.1f} s")
        messages = (MESSAGES * options.turns)[: options.turns]
        tts, renderer = deployment.components["tts"].address, deployment.components["video"].address
        said = {text: speak(tts, text, "kenji", "neutral") for text in dict.fromkeys(messages)}
        overlapped(client, _header(MESSAGES[0]), b"", b"")  # the first turn fits the voice and rigs the portrait

        def pair(header: pb.RespondHeader, audio: bytes = b"", video: bytes = b"") -> tuple[Measured, Measured]:
            return (
                overlapped(client, header, audio, video),
                one_after_another(deployment, header, audio, video),
            )

        compare("text", [pair(_header(text)) for text in messages])
        compare("speech", [pair(_header(""), audio=said[text].wav) for text in messages])
        films = {text: film(renderer, spoken, "kenji", "neutral") for text, spoken in said.items()}
        compare("face video", [pair(_header(""), video=films[text]) for text in messages])
        count_calls(deployment, client)
        sizes = memory_mib(deployment)
        print(f"\nmemory of all services: {sum(sizes.values()):.0f} MiB")
        print("  " + ", ".join(f"{name} {size:.0f}" for name, size in sizes.items()))
    return 0


def _header(text: str) -> pb.RespondHeader:
    return pb.RespondHeader(text=text, identity="anna")


if __name__ == "__main__":
    sys.exit(main())
