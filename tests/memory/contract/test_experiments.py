"""Turns keep the experiment that they belong to; recall tells the variants of the last turn, and those assigned."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import memory_pb2
from tests.serving import refused
from tests.support.conversations import allow, erase_identity, erase_user, listed, place, remember, rows
from tests.support.memory import Stubs, header, parts, serving
from tests.support.postgres import Postgres
from tests.support.stacks import Stack
from tests.support.tcp_proxy import TcpProxy

INVALID = grpc.StatusCode.INVALID_ARGUMENT
TRIED = "voice-2"


@pytest.fixture
async def stubs(stack: Stack) -> AsyncIterator[Stubs]:
    """A memory that knows `ada` and `eve`."""
    async with serving(stack.settings()) as stubs:
        for name in ("ada", "eve"):
            await stubs.add(parts(header(name)))
        yield stubs


async def say(stubs: Stubs, number: int, tts: str, experiment: str = TRIED, phase: int = 1, **where: str) -> None:
    """Keep a turn that this variant spoke."""
    await remember(stubs, number, "", where, variants={"tts": tts}, experiment=experiment, phase=phase)


async def recalled(stubs: Stubs, experiment: str = TRIED, **where: str) -> tuple[dict[str, str], dict[str, str]]:
    """The variants of the conversation's last turn, and those assigned to the user."""
    response = await stubs.memory.Recall(memory_pb2.RecallRequest(experiment=experiment, **place(**where)))
    return dict(response.variants), dict(response.assigned)


async def test_a_turn_tells_its_experiment_its_phase_and_what_it_went_on_without(stubs: Stubs) -> None:
    degraded = ["video: the video", "search: examples of answers"]
    await remember(stubs, 1, where={"person": "bob"}, experiment=TRIED, phase=3, degraded=degraded)
    await remember(stubs, 2, where={"person": "bob"})
    plain, tried = await listed(stubs, person="bob")
    assert (tried.experiment, tried.phase, list(tried.degraded)) == (TRIED, 3, degraded)
    assert (plain.experiment, plain.phase, list(plain.degraded)) == ("", 0, [])


async def test_recall_tells_the_variants_of_the_conversations_last_turn(stubs: Stubs) -> None:
    assert await recalled(stubs) == ({}, {})
    await say(stubs, 1, "a", "")
    await say(stubs, 2, "b", "")
    await say(stubs, 3, "c", "", conversation="other")
    assert await recalled(stubs) == ({"tts": "b"}, {})
    request = memory_pb2.RecallRequest(turns_max=0, **place())
    assert dict((await stubs.memory.Recall(request)).variants) == {"tts": "b"}
    (told,) = (await stubs.memory.Recall(memory_pb2.RecallRequest(turns_max=1, **place()))).turns
    assert dict(told.variants) == {}


async def test_a_user_is_assigned_by_the_first_turn_of_an_experiment_whatever_they_do_next(stubs: Stubs) -> None:
    await say(stubs, 1, "old", "", person="bob")
    await say(stubs, 2, "a", person="bob")
    await say(stubs, 3, "b", person="bob")
    await say(stubs, 4, "b", "voice-3", person="bob")
    await say(stubs, 5, "c", person="ann")
    assert await recalled(stubs, person="bob", conversation="new", identity="eve") == ({}, {"tts": "a"})
    assert await recalled(stubs, person="bob") == ({"tts": "b"}, {"tts": "a"})
    assert await recalled(stubs, person="bob", conversation="") == ({}, {"tts": "a"})
    assert await recalled(stubs, "voice-3", person="bob") == ({"tts": "b"}, {"tts": "b"})
    assert await recalled(stubs, "", person="bob") == ({"tts": "b"}, {})
    assert await recalled(stubs, person="ann") == ({"tts": "c"}, {"tts": "c"})


async def test_a_turn_that_is_there_already_assigns_nobody(stubs: Stubs) -> None:
    await say(stubs, 1, "a", "", person="bob")
    await say(stubs, 1, "b", person="bob")
    assert await recalled(stubs, person="bob") == ({"tts": "a"}, {})


async def test_somebody_without_a_name_is_assigned_by_the_conversation(stubs: Stubs) -> None:
    await say(stubs, 1, "a")
    assert await recalled(stubs) == ({"tts": "a"}, {"tts": "a"})
    assert await recalled(stubs, identity="eve") == ({}, {"tts": "a"})
    assert await recalled(stubs, conversation="other") == ({}, {})


async def test_a_user_of_another_tenant_is_another(stubs: Stubs) -> None:
    await stubs.add(parts(header(tenant="other")))
    await say(stubs, 1, "a", person="bob")
    assert await recalled(stubs, tenant="other", person="bob") == ({}, {})


async def test_without_the_permission_to_keep_turns_no_variants_are_recalled(stubs: Stubs) -> None:
    await say(stubs, 1, "a", person="bob")
    await allow(stubs, ("infer_emotion",))
    assert await recalled(stubs, person="bob") == ({}, {})


async def test_while_the_database_is_away_the_variants_are_those_known_last(
    clustered: Stack, postgres: Postgres
) -> None:
    assert clustered.urls
    async with (
        TcpProxy(postgres.host, postgres.port) as proxy,
        serving(clustered.settings(database_url=proxy.url(clustered.urls.service))) as stubs,
    ):
        await stubs.add(parts(header()))
        await say(stubs, 1, "a", person="bob")
        await say(stubs, 2, "b", person="bob")
        await recalled(stubs, person="bob")
        await proxy.refuse()
        stale = await stubs.memory.Recall(memory_pb2.RecallRequest(experiment=TRIED, **place(person="bob")))
    assert stale.stale_s > 0
    assert (dict(stale.variants), dict(stale.assigned)) == ({"tts": "b"}, {"tts": "a"})


async def test_an_erased_user_is_assigned_anew_and_one_whose_identity_was_erased_is_not(
    stubs: Stubs, stack: Stack
) -> None:
    before = await rows(stack)
    await say(stubs, 1, "a", person="bob")
    audit = await erase_user(stubs, "bob")
    assert ("assignments", 1) in {(each.kind, each.objects) for each in audit.counts}
    assert await rows(stack) == before
    assert await recalled(stubs, person="bob") == ({}, {})
    await say(stubs, 2, "b", person="bob")
    await say(stubs, 3, "c", person="bob", identity="eve")
    await erase_identity(stubs)
    assert await recalled(stubs, person="bob", identity="eve") == ({"tts": "c"}, {"tts": "b"})


@pytest.mark.parametrize("name", ["Voice", "a b", "a_b", "a" * 41])
async def test_a_name_that_no_experiment_can_have_is_refused(embedded: Stack, name: str) -> None:
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header()))
        with refused(INVALID, "turn.experiment: "):
            await say(stubs, 1, "a", name)
        with refused(INVALID, "experiment: "):
            await recalled(stubs, name)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [({"degraded": ["x"] * 33}, "turn.degraded: it has 33"), ({"degraded": [""]}, "turn.degraded[0]: it is empty")],
)
async def test_what_no_turn_went_on_without_is_refused(embedded: Stack, wrong: dict[str, Any], text: str) -> None:
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header()))
        with refused(INVALID, text):
            await remember(stubs, 1, **wrong)
