"""Compares two voices on this machine as an operator would: weights, an experiment with ratings, a guardrail.

    python -m benchmarks.variants [--turns N] [--users N]

Real services and models; what users think of a voice is drawn at random, and known: kokoro is better by 0.5 stars.
The guardrail then takes kokoro back, which needs several times as long until its first sound.
"""

import argparse
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from benchmarks.messages import MESSAGES
from client import Client
from client.comparison_lines import comparison_lines
from client.connection import ClientError
from e3rg.memory.v1 import turns_pb2
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import variants_pb2 as variants
from local.deployment import Deployment, free_ports

SEED = 17
STARS = {"default": 3.4, "kokoro": 3.9}
"""What users think of a voice on average; users differ by 0.6 and turns by 0.5."""
CALLERS = 4
BY = "the benchmark"


@dataclass
class Counts:
    """Turns by voice, and the voices of each conversation."""

    turns: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    voices: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def second_voice(deployment: Deployment, run_dir: Path) -> Iterator[str]:
    """Serve Kokoro beside the deployment's own voice; yields its address."""
    (port,) = free_ports(1)
    own = dict(deployment.components["tts"].environment)
    own |= {"E3RG_TTS_BACKEND": "kokoro", "E3RG_TTS_VARIANT": "kokoro"}
    own |= {"E3RG_TTS_PORT": str(port), "E3RG_TTS_METRICS_PORT": "0"}
    with (run_dir / "logs/tts-kokoro.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.tts"], env={**os.environ, **own}, stdout=log, stderr=log
        )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def say(client: Client, counts: Counts, user: str, number: int) -> tuple[str, str]:
    """Answer one message in words and sound; return the turn's id and its voice."""
    conversation = f"{user}-{number // 3}"
    header = pb.RespondHeader(
        text=MESSAGES[number % len(MESSAGES)],
        identity="anna",
        person=user,
        conversation=conversation,
        output=pb.OUTPUT_AUDIO,
    )
    turn = voice = ""
    outcome = "ok"
    try:
        for timed in client.respond(header):
            match timed.event.WhichOneof("event"):
                case "served" if timed.event.served.stage == "tts":
                    voice = timed.event.served.variant
                case "degraded" if timed.event.degraded.stage == "speech":
                    outcome = "degraded"
                case "done":
                    turn = timed.event.done.turn
    except ClientError as error:
        outcome = "refused" if error.status is grpc.StatusCode.RESOURCE_EXHAUSTED else "failed"
    with counts.lock:
        counts.outcomes[outcome] += 1
        if voice:
            counts.turns[voice] += 1
            counts.voices[conversation].add(voice)
    return turn, voice


def experiment(address: str, client: Client, turns: int, users: int) -> Counts:
    """Run an experiment with half of the users each, and print the comparison."""
    counts, draw = Counts(), random.Random(SEED)
    tastes = {f"user-{number}": draw.gauss(0, 0.6) for number in range(users)}
    start = variants.StartExperiment(id="warmer", stage="tts", primary="rating", users_min=20)
    start.hypothesis = "users like kokoro better"
    client.variants.change(start, BY)

    def talk(user: str) -> None:
        noise = random.Random(f"{SEED} {user}")
        with Client(address) as own:
            for number in range(turns // users):
                turn, voice = say(own, counts, user, number)
                if turn and voice:
                    stars = min(5, max(1, round(STARS[voice] + tastes[user] + noise.gauss(0, 0.5))))
                    rating = turns_pb2.Rating(rater=user, expressiveness=stars, consistency=stars, naturalness=stars)
                    own.turns.rate("anna", f"{user}-{number // 3}", turn, rating, person=user)

    began_s = time.monotonic()
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(talk, tastes))
    took_s = time.monotonic() - began_s
    print(f"\n{sum(counts.turns.values())} turns of {users} users in {took_s:.0f} s, {CALLERS} at a time")
    print(f"  voices: {dict(counts.turns)}; outcomes: {dict(counts.outcomes)}")
    moved = sum(len(voices) > 1 for voices in counts.voices.values())
    print(f"  conversations: {len(counts.voices)}, {moved} of them with two voices")
    for line in comparison_lines(client.variants.compare("warmer")):
        print(f"  {line}")
    client.variants.change(variants.StopExperiment(id="warmer"), BY)
    return counts


def guard(address: str, client: Client) -> None:
    """Talk until the guardrail takes Kokoro back."""
    client.variants.change(variants.SetGuardrail(stage="tts", on=True, turns_min=20, window_s=300), BY)
    began_s, counts, done = time.monotonic(), Counts(), threading.Event()

    def talk(user: str) -> None:
        with Client(address) as own:
            for number in range(1000):
                if done.is_set():
                    return
                say(own, counts, f"{user}-{number}", 0)

    with ThreadPoolExecutor(CALLERS) as pool:
        talking = [pool.submit(talk, f"guarded-{number}") for number in range(CALLERS)]
        while time.monotonic() < began_s + 600 and not any(each.done() for each in talking):
            newest = client.variants.get().history[0]
            if newest.by == "guardrail":
                print(f"\nguardrail: took kokoro back {time.monotonic() - began_s:.0f} s after it was set")
                print(f"  {newest.summary}\n  {newest.why}")
                print(f"  turns until then: {dict(counts.turns)}; outcomes: {dict(counts.outcomes)}")
                break
            time.sleep(0.5)
        else:
            print("\nguardrail: kokoro was not taken back within 600 s")
        done.set()


def main() -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=500, help="turns of the experiment")
    parser.add_argument("--users", type=int, default=60)
    options = parser.parse_args()
    run_dir = Path(".run/variants")
    run_dir.mkdir(parents=True, exist_ok=True)
    table = run_dir / f"table-{int(time.time())}.json"
    environment = {
        "orchestrator": {"E3RG_ORCHESTRATOR_VARIANTS_FILE": str(table), "E3RG_ORCHESTRATOR_VARIANT_ADMIN": "true"},
        "understanding": {"E3RG_UNDERSTANDING_VARIANTS_FILE": str(table)},
    }
    folder = run_dir / table.stem
    with (
        Deployment(folder, Path(".models"), environment=environment) as deployment,
        second_voice(deployment, folder) as voice,
        Client(deployment.address) as client,
    ):
        client.variants.change(variants.PutVariant(stage="tts", variant="kokoro", address=voice), BY)
        began_s = time.monotonic()
        client.variants.change(variants.SetWeights(stage="tts", weights={"kokoro": 50}), BY)
        print(f"set: in effect after {time.monotonic() - began_s:.1f} s")
        experiment(deployment.address, client, options.turns, options.users)
        guard(deployment.address, client)
    return 0


if __name__ == "__main__":
    sys.exit(main())
