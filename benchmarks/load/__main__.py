"""Makes turns on a gateway, and measures them.

    python -m benchmarks.load ADDRESS --users 4 --think-s 10 --duration-s 300
    python -m benchmarks.load ADDRESS --rate 0 --stage 60s:0.5,5m:2,60s:0 --fail-if 'lost>0' --json load.json

A closed loop (--users) is so many callers, who make turns one after the other. In an open loop (--rate) turns arrive
at random, whatever became of earlier ones, and each is measured from when it was due: a slow gateway hides nothing.
A lost turn ended without a whole reply: it was refused, failed, late, or lacks wanted sound or video.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.load import report
from benchmarks.load.arguments import Options, parse
from benchmarks.load.generator import Load
from benchmarks.load.result import Result
from client import Client, ClientError
from client.terminal import printable

PROGRESS_S = 10.0
FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130


def main(words: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(__doc__ or "", words)
    profile = options.profile
    try:
        with Client(
            profile.address, profile.tenant, profile.ca_file, profile.certificate_file, profile.key_file
        ) as client:
            for service in client.status():
                if not service.ready:
                    _tell(f"{service.name} is not ready: {service.problem}")
        load = Load(profile)
        if options.json not in ("", "-"):
            Path(options.json).open("a").close()  # whether it can be written, before it is too late
    except (ClientError, OSError, ValueError) as error:
        _tell(str(error))
        return UNUSABLE
    was_cancelled = asyncio.run(_run(load))
    return _finish(load.result(), options, was_cancelled)


async def _run(load: Load) -> bool:
    """Run a load until its end or a signal; returns whether it was a signal."""
    running = asyncio.create_task(load.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    progress = asyncio.create_task(_progress(load))
    try:
        await running
        return False
    except asyncio.CancelledError:
        return True
    finally:
        progress.cancel()


async def _progress(load: Load) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        result = load.result()
        now_s = load.now_s()
        _tell(
            f"{now_s:6.0f} s  level {load.profile.ramp.level(now_s):.3g}, {load.running} turns open,"
            f" {result.answered} answered, {len(result.lost)} lost"
        )


def _finish(result: Result, options: Options, was_cancelled: bool) -> int:
    """Print and write the results; returns the exit status."""
    table = sys.stderr if options.json == "-" else sys.stdout
    for line in report.lines(result):
        print(printable(line), file=table)
    failures = [failure for bound in options.bounds if (failure := bound.failure(result.figures))]
    for failure in failures:
        print(f"FAILED   {failure}", file=table)
    if options.json:
        text = json.dumps(result.plain() | {"was_cancelled": was_cancelled, "failures": failures}, indent=1) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            Path(options.json).write_text(text, "utf-8")
    if was_cancelled:
        return INTERRUPTED
    return FAILED if failures else 0


def _tell(text: str) -> None:
    print(f"benchmarks.load: {printable(text)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
