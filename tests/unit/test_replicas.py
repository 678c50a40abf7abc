"""Which of several replicas is chosen, by what they answer; nothing is sent."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

import pytest

from e3rg.video.v1 import video_pb2 as video
from orchestrator.replicas import ASKED_MAX, Replicas
from services.common.errors import BackendFailed, FailedPrecondition, NotReady, ServiceError

Answer = tuple[str, float] | ServiceError | None
"""A replica's name and backlog in seconds, its refusal, or silence."""

Asking = Callable[[], AsyncGenerator[video.AnimateResponse]]


def asking(answers: Iterable[Answer], asked: list[Answer]) -> Asking:
    """Makes calls that are answered so, one after the other, and notes the answers that were asked for."""
    coming = iter(answers)

    async def call() -> AsyncGenerator[video.AnimateResponse]:
        answer = next(coming)
        asked.append(answer)
        if answer is None:
            await asyncio.Event().wait()
        elif isinstance(answer, ServiceError):
            raise answer
        else:
            yield video.AnimateResponse(ready=video.FaceReady(replica=answer[0], backlog_s=answer[1]))

    return call


async def chosen(replicas: Replicas, *answers: Answer) -> tuple[str, int]:
    """Returns the name of the replica that was chosen, and how many were asked."""
    asked: list[Answer] = []
    async with replicas.place(asking(answers, asked)) as place:
        return place.ready.replica, len(asked)


async def test_one_that_does_not_answer_is_passed_over() -> None:
    assert await chosen(Replicas(silent_s=0.05), None, None, ("a", 0)) == ("a", 3)


async def test_when_none_answers_it_is_said_after_so_many_questions() -> None:
    with pytest.raises(BackendFailed, match=r"asked 8 times, no replica answered within 0\.05 s"):
        await chosen(Replicas(silent_s=0.05), *[None] * ASKED_MAX)


@pytest.mark.parametrize("refusal", [FailedPrecondition("another wheel"), NotReady("it drains")])
async def test_a_place_that_is_held_outlives_the_refusal_of_another(refusal: ServiceError) -> None:
    assert await chosen(Replicas(), ("a", 9), refusal, ("b", 4), ("a", 9), ("b", 4)) == ("b", 4)
    with pytest.raises(type(refusal)):
        await chosen(Replicas(), refusal, ("a", 0))


async def test_a_known_one_that_has_gone_is_not_looked_for_in_every_segment() -> None:
    replicas = Replicas()
    assert await chosen(replicas, ("a", 9), ("b", 4), ("a", 9), ("b", 4)) == ("b", 3)
    assert await chosen(replicas, ("a", 9), ("a", 9), ("a", 9)) == ("a", 3)
    assert await chosen(replicas, ("a", 9)) == ("a", 1)
