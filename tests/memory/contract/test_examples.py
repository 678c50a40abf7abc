"""Examples of replies: kept once, found by meaning, an identity's own beside its tenant's, gone when removed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import exemplars_pb2 as pb
from services.memory.embedding import SentenceEmbedder
from tests.serving import refused
from tests.support.identities import kept, left
from tests.support.memory import PORTRAIT, TENANT, VOICE, Stubs, header, parts, serving
from tests.support.stacks import Stack

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DOG = pb.Exemplar(user_text="My dog is very ill.", user_emotion="sad", reply_text="Poor thing. I hope he gets well.")
JOB = pb.Exemplar(user_text="They let me go at work today.", user_emotion="disappointed", reply_text="A hard blow.")
WON = pb.Exemplar(user_text="I won the race!", user_emotion="joyful", reply_text="You did it!")


def with_reply(example: pb.Exemplar, reply: str) -> pb.Exemplar:
    return pb.Exemplar(user_text=example.user_text, user_emotion=example.user_emotion, reply_text=reply)


async def add(stubs: Stubs, name: str = "ada", tenant: str = TENANT) -> None:
    await stubs.add(parts(header(name, tenant=tenant), PORTRAIT[:100], VOICE))


async def put(stubs: Stubs, identity: str, *examples: pb.Exemplar, tenant: str = TENANT) -> list[str]:
    request = pb.PutExemplarsRequest(tenant=tenant, identity=identity, exemplars=examples)
    return list((await stubs.exemplars.PutExemplars(request)).ids)


async def page(
    stubs: Stubs, identity: str, page_size: int = 50, after: str = "", tenant: str = TENANT
) -> tuple[list[pb.Exemplar], str]:
    request = pb.ListExemplarsRequest(tenant=tenant, identity=identity, page_size=page_size, page_token=after)
    found = await stubs.exemplars.ListExemplars(request)
    return list(found.exemplars), found.next_page_token


async def found(stubs: Stubs, identity: str, text: str, tenant: str = TENANT, **wanted: Any) -> list[str]:
    request = pb.SearchExemplarsRequest(tenant=tenant, identity=identity, text=text, **wanted)
    hits = (await stubs.exemplars.SearchExemplars(request)).hits
    assert [hit.similarity for hit in hits] == sorted((hit.similarity for hit in hits), reverse=True)
    return [hit.exemplar.user_text for hit in hits]


async def remove(stubs: Stubs, identity: str, ids: Sequence[str], tenant: str = TENANT) -> int:
    request = pb.RemoveExemplarsRequest(tenant=tenant, identity=identity, ids=ids)
    return (await stubs.exemplars.RemoveExemplars(request)).exemplars


async def test_an_identity_finds_its_own_and_its_tenants_by_meaning_the_nearest_first(stack: Stack) -> None:
    embedder = SentenceEmbedder(Path(".models"))
    async with serving(stack.settings(), embedder) as stubs:
        await add(stubs)
        await put(stubs, "ada", DOG)
        await put(stubs, "", JOB, WON)
        assert await found(stubs, "ada", "My puppy is sick.", similarity_min=0.3) == [DOG.user_text]
        assert await found(stubs, "ada", "They fired me at work.", similarity_min=0.5) == [JOB.user_text]
        assert await found(stubs, "", "My puppy is sick.", similarity_min=0.3) == []
        texts = {each.user_text for each in (DOG, JOB, WON)}
        assert set(await found(stubs, "ada", "I lost my job.", similarity_min=-1)) == texts
        assert len(await found(stubs, "ada", "I lost my job.", similarity_min=-1, hits_max=2)) == 2
        wanted: dict[str, Any] = {"user_emotions": ["joyful", "sad"], "similarity_min": -1}
        assert set(await found(stubs, "ada", "I lost my job.", **wanted)) == {DOG.user_text, WON.user_text}
        assert await found(stubs, "ada", "...") == []
        request = pb.SearchExemplarsRequest(tenant=TENANT, text=JOB.user_text)
        answer = await stubs.exemplars.SearchExemplars(request)
        assert answer.model_digest == embedder.digest
        assert answer.hits[0].similarity == pytest.approx(1, abs=1e-2)
        assert answer.hits[0].exemplar.reply_text == JOB.reply_text


async def test_four_are_found_if_not_told_otherwise_and_one_that_the_tenant_has_too_once(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await add(stubs)
        many = [with_reply(DOG, f"Oh no, {number}.") for number in range(6)]
        await put(stubs, "ada", *many)
        assert len(await found(stubs, "ada", DOG.user_text)) == 4
        await put(stubs, "", *many)
        assert len(await found(stubs, "ada", DOG.user_text, hits_max=32)) == 6


async def test_nothing_of_one_tenant_or_identity_is_found_or_removed_by_another(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        for name, tenant in (("ada", TENANT), ("bea", TENANT), ("ada", "other")):
            await add(stubs, name, tenant)
        ids = await put(stubs, "ada", DOG)
        await put(stubs, "", JOB, tenant="other")
        others = [("bea", TENANT), ("", TENANT), ("ada", "other"), ("", "other")]
        for name, tenant in others:
            assert DOG.user_text not in await found(stubs, name, DOG.user_text, tenant, similarity_min=-1)
            assert DOG.user_text not in [each.user_text for each in (await page(stubs, name, tenant=tenant))[0]]
            assert await remove(stubs, name, ids, tenant) == 0
        assert await found(stubs, "ada", DOG.user_text) == [DOG.user_text]


async def test_the_same_example_again_keeps_its_id_and_is_there_once(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs, serving(stack.settings()) as other:
        await add(stubs)
        dog, job, again = await put(stubs, "ada", DOG, JOB, DOG)
        assert dog == again != job
        before = await kept(stubs, stack)
        assert await put(stubs, "ada", JOB, DOG) == [job, dog]
        assert await kept(stubs, stack) == before
        assert await put(stubs, "", DOG) not in ([dog], [job])
        at_once = await asyncio.gather(*(put(each, "ada", WON, DOG) for each in (stubs, other) * 3))
        assert len({tuple(ids) for ids in at_once}) == 1
        assert len((await page(stubs, "ada"))[0]) == 3


async def test_an_example_is_found_by_every_replica_at_once(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs, serving(stack.settings()) as other:
        for example in (DOG, JOB, WON):
            await put(stubs, "", example)
            for replica in (stubs, other):
                assert await found(replica, "", example.user_text, hits_max=1) == [example.user_text]


async def test_examples_are_listed_by_id_in_pages(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        many = [with_reply(DOG, f"Oh no, {number}.") for number in range(7)]
        ids = sorted(await put(stubs, "", *many))
        first, after = await page(stubs, "", 3)
        assert after.endswith(ids[2])
        await remove(stubs, "", [ids[2], ids[3]])
        then, end = await page(stubs, "", 10, after)
        assert ([each.id for each in (*first, *then)], end) == ([*ids[:3], *ids[4:]], "")
        replies = {each.reply_text for each in (*first, *then)}
        assert len(replies) == 6
        assert replies < {each.reply_text for each in many}


async def test_a_removed_example_is_gone_for_every_replica_and_can_be_kept_anew(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs, serving(stack.settings()) as other:
        await add(stubs)
        dog, job = await put(stubs, "ada", DOG, JOB)
        assert len(await found(other, "ada", DOG.user_text, similarity_min=-1)) == 2
        assert await remove(stubs, "ada", [dog, dog, "unknown"]) == 1
        assert await remove(stubs, "ada", [dog]) == 0
        assert await found(other, "ada", DOG.user_text, similarity_min=-1) == [JOB.user_text]
        assert DOG.reply_text not in str(await kept(stubs, stack))
        (again,) = await put(other, "ada", DOG)
        assert again not in (dog, job)
        assert (await found(stubs, "ada", DOG.user_text))[0] == DOG.user_text


async def test_wrong_examples_are_refused_with_the_field_and_none_of_the_call_is_kept(stack: Stack) -> None:
    wrong = [
        ({"user_text": " "}, "user_text: it is empty; give 1 to 1000 characters"),
        ({"user_text": "nowhere"}, "user_text: it has no meaning to be found by; use words"),
        ({"user_text": "x" * 1001}, "user_text: it has 1001 characters; give at most 1000"),
        ({"reply_text": ""}, "reply_text: it is empty"),
        ({"reply_text": "x" * 1001}, "reply_text: it has 1001 characters"),
        ({"user_emotion": "meh"}, "user_emotion: 'meh' is unknown; use one of: "),
    ]
    async with serving(stack.settings()) as stubs:
        for changes, problem in wrong:
            fields = {"user_text": "a dog", "user_emotion": "sad", "reply_text": "oh", **changes}
            with refused(INVALID, f"exemplars[1].{problem}"):
                await put(stubs, "", JOB, pb.Exemplar(**fields))
        calls = [
            (put(stubs, ""), "exemplars: 0 of them; send 1 to 200"),
            (put(stubs, "", *[DOG] * 201), "exemplars: 201 of them; send 1 to 200"),
            (put(stubs, "", DOG, tenant=""), "tenant: '' is not a name"),
            (remove(stubs, "", []), "ids: 0 of them; send 1 to 200"),
            (remove(stubs, "", ["a"] * 201), "ids: 201 of them; send 1 to 200"),
            (remove(stubs, "", ["../x"]), "ids[0]: '../x' is not a name"),
            (page(stubs, "", 201), "page_size: 201; send 1 to 200, or 0 for 50"),
            (page(stubs, "", after="a"), "page_token: 'a' is none"),
            (found(stubs, "", " "), "text: it is empty; give 1 to 4000 characters"),
            (found(stubs, "", "x" * 4001), "text: it has 4001 characters"),
            (found(stubs, "", "x", hits_max=0), "hits_max: 0 hits; ask for 1 to 32"),
            (found(stubs, "", "x", hits_max=33), "hits_max: 33 hits"),
            (found(stubs, "", "x", similarity_min=1.1), "similarity_min: 1.1"),
            (found(stubs, "", "x", user_emotions=["meh"]), "user_emotions: 'meh' is unknown"),
        ]
        for call, problem in calls:
            with refused(INVALID, problem):
                await call
        for unknown in (
            put(stubs, "bob", DOG),
            page(stubs, "bob"),
            found(stubs, "bob", "x"),
            remove(stubs, "bob", ["a"]),
        ):
            with refused(grpc.StatusCode.NOT_FOUND, "identity 'bob' is unknown"):
                await unknown
        assert not await left(stubs, stack)
