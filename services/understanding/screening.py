"""Screening of messages and replies, in threads of its own, so that it waits for no model."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from services.understanding import metrics
from services.understanding.domain import Decision
from services.understanding.risk.domain import Kind, Risk, Severity, Source
from services.understanding.risk.screen import RiskScreen
from services.understanding.risk.spoken import unspeakable
from services.understanding.voters import Answer

WORKERS = 2

Result = TypeVar("Result")


class Screening:
    """Runs the risk screen. No bound refuses a message: it takes some 10 ms, and a cry for help must not be lost."""

    def __init__(self, screen: RiskScreen) -> None:
        self._screen = screen
        self._threads = ThreadPoolExecutor(WORKERS, "screen")

    async def find(self, text: str, is_watched: bool = False, before: str = "") -> Risk | None:
        """Return the risk that a text speaks of, None for none; see `RiskScreen.find`."""
        with metrics.SCREEN_SECONDS.time():
            return await self._run(lambda: self._screen.find(text, is_watched, before))

    async def unspeakable(self, sentence: str) -> str:
        """Return why a sentence of a writer may not be said; empty when it may."""
        return await self._run(lambda: unspeakable(sentence, self._screen))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def of_voters(decision: Decision[Answer]) -> Risk | None:
    """Return the risk that voters tell of: one alone raises a low one, two that agree a medium one."""
    asked = [vote.source.prediction for vote in decision.votes if vote.source and vote.source.prediction]
    alarmed = sum(prediction.crisis for prediction in asked)
    if not alarmed:
        return None
    severity = Severity.LOW if alarmed == 1 else Severity.MEDIUM
    return Risk(Kind.SUICIDE, severity, alarmed / len(asked), Source.VOTER)
