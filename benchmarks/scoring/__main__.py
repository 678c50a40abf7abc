"""Scores kept turns: known labels that were hit, and whether words, voice and face show the emotion that was asked for.

    make models WITH=judges
    python -m benchmarks.scoring [--memory HOST:PORT] [--tenant NAME]… [--experiment ID] [--labels FILE] [--dry-run]

It runs beside a deployment and calls its memory, for a gateway takes no scores. With the variables of a service's TLS
(E3RG_SCORING_TLS_CA_FILE, …_TLS_CERTIFICATE_FILE, …_TLS_KEY_FILE) it shows a certificate of the deployment.
Turns that have a score keep it: run it again, and it goes on. `docs/expressiveness.md` explains the scores.
"""

import argparse
import asyncio
import contextlib
import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

import emotions
from benchmarks.scoring.job import Job
from benchmarks.scoring.readers import Readers, load
from benchmarks.scoring.report import lines
from benchmarks.scoring.store import Store
from e3rg.memory.v1 import turns_pb2
from services.common import clients
from services.common.addresses import Address
from services.common.errors import ServiceError
from services.common.settings import ServiceSettings

DAY_S = 86_400.0
READY_S = 10.0
"""Time to reach the memory."""
FAILED, UNUSABLE = 1, 2


class Settings(ServiceSettings):
    """Where the memory is, and the files of TLS."""

    model_config = SettingsConfigDict(env_prefix="E3RG_SCORING_", frozen=True)

    memory_address: Address = "127.0.0.1:50053"
    """Address of the memory."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = _parser().parse_args(words)
    try:
        settings = Settings(**({"memory_address": options.memory} if options.memory else {}))
        labels = read_labels(options.labels) if options.labels else {}
        readers = load(settings.models_dir)
    except ValidationError as error:
        return _fail("; ".join(each["msg"] for each in error.errors()), UNUSABLE)
    except (OSError, ValueError) as error:
        return _fail(f"{error}; `make models WITH=judges` fetches missing models", UNUSABLE)
    try:
        asyncio.run(_run(settings, options, labels, readers))
    except ServiceError as error:
        return _fail(f"{error}; what was scored is kept, so run it again", FAILED)
    return 0


def read_labels(path: Path) -> dict[str, str]:
    """Read known labels: a CSV file with the columns `turn` and `label`.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file, or names a label that the wheel does not have.
    """
    known = emotions.load().labels
    labels: dict[str, str] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            turn, label = row.get("turn"), row.get("label")
            if not (turn and label and label in known):
                raise ValueError(f"{path}: {row}: give the columns turn and label, with labels of the wheel")
            labels[turn] = label
    return labels


async def _run(settings: Settings, options: argparse.Namespace, labels: dict[str, str], readers: Readers) -> None:
    from_s = time.time() - options.days * DAY_S if options.days else 0.0
    wanted = turns_pb2.TurnFilter(identity=options.identity, from_s=from_s)
    async with clients.open_channel(settings.memory_address, "memory", settings.channel_tls) as channel:
        with contextlib.suppress(TimeoutError):  # Its own error says more.
            await asyncio.wait_for(channel.replicas.wait_ready(), READY_S)
        for tenant in options.tenant or ["default"]:
            job = Job(Store(channel, tenant), readers, labels, options.dry_run, _tell if options.verbose else _silent)
            outcome = await job.run(wanted, options.experiment)
            print(f"tenant {tenant}{', nothing is kept (--dry-run)' if options.dry_run else ''}")
            for line in lines(outcome, options.stage):
                print(f"  {line}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--memory", metavar="HOST:PORT", help="or E3RG_SCORING_MEMORY_ADDRESS (default: 127.0.0.1:50053)"
    )
    parser.add_argument("--tenant", action="append", help="may be given several times (default: default)")
    parser.add_argument("--identity", default="", help="only turns with this one")
    parser.add_argument("--experiment", default="", help="only turns of this one")
    parser.add_argument("--days", type=float, help="only turns not older")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="CSV file: turn,label")
    parser.add_argument("--stage", default="tts", help="whose variants the table compares (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="score and keep nothing")
    parser.add_argument("--verbose", action="store_true", help="print each turn")
    return parser


def _tell(line: str) -> None:
    print(line, flush=True)


def _silent(line: str) -> None:
    """Say nothing."""


def _fail(problem: str, status: int) -> int:
    print(problem, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
