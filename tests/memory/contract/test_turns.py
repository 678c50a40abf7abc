"""Turns are kept once, in order, and recalled and listed as they were kept."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

import emotions
from e3rg.memory.v1 import memory_pb2
from tests.fakes import Gate
from tests.serving import refused
from tests.support.conversations import allow, listed, place, remember, rows
from tests.support.memory import Clock, Stubs, WordEmbedder, header, parts, serving, turn
from tests.support.stacks import Stack

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stubs(stack: Stack, clock: Clock) -> AsyncIterator[Stubs]:
    """A memory that knows `ada`."""
    async with serving(stack.settings(), clock=clock) as stubs:
        await stubs.add(parts(header()))
        yield stubs


@pytest.fixture
async def alone(embedded: Stack) -> AsyncIterator[Stubs]:
    """The same on one stack, for what does not depend on it."""
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header()))
        yield stubs


async def recalled(stubs: Stubs, **where: Any) -> list[str]:
    response = await stubs.memory.Recall(memory_pb2.RecallRequest(**place(**where)))
    return [each.id for each in response.turns]


async def test_the_store_says_which_it_is_how_it_finds_and_which_wheel_it_uses(stubs: Stubs, stack: Stack) -> None:
    told = await stubs.memory.GetStore(memory_pb2.GetStoreRequest())
    backend = "postgresql, s3" if stack.urls else "sqlite, folder"
    assert (told.card.backend, told.problem) == (backend, "")
    assert (told.card.model, told.card.digest) == (WordEmbedder.model, WordEmbedder.digest)
    assert told.card.ontology_hash == (await stubs.recall()).ontology_hash == emotions.load().digest


async def test_a_turn_is_listed_as_it_was_kept_and_recalled_without_record_and_timings(
    stubs: Stubs, clock: Clock
) -> None:
    await remember(stubs, 1, said_at_s=7, conversation="another", clips=[memory_pb2.Clip(size_bytes=1)])
    expected = turn(1)
    expected.conversation, expected.said_at_s = "talk", clock.now_s
    assert await listed(stubs) == [expected]
    (told,) = (await stubs.recall()).turns
    for said in (told, expected):
        for name in ("votes", "delivery", "models", "variants"):  # Callers of Recall do without.
            said.ClearField(name)
    expected.ClearField("vote_record")
    expected.ClearField("timings_s")
    assert told == expected


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, ["turn-3", "turn-4", "turn-5", "turn-6"]),
        ({"turns_max": 0}, []),
        ({"turns_max": 2}, ["turn-5", "turn-6"]),
        ({"turns_max": 2**32 - 1}, [f"turn-{number}" for number in range(1, 7)]),
        ({"conversation": ""}, []),
        ({"conversation": "Talk"}, []),
        ({"person": "bob"}, []),
    ],
)
async def test_the_last_turns_of_a_conversation_are_recalled_oldest_first(
    alone: Stubs, wanted: dict[str, Any], ids: list[str]
) -> None:
    for number in range(1, 7):
        await remember(alone, number)
    assert await recalled(alone, **wanted) == ids


async def test_the_order_is_that_in_which_turns_were_kept_whatever_the_clock_says(stubs: Stubs, clock: Clock) -> None:
    for number in range(4):
        await remember(stubs, number)
        clock.now_s -= 100
    assert await recalled(stubs) == ["turn-0", "turn-1", "turn-2", "turn-3"]
    assert [each.said_at_s - clock.now_s for each in await listed(stubs)] == [100, 200, 300, 400]


async def test_a_turn_that_is_kept_twice_is_there_once_and_as_it_was_first(stubs: Stubs) -> None:
    await remember(stubs, 1, "first words")
    await remember(stubs, 2)
    await remember(stubs, 1, "other words")
    assert [each.id for each in await listed(stubs)] == ["turn-2", "turn-1"]
    assert (await listed(stubs))[1].user_text == "first words"
    await remember(stubs, 1, "elsewhere", {"conversation": "other"})
    assert [each.user_text for each in await listed(stubs, conversation="other")] == ["elsewhere"]


async def test_long_turns_are_told_only_as_far_as_a_message_holds_them(stubs: Stubs) -> None:
    long = "\N{GRINNING FACE}" * 31_990 + " hello"
    for number in range(1, 21):  # 6.4 MiB
        await remember(stubs, number, long, reply_text=long, vote_record=b"x" * 2**16)
    told = await recalled(stubs, turns_max=20)
    assert told[-1] == "turn-20"
    assert 1 <= len(told) < 20
    whole = [f"turn-{number}" for number in range(20, 0, -1)]
    assert [each.id for each in await listed(stubs, page_size=20)] == whole
    request = memory_pb2.SearchRequest(hits_max=20, text="hello", **place())
    assert 1 <= len((await stubs.memory.Search(request)).hits) < 20


async def test_turns_are_listed_in_pages_the_newest_first(stubs: Stubs) -> None:
    for number in range(1, 6):
        await remember(stubs, number)
    request = memory_pb2.ListTurnsRequest(page_size=2, **place())
    pages = []
    while True:
        page = await stubs.memory.ListTurns(request)
        pages.append([each.id for each in page.turns])
        await remember(stubs, 10 + len(pages))  # What comes meanwhile moves nothing.
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert pages == [["turn-5", "turn-4"], ["turn-3", "turn-2"], ["turn-1"]]


@pytest.mark.parametrize(
    ("wrong", "code", "text"),
    [
        ({"page_token": "turn-1"}, INVALID, "page_token: "),
        ({"page_token": "-1"}, INVALID, "page_token: "),
        ({"page_size": 201}, INVALID, "page_size: 201"),
        ({"conversation": ""}, INVALID, "conversation: "),
        ({"identity": "eve"}, grpc.StatusCode.NOT_FOUND, "'eve'"),
    ],
)
async def test_a_page_that_there_cannot_be_is_refused(
    alone: Stubs, wrong: dict[str, Any], code: grpc.StatusCode, text: str
) -> None:
    with refused(code, text):
        await alone.memory.ListTurns(memory_pb2.ListTurnsRequest(**(place() | wrong)))


async def test_timings_take_the_place_of_those_of_the_turn_and_the_first_stay(stubs: Stubs) -> None:
    await remember(stubs, 1)
    for seconds in (2.0, 3.0):
        timings = {"vote": 0.5, "video": seconds}
        await stubs.memory.PutTimings(memory_pb2.PutTimingsRequest(turn="turn-1", timings_s=timings, **place()))
    await remember(stubs, 1)
    assert dict((await listed(stubs))[0].timings_s) == {"vote": 0.5, "video": 2.0}
    assert not (await stubs.recall()).turns[0].timings_s


@pytest.mark.parametrize(
    ("wrong", "code", "text"),
    [
        ({"turn": "turn-2"}, grpc.StatusCode.NOT_FOUND, "turn 'turn-2' is unknown"),
        ({"person": "eve"}, grpc.StatusCode.NOT_FOUND, "turn 'turn-1' is unknown"),
        ({"identity": "eve"}, grpc.StatusCode.NOT_FOUND, "'eve'"),
        ({"timings_s": {}}, INVALID, "timings_s: it is empty"),
        ({"timings_s": {"vote": -1.0}}, INVALID, "timings_s['vote']: -1.0"),
        ({"timings_s": {"vote": float("nan")}}, INVALID, "timings_s['vote']: nan"),
        ({"timings_s": {str(number): 1.0 for number in range(33)}}, INVALID, "timings_s: it has 33 entries"),
        ({"timings_s": {"x" * 101: 1.0}}, INVALID, "timings_s: name"),
    ],
)
async def test_wrong_timings_are_refused(alone: Stubs, wrong: dict[str, Any], code: grpc.StatusCode, text: str) -> None:
    await remember(alone, 1)
    request = {**place(), "turn": "turn-1", "timings_s": {"vote": 1.0}} | wrong
    with refused(code, text):
        await alone.memory.PutTimings(memory_pb2.PutTimingsRequest(**request))
    assert dict((await listed(alone))[0].timings_s) == {"vote": 0.25}


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("turn.id", {"id": ""}),
        ("turn.id", {"id": "a/b"}),
        ("turn.user_text", {"user_text": ""}),
        ("turn.user_text", {"user_text": "x" * 32_001}),
        ("turn.user_emotion", {"user_emotion": "meh"}),
        ("turn.reply_text", {"reply_text": " "}),
        ("turn.reply_emotion", {"reply_emotion": ""}),
        ("turn.user_intensity", {"user_intensity": 1.5}),
        ("turn.user_intensity", {"user_intensity": float("nan")}),
        ("turn.vote_record", {"vote_record": b"x" * 65_537}),
        ("turn.models", {"models": {str(number): "x" for number in range(33)}}),
        ("turn.variants['tts']", {"variants": {"tts": ""}}),
        ("turn.votes[0].voter", {"votes": [memory_pb2.TurnVote(label="sad")]}),
        ("turn.votes[0].label", {"votes": [memory_pb2.TurnVote(voter="text", label="meh")]}),
        ("turn.delivery.intensity", {"delivery": memory_pb2.TurnDelivery(intensity=-1)}),
        ("turn.timings_s['vote']", {"timings_s": {"vote": float("inf")}}),
    ],
)
async def test_a_wrong_turn_is_refused_with_the_field(
    alone: Stubs, embedded: Stack, field: str, changes: dict[str, Any]
) -> None:
    before = await rows(embedded)
    whole = turn(1)
    values = {each.name: getattr(whole, each.name) for each in whole.DESCRIPTOR.fields} | changes
    with refused(INVALID, f"{field}: "):
        await alone.memory.Remember(memory_pb2.RememberRequest(turn=memory_pb2.Turn(**values), **place()))
    assert await rows(embedded) == before


@pytest.mark.parametrize("name", ["", "../talk", "a b", "x" * 64, "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "talk\n"])
async def test_a_conversation_or_person_with_a_wrong_name_is_refused(alone: Stubs, name: str) -> None:
    with refused(INVALID, "conversation: "):
        await remember(alone, 1, where={"conversation": name})
    if name:
        with refused(INVALID, "person: "):
            await remember(alone, 1, where={"person": name})


@pytest.mark.parametrize("name", ["-", "0", "Z" * 63, "A-b-9"])
async def test_every_allowed_name_works(stubs: Stubs, name: str) -> None:
    await remember(stubs, 1, where={"conversation": name, "person": name}, id=name)
    assert await recalled(stubs, conversation=name, person=name) == [name]


async def test_without_the_permission_nothing_said_is_kept_recalled_or_searched(stubs: Stubs, stack: Stack) -> None:
    await remember(stubs, 1)
    await allow(stubs, ("animate_face",))
    before = await rows(stack)
    for call in (
        stubs.say(2),
        stubs.memory.Search(memory_pb2.SearchRequest(text="question", **place())),
        stubs.recall(uses=["keep_turns"]),
        stubs.memory.PutTimings(memory_pb2.PutTimingsRequest(turn="turn-1", timings_s={"vote": 1}, **place())),
    ):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
            await call
    silent = await stubs.recall(uses=["animate_face"])
    assert (silent.identity.id, len(silent.turns), silent.trajectory.label) == ("ada", 0, "")
    assert await rows(stack) == before
    await allow(stubs, ("keep_turns",), version=2)
    assert await recalled(stubs) == ["turn-1"]


async def test_the_mood_of_a_conversation_counts_older_turns_less(stubs: Stubs, clock: Clock) -> None:
    assert (await stubs.recall()).trajectory.label == ""
    for number, (label, intensity) in enumerate([("angry", 1.0), ("sad", 0.5), ("happy", 1.0)]):
        await remember(stubs, number, user_emotion=label, user_intensity=intensity)
        clock.now_s += 600
    felt = (await stubs.memory.Recall(memory_pb2.RecallRequest(turns_max=1, **place()))).trajectory
    assert felt.half_life_s == 600
    assert dict(felt.weights) == pytest.approx({"angry": 1 / 7, "sad": 2 / 7, "happy": 4 / 7})
    assert felt.label == "happy"
    labels = emotions.load().labels
    expected = (labels["angry"].valence + 2 * 0.5 * labels["sad"].valence + 4 * labels["happy"].valence) / 7
    assert felt.valence == pytest.approx(expected)
    assert felt.valence_change > 0


class Held(WordEmbedder):
    """Waits before it reads a text until the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.gate("embed")
        return super().embed(texts)


async def test_calls_that_wait_for_the_embedding_hold_up_no_other(stack: Stack) -> None:
    embedder = Held()
    async with serving(stack.settings(), embedder) as stubs:
        await stubs.add(parts(header()))
        waiting = [asyncio.create_task(remember(stubs, number)) for number in range(20)]  # More than connections.
        await embedder.gate.reached()
        assert not (await stubs.recall()).turns
        embedder.gate.open()
        await asyncio.gather(*waiting)
        assert len(await listed(stubs)) == 20


async def test_turns_of_one_tenant_are_no_other_tenants(stubs: Stubs) -> None:
    await stubs.add(parts(header(tenant="other")))
    await remember(stubs, 1, where={"person": "bob"})
    assert not await listed(stubs, tenant="other", person="bob")
    assert not (await stubs.recall(tenant="other", person="bob")).turns
    request = memory_pb2.SearchRequest(tenant="other", identity="ada", person="bob", text="question 1")
    assert not (await stubs.memory.Search(request)).hits
    await remember(stubs, 1, "their words", {"person": "bob", "tenant": "other"})
    assert [each.user_text for each in await listed(stubs, person="bob")] == ["question 1"]
