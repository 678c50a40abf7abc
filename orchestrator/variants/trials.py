"""Comparison of variants by what the memory has of their users."""

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import grpc

from e3rg.memory.v1 import turns_pb2 as memory
from e3rg.memory.v1 import turns_pb2_grpc
from e3rg.orchestrator.v1 import variants_pb2 as pb
from orchestrator.comparison.compare import compare
from orchestrator.comparison.drawing import draw
from orchestrator.comparison.results import Comparison
from orchestrator.comparison.scores import SCORES
from orchestrator.comparison.summaries import TURN_METRICS, Experiment
from orchestrator.memory import calling
from orchestrator.variants import comparing, experiments
from orchestrator.variants.counts import Asked, Counts, Span
from services.common import clients
from services.common.errors import InvalidRequest, ServiceError
from services.common.variants import table

if TYPE_CHECKING:  # it exists in the stubs only
    from e3rg.memory.v1.turns_pb2_grpc import TurnServiceAsyncStub

SUMMARY_TIMEOUT_S = 120.0
"""Time limit for the summaries of all users."""
LOOKS = 8
"""Moments of an experiment that its picture shows."""


class Trials:
    """Compares variants.

    Args:
        channel: To the memory.
        counts: Returns the counts of all gateways.
    """

    def __init__(self, channel: grpc.aio.Channel, counts: Asked) -> None:
        self._counts = counts
        self._stub = cast("TurnServiceAsyncStub", turns_pb2_grpc.TurnServiceStub(channel))

    async def check_metric(self, stage: str, metric: str) -> None:
        """Check the name of a metric; only the memory knows the names of other jobs' scores.

        Raises:
            InvalidRequest: There is no such metric.
            ServiceError: The memory does not answer.
        """
        known = {*TURN_METRICS, *SCORES}
        if metric not in known:
            known.update(name for user in await self._users(stage) for name in user.scores)
        if metric not in known:
            raise InvalidRequest("start.primary", f"{metric!r} is no metric; use one of: {', '.join(sorted(known))}")

    async def outcome(self, current: table.Table, id: str) -> str:
        """Return the outcome of an experiment in words.

        Raises:
            NotFound: There is none.
        """
        trial = experiments.found(current, id)
        try:
            compared, _ = await self._compared(trial, comparing.question(trial, current.stage(trial.stage)))
        except ServiceError as error:
            return f"not compared: {error}"
        return comparing.outcome(compared)

    async def compare(self, current: table.Table, request: pb.CompareVariantsRequest) -> pb.CompareVariantsResponse:
        """Compare the variants of an experiment or of a stage.

        Raises:
            NotFound: There is no such experiment.
            ServiceError: The memory does not answer.
        """
        if request.stage:
            return await self._of_stage(current, request)
        if request.from_s or request.until_s:
            raise InvalidRequest("stage", "missing; a time range is for a stage, and an experiment has its own")
        trial = experiments.found(current, request.experiment)
        question = comparing.question(trial, current.stage(trial.stage))
        compared, left_out = await self._compared(trial, question)
        told = comparing.response(compared, is_decided=True)
        told.experiment.CopyFrom(comparing.experiment(trial))
        told.stage, told.users_left_out = trial.stage, left_out
        await self._count(told, trial.started_at_s, trial.ended_at_s)
        if request.svg:
            end_s = trial.ended_at_s or time.time()
            step_s = (end_s - trial.started_at_s) / LOOKS
            times = [trial.started_at_s + number * step_s for number in range(1, LOOKS)]
            looks = [(await self._compared(trial, question, until_s))[0] for until_s in times]
            told.svg = await asyncio.to_thread(draw, [*looks, compared])
        return told

    async def _of_stage(self, current: table.Table, request: pb.CompareVariantsRequest) -> pb.CompareVariantsResponse:
        if request.experiment:
            raise InvalidRequest("stage", "an experiment is named too; name one of the two")
        found = await self._users(request.stage, from_s=request.from_s, until_s=request.until_s)
        question = comparing.observed(found, current.stage(request.stage).control)
        users = comparing.users_of(found, question)
        compared = await asyncio.to_thread(compare, users.summaries, question)
        told = comparing.response(compared, is_decided=False)
        told.stage = request.stage
        await self._count(told, request.from_s, request.until_s)
        if request.svg:
            told.svg = await asyncio.to_thread(draw, [compared])
        return told

    async def _count(self, told: pb.CompareVariantsResponse, from_s: float, until_s: float) -> None:
        """Fill in the failed turns, as far as gateways still know them."""
        span = Span(told.stage, from_s, until_s or time.time())
        found = (await self._counts([span]))[span]
        for each in told.variants:
            counts = found.get(each.name, Counts())
            each.counted_turns, each.failed_turns = counts.turns, counts.failed

    async def _compared(
        self, trial: table.Experiment, question: Experiment, until_s: float = 0.0
    ) -> tuple[Comparison, int]:
        """Return the comparison of an experiment at a time, 0 for now, and the users that are left out."""
        found = await self._users(trial.stage, experiment=trial.id, until_s=until_s)
        users = comparing.users_of(found, question)
        return await asyncio.to_thread(compare, users.summaries, question), users.left_out

    async def _users(
        self, stage: str, experiment: str = "", from_s: float = 0.0, until_s: float = 0.0
    ) -> list[memory.UserSummary]:
        request = memory.SummarizeUsersRequest(stage=stage, experiment=experiment, from_s=from_s, until_s=until_s)
        async with calling():
            call = self._stub.SummarizeUsers(request, **clients.options(SUMMARY_TIMEOUT_S))
            async with aclosing(clients.responses(call)) as parts:
                return [user async for part in parts for user in part.users]
