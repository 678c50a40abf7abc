"""A write that is retried with the same idempotency key does nothing more, and returns what it returned first."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from services.common import clients
from tests.serving import refused
from tests.support.identities import change_of, exported, get, imported, kept, named, put_emotion
from tests.support.memory import PORTRAIT, TENANT, VOICE, Clock, Stubs, each, header, parts, serving
from tests.support.stacks import Stack

INVALID = grpc.StatusCode.INVALID_ARGUMENT
Write = Callable[[Stubs, str], Awaitable[Any]]


def keyed(key: str) -> dict[str, Any]:
    return {"metadata": (("idempotency-key", key),)}


async def add(stubs: Stubs, key: str) -> pb.Identity:
    return (await clients.ask(stubs.identities.AddIdentity(**keyed(key)), each(parts(header())))).identity


async def change(stubs: Stubs, key: str) -> pb.Identity:
    request = pb.ChangeIdentityRequest(header=change_of(1, []))
    return (await clients.ask(stubs.identities.ChangeIdentity(**keyed(key)), each([request]))).identity


async def remove_emotion(stubs: Stubs, key: str) -> Any:
    request = pb.RemoveEmotionReferenceRequest(**named({"identity": "ada"}))
    return await stubs.identities.RemoveEmotionReference(request, **keyed(key))


async def erase(stubs: Stubs, key: str) -> Any:
    request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="me")
    return await stubs.erasure.EraseIdentity(request, **keyed(key))


WRITES: dict[str, tuple[Write, grpc.StatusCode]] = {
    "change": (change, grpc.StatusCode.ABORTED),
    "remove_emotion": (remove_emotion, grpc.StatusCode.NOT_FOUND),
    "erase": (erase, grpc.StatusCode.NOT_FOUND),
    "add": (add, grpc.StatusCode.ALREADY_EXISTS),
}


@pytest.mark.parametrize("name", list(WRITES))
async def test_a_write_with_the_same_key_returns_the_first_result_and_with_another_key_it_is_another(
    stack: Stack, name: str
) -> None:
    write, otherwise = WRITES[name]
    async with serving(stack.settings(), orphan_s=-60) as stubs, serving(stack.settings()) as other:
        if name != "add":
            await add(stubs, "0")
            await put_emotion(stubs, b"x", identity="ada")
        first = await write(stubs, "key-1")
        before = await kept(stubs, stack)
        for again in (stubs, other):  # A retry may come to another replica.
            assert await write(again, "key-1") == first
        assert stubs.upkeep
        await stubs.upkeep.delete_orphans()
        assert await kept(stubs, stack) == before
        with refused(otherwise):
            await write(other, "key-2")


async def test_examples_are_removed_once_and_the_count_is_the_first(stack: Stack) -> None:
    example = exemplars_pb2.Exemplar(user_text="a dog", user_emotion="sad", reply_text="oh")
    request = exemplars_pb2.PutExemplarsRequest(tenant=TENANT, exemplars=[example])
    async with serving(stack.settings()) as stubs:
        ids = (await stubs.exemplars.PutExemplars(request)).ids
        removal = exemplars_pb2.RemoveExemplarsRequest(tenant=TENANT, ids=ids)
        removed = [await stubs.exemplars.RemoveExemplars(removal, **keyed(key)) for key in ("1", "1", "2")]
        assert [each.exemplars for each in removed] == [1, 1, 0]


async def test_a_key_that_another_request_had_is_refused_and_the_same_one_may_come_in_other_pieces(
    stack: Stack,
) -> None:
    async def erase_user(person: str) -> erasure_pb2.Audit:
        request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person=person, asked_by="me")
        return (await stubs.erasure.ErasePerson(request, **keyed("key-2"))).audit

    async def add_from(requests: Sequence[pb.AddIdentityRequest]) -> pb.Identity:
        return (await clients.ask(stubs.identities.AddIdentity(**keyed("key-1")), each(requests))).identity

    reused = "idempotency-key: another request was sent with this key before"
    async with serving(stack.settings()) as stubs:
        first = await add(stubs, "key-1")
        files = PORTRAIT + VOICE
        pieced = [files[at : at + 1_000_000] for at in range(0, len(files), 1_000_000)]
        assert await add_from(parts(header(), pieced=pieced)) == first
        for other in (parts(header("eve")), parts(header(), PORTRAIT, VOICE[:-1] + b"!")):
            with refused(INVALID, reused):
                await add_from(other)
        for person in ("ann", "bob"):
            await stubs.say(1, person=person)
        assert await erase_user("ann") == await erase_user("ann")
        with refused(INVALID, reused):
            await erase_user("bob")
        assert [turn.id for turn in (await stubs.recall(person="bob")).turns] == ["turn-1"]
        archive = await exported(stubs)
        await imported(stubs, archive, **keyed("key"))
        with refused(INVALID, reused):
            await imported(stubs, archive, name="eve", **keyed("key"))


async def test_a_key_counts_within_its_method_and_tenant_and_what_is_none_is_refused(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        first = await add(stubs, "key")
        assert (await change(stubs, "key")).version == 2
        requests = parts(header(tenant="other"))
        call = stubs.identities.AddIdentity(**keyed("key"))
        assert (await clients.ask(call, each(requests))).identity.generation != first.generation
        with refused(grpc.StatusCode.ALREADY_EXISTS):
            await add(stubs, "")
        for wrong in ("x" * 65, "a/b", "k 1"):
            for write in (add, erase):
                with refused(INVALID, f"idempotency-key: {wrong!a} is no key; send 1 to 64 letters A-Z a-z, digits"):
                    await write(stubs, wrong)


async def test_a_retry_after_the_identity_was_changed_returns_it_as_it_was_then(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        first = await add(stubs, "key-1")
        second = await change(stubs, "key-2")
        await stubs.change(change_of(2, [], removed=[]))
        assert (await add(stubs, "key-1"), await change(stubs, "key-2")) == (first, second)


async def test_a_retry_after_the_identity_was_erased_finds_nothing_and_keeps_nothing(stack: Stack) -> None:
    async with serving(stack.settings(), orphan_s=-60) as stubs, serving(stack.settings()) as other:
        await add(stubs, "key-1")
        await change(stubs, "key-2")
        await erase(stubs, "key-3")
        before = await kept(stubs, stack)
        for again in (stubs, other):
            for write, key in ((add, "key-1"), (change, "key-2")):
                with refused(grpc.StatusCode.NOT_FOUND, "identity 'ada' is unknown"):
                    await write(again, key)
        assert stubs.upkeep
        await stubs.upkeep.delete_orphans()
        assert await kept(stubs, stack) == before


async def test_a_retried_import_returns_the_first_identity_and_leaves_no_second_one(stack: Stack) -> None:
    async with serving(stack.settings(), orphan_s=-60) as stubs:
        await add(stubs, "0")
        await stubs.say(1, person="bob")
        archive = await exported(stubs)
        first = await imported(stubs, archive, **keyed("key"))
        before = await kept(stubs, stack)
        assert await imported(stubs, archive, **keyed("key")) == first == await get(stubs, tenant="other")
        assert stubs.upkeep
        await stubs.upkeep.delete_orphans()
        assert await kept(stubs, stack) == before


async def test_the_outcome_of_a_write_is_kept_for_a_day(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        assert stubs.upkeep
        first = await add(stubs, "key")
        clock.now_s += 0.9 * 86_400
        await stubs.upkeep.sweep()
        assert await add(stubs, "key") == first
        clock.now_s += 0.2 * 86_400
        await stubs.upkeep.sweep()
        assert "requests" not in await kept(stubs, stack)
