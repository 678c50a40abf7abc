"""Another sentence embedding: all that was kept is found again once the upkeep has embedded it anew."""

import asyncio

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, memory_pb2
from tests.support.memory import TENANT, OtherEmbedder, Stubs, header, parts, serving, turn
from tests.support.stacks import Stack

TURNS = 70
"""More than are embedded at once."""


async def say(stubs: Stubs, number: int, text: str, person: str = "bob") -> None:
    request = memory_pb2.RememberRequest(
        tenant=TENANT, identity="ada", conversation="talk", person=person, turn=turn(number, text)
    )
    await stubs.memory.Remember(request)


async def found(stubs: Stubs, text: str, person: str = "bob") -> set[str]:
    request = memory_pb2.SearchRequest(
        tenant=TENANT, identity="ada", person=person, text=text, hits_max=32, similarity_min=0.5
    )
    return {hit.turn.id for hit in (await stubs.memory.Search(request)).hits}


async def examples(stubs: Stubs, identity: str = "ada") -> set[str]:
    request = exemplars_pb2.SearchExemplarsRequest(tenant=TENANT, identity=identity, text="engine", hits_max=32)
    return {hit.exemplar.reply_text for hit in (await stubs.exemplars.SearchExemplars(request)).hits}


async def fill(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    for number in range(TURNS):
        await say(stubs, number, "engine" if number < 3 else f"weather{number}")
    await say(stubs, TURNS, "nowhere")
    for identity in ("ada", ""):
        new = exemplars_pb2.Exemplar(user_text="engine", user_emotion="sad", reply_text=f"by {identity}")
        await stubs.exemplars.PutExemplars(
            exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity=identity, exemplars=[new])
        )


async def test_turns_and_examples_are_found_with_another_model_after_the_upkeep(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await fill(stubs)
        assert await found(stubs, "engine") == {"turn-0", "turn-1", "turn-2"}
        assert await examples(stubs) == {"by ada", "by "}
    async with serving(stack.settings(), OtherEmbedder()) as stubs:
        assert stubs.upkeep
        # Vectors of two models are not compared.
        assert await found(stubs, "engine") == set()
        assert await examples(stubs) == set()
        await say(stubs, 100, "engine")
        assert await found(stubs, "engine") == {"turn-100"}
        assert await stubs.upkeep.embed_anew() == TURNS + 1 + 2
        assert await found(stubs, "engine") == {"turn-0", "turn-1", "turn-2", "turn-100"}
        assert await found(stubs, "weather50") == {"turn-50"}
        assert await examples(stubs) == {"by ada", "by "}
        assert await examples(stubs, "") == {"by "}
        # A text without words is not embedded again and again.
        assert await stubs.upkeep.embed_anew() == 0


async def test_what_two_replicas_embed_anew_at_once_is_there_once_and_what_is_erased_stays_erased(
    stack: Stack,
) -> None:
    async with serving(stack.settings()) as stubs:
        await fill(stubs)
        await say(stubs, 1, "engine", person="eve")
    async with serving(stack.settings(), OtherEmbedder()) as one, serving(stack.settings(), OtherEmbedder()) as other:
        assert one.upkeep
        assert other.upkeep
        erase = erasure_pb2.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="Bob")
        await asyncio.gather(one.upkeep.embed_anew(), other.upkeep.embed_anew(), one.erasure.ErasePerson(erase))
        for stubs in (one, other):
            assert await found(stubs, "engine") == set()
            assert await found(stubs, "engine", person="eve") == {"turn-1"}
            assert await examples(stubs) == {"by ada", "by "}
