"""What `memory.proto` promises of damaged turns, over a real channel and both kinds of stores."""

from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2
from services.memory.store import Store, content_of
from tests.memory_service import TENANT, Stubs, header, joined, memory_over, parts, serving, turn
from tests.serving import refused

BOB: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "person": "bob"}
LISTING = memory_pb2.ListTurnsRequest(**BOB, conversation="talk")
EXPORT = identities_pb2.ExportIdentityRequest(tenant=TENANT, identity="ada")


@pytest.fixture
async def whole(store: Store) -> dict[str, bytes]:
    """What the store has of turns 1 to 3, and of the last timings of the first."""
    async with serving(memory_over(store)) as stubs:
        await stubs.add(parts(header()))
        for number in (1, 2, 3):
            await stubs.say(number, person="bob")
        request = memory_pb2.PutTimingsRequest(**BOB, conversation="talk", turn="turn-1", timings_s={"turn": 2.5})
        await stubs.memory.PutTimings(request)
    entries = [entry for entry in store.list("") if "/turns/" in entry.key or "/timings/" in entry.key]
    return {entry.key: content_of(store.get(entry.key)) or b"" for entry in entries}


def damage(store: Store, whole: dict[str, bytes], kind: str, number: int) -> str:
    """Flips a bit of an object; returns its key."""
    (key,) = (key for key in whole if f"/{kind}/" in key and key.endswith(f"-turn-{number}"))
    store.put(key, whole[key][:-9] + bytes([whole[key][-9] ^ 1]) + whole[key][-8:])
    return key


def names(problems: list[str], key: str) -> bool:
    """Whether that object is told of, and no other."""
    (problem,) = problems
    return problem.startswith(f"stored object {key!r} is damaged: its SHA-256 does not match")


async def search(stubs: Stubs) -> list[str]:
    request = memory_pb2.SearchRequest(**BOB, text="question 2", similarity_min=-1)
    return [hit.turn.id for hit in (await stubs.memory.Search(request)).hits]


async def test_reading_goes_past_a_damaged_turn_and_names_it_until_it_is_repaired(
    store: Store, whole: dict[str, bytes]
) -> None:
    key = damage(store, whole, "turns", 2)
    async with serving(memory_over(store)) as stubs:  # one that holds no copy
        for _ in range(2):
            recalled = await stubs.recall(person="bob")
            assert [each.id for each in recalled.turns] == ["turn-1", "turn-3"]
            assert names(list(recalled.damaged), key)
            assert recalled.trajectory.label == "sad"
            listed = await stubs.memory.ListTurns(LISTING)
            assert [each.id for each in listed.turns] == ["turn-3", "turn-1"]
            assert names(list(listed.damaged), key)
            assert sorted(await search(stubs)) == ["turn-1", "turn-3"]
            with refused(grpc.StatusCode.INTERNAL, f"stored object {key!r} is damaged"):
                await joined(stubs.identities.ExportIdentity(EXPORT))
        store.put(key, whole[key])
        recalled = await stubs.recall(person="bob")
        assert ([each.id for each in recalled.turns], list(recalled.damaged)) == (["turn-1", "turn-2", "turn-3"], [])
        assert [each.id for each in (await stubs.memory.ListTurns(LISTING)).turns] == ["turn-3", "turn-2", "turn-1"]
        assert (await search(stubs))[0] == "turn-2"
        assert await joined(stubs.identities.ExportIdentity(EXPORT))


async def test_a_conversation_goes_on_after_a_damaged_turn(store: Store, whole: dict[str, bytes]) -> None:
    damage(store, whole, "turns", 3)
    async with serving(memory_over(store)) as stubs:
        await stubs.say(4, person="bob")
        assert [each.id for each in (await stubs.recall(person="bob")).turns] == ["turn-1", "turn-2", "turn-4"]


async def test_a_turn_whose_last_timings_are_damaged_is_listed_with_its_first_ones(
    store: Store, whole: dict[str, bytes]
) -> None:
    key = damage(store, whole, "timings", 1)
    async with serving(memory_over(store)) as stubs:
        listed = await stubs.memory.ListTurns(LISTING)
        assert [each.id for each in listed.turns] == ["turn-3", "turn-2", "turn-1"]
        assert dict(listed.turns[-1].timings_s) == dict(turn(1).timings_s)
        assert names(list(listed.damaged), key)
        recalled = await stubs.recall(person="bob")
        assert (len(recalled.turns), list(recalled.damaged)) == (3, [])
        with refused(grpc.StatusCode.INTERNAL, f"stored object {key!r} is damaged"):
            await joined(stubs.identities.ExportIdentity(EXPORT))


async def test_a_damaged_turn_goes_with_its_person(store: Store, whole: dict[str, bytes]) -> None:
    damage(store, whole, "turns", 2)
    async with serving(memory_over(store)) as stubs:
        request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="the test")
        await stubs.erasure.ErasePerson(request)
        assert not [entry.key for entry in store.list("") if entry.key in whole]
        listed = await stubs.memory.ListTurns(LISTING)
        assert (len(listed.turns), len(listed.damaged)) == (0, 0)
        assert await joined(stubs.identities.ExportIdentity(EXPORT))
