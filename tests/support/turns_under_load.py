"""Turns of several callers while something else happens, and their outcomes."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from client import Client, ClientError
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb

TEXT = "I passed my driving test today!"
CALLERS = 4
PAUSE_S = 0.2


@dataclass
class Outcome:
    """Outcome of one turn: when it was, bytes, what it did without, or why it failed."""

    began_s: float = field(default_factory=time.monotonic)
    ended_s: float = 0.0

    sentences: list[str] = field(default_factory=list)
    audio_bytes: int = 0
    video_bytes: int = 0
    degraded: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def is_whole(self) -> bool:
        """Tell whether there were words, voice and face."""
        return bool(self.sentences and self.audio_bytes and self.video_bytes and not self.error)


@dataclass
class Load:
    """The turns so far."""

    outcomes: list[Outcome] = field(default_factory=list)
    turned: threading.Condition = field(default_factory=threading.Condition)

    @property
    def lost(self) -> list[str]:
        """Errors of turns that failed, and what the others lacked."""
        return [each.error or str(each.degraded) for each in self.outcomes if not each.is_whole]

    def wait_for(self, more: int) -> None:
        """Wait until so many more turns have ended."""
        wanted = len(self.outcomes) + more
        self._wait(lambda: len(self.outcomes) >= wanted)

    def wait_for_one_after(self, time_s: float) -> None:
        """Wait until a turn has ended that began after this time (`time.monotonic`)."""
        self._wait(lambda: any(outcome.began_s > time_s for outcome in self.outcomes))

    def _wait(self, is_so: Callable[[], bool]) -> None:
        with self.turned:
            assert self.turned.wait_for(is_so, timeout=300)


def turn(client: Client, on_event: "threading.Event | None" = None, text: str = TEXT) -> Outcome:
    """Make one turn; `on_event` is set with the first event that comes."""
    outcome = Outcome()
    try:
        for timed in client.respond(pb.RespondHeader(text=text, identity="anna"), timeout_s=90):
            if on_event:
                on_event.set()
            event = timed.event
            match event.WhichOneof("event"):
                case "text":
                    outcome.sentences.append(event.text.sentence)
                case "audio":
                    outcome.audio_bytes += len(event.audio.samples)
                case "video":
                    outcome.video_bytes += len(event.video.content)
                case "degraded":
                    degraded = event.degraded
                    outcome.degraded.append(f"{degraded.stage}: {degraded.dropped}: {degraded.reason}")
    except ClientError as error:
        outcome.error = str(error)
    outcome.ended_s = time.monotonic()
    if on_event:
        on_event.set()
    return outcome


def paced(items: Iterable[bytes], pause_s: float) -> Iterator[bytes]:
    """Yield each item after a pause."""
    for item in items:
        time.sleep(pause_s)
        yield item


@contextmanager
def under_load(address: str, callers: int = CALLERS, ca_file: str | Path = "") -> Iterator[Load]:
    """Make turns until the block ends, one after the other for each caller; the last ones are waited for."""
    load, stopped = Load(), threading.Event()

    def work() -> None:
        with Client(address, ca_file=ca_file) as client:
            while not stopped.wait(PAUSE_S):
                outcome = turn(client)
                with load.turned:
                    load.outcomes.append(outcome)
                    load.turned.notify_all()

    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
