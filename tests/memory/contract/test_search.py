"""Past turns are found by what they are like: the same by both stacks, exactly or by the approximate index."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from e3rg.memory.v1 import exemplars_pb2, memory_pb2
from services.memory.embedding import SentenceEmbedder
from tests.fakes import PATIENCE_S
from tests.serving import refused
from tests.support.conversations import (
    allow,
    connection,
    erase_identity,
    erase_user,
    found,
    listed,
    place,
    remember,
    search,
)
from tests.support.memory import (
    TENANT,
    Clock,
    OtherEmbedder,
    Stubs,
    WordEmbedder,
    green,
    header,
    parts,
    process_of,
    serving,
)
from tests.support.stacks import Stack

WORDS = ("dog", "cat", "walk", "rain", "sun", "train", "work", "sleep", "mother", "song", "bread", "river", "letter")
EMOTIONS = ("sad", "happy", "angry")
ROUNDING = 2e-3
"""Of vectors that are kept as float16."""

NEAR: dict[str, Any] = {"similarity_min": 0.2}
"""Some word is the same."""


@dataclass(frozen=True)
class Said:
    """A turn that brute force searches."""

    number: int
    text: str
    emotion: str
    person: str
    conversation: str
    identity: str
    at_s: float

    @property
    def id(self) -> str:
        return f"turn-{self.number}"


@pytest.fixture
async def stubs(stack: Stack) -> AsyncIterator[Stubs]:
    """A memory that knows `ada`, and three turns with bob."""
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        for number, text in enumerate(["my dog is ill", "the dog died", "it rains in Paris"], 1):
            await remember(stubs, number, text, {"person": "bob"})
        yield stubs


async def test_the_turns_most_like_the_text_are_found_the_nearest_first(stubs: Stubs) -> None:
    await remember(stubs, 4, "my dog", {"person": "bob", "conversation": "other"})
    request = memory_pb2.SearchRequest(text="my dog", **place(person="bob", conversation=""))
    response = await stubs.memory.Search(request)
    hits = response.hits
    assert response.model_digest == WordEmbedder.digest
    assert [hit.turn.id for hit in hits][:2] == ["turn-4", "turn-1"]
    assert hits[0].similarity == pytest.approx(1, abs=ROUNDING)
    first = hits[0].turn
    assert (first.user_text, first.reply_text, first.conversation) == ("my dog", "answer 4", "other")
    assert (first.user_emotion, first.vote_record, len(first.timings_s)) == ("sad", b"", 0)


async def sought(stubs: Stubs, **wanted: Any) -> memory_pb2.SearchResponse:
    """What a search like "my dog" finds; of bob unless told otherwise."""
    values = place(person="bob", conversation="") | {"text": "my dog", "examples_max": 4} | wanted
    return await stubs.memory.Search(memory_pb2.SearchRequest(**values))


async def learn(stubs: Stubs, *texts: str, identity: str = "") -> None:
    """Keep examples of answers, of the tenant unless told otherwise."""
    examples = [
        exemplars_pb2.Exemplar(user_text=text, user_emotion=emotion, reply_text=f"re {text}")
        for text, emotion in zip(texts, EMOTIONS, strict=False)
    ]
    await stubs.exemplars.PutExemplars(
        exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity=identity, exemplars=examples)
    )


async def test_examples_come_with_the_turns_by_one_embedding_as_they_do_alone(stack: Stack) -> None:
    embedder = WordEmbedder()
    async with serving(stack.settings(), embedder) as stubs:
        await stubs.add(parts(header()))
        await remember(stubs, 1, "my dog is ill", {"person": "bob"})
        await learn(stubs, "my dog", "it rains")
        await learn(stubs, "a dog", "my dog", identity="ada")
        embedder.read.clear()
        found_ = await sought(stubs, text="my old dog", similarity_min=0.2)
        assert embedder.read == ["my old dog"]
        assert [hit.turn.id for hit in found_.hits] == ["turn-1"]
        alone = await stubs.exemplars.SearchExemplars(
            exemplars_pb2.SearchExemplarsRequest(tenant=TENANT, identity="ada", text="my old dog", similarity_min=0.2)
        )
        assert list(found_.examples) == list(alone.hits)
        assert len(alone.hits) == 3
        (first,) = (await sought(stubs, text="my old dog", examples_max=1)).examples
        assert first == alone.hits[0]
        assert [hit.exemplar.user_text for hit in (await sought(stubs, user_emotions=["happy"])).examples] == [
            "my dog",
            "it rains",
        ]
        assert (await sought(stubs, examples_max=0)).examples == []
        assert found_.model_digest == embedder.digest


async def test_examples_are_found_though_the_turn_stands_alone(stubs: Stubs) -> None:
    await learn(stubs, "my dog")
    alone = await sought(stubs, person="", hits_max=0)
    assert (len(alone.hits), [hit.exemplar.user_text for hit in alone.examples]) == (0, ["my dog"])
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "conversation: it is empty"):
        await sought(stubs, person="")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "hits_max: 0 hits; ask for 1 to 32"):
        await sought(stubs, hits_max=0, examples_max=0)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "examples_max: 33 examples"):
        await sought(stubs, examples_max=33)


async def test_without_the_permission_to_keep_turns_examples_come_without_turns(stubs: Stubs) -> None:
    await learn(stubs, "my dog")
    await allow(stubs, ("infer_emotion",))
    left = await sought(stubs)
    assert (len(left.hits), [hit.exemplar.user_text for hit in left.examples]) == (0, ["my dog"])
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
        await sought(stubs, examples_max=0)


@pytest.mark.parametrize(
    ("index_from", "stack"), [(0, "embedded"), (0, "clustered"), (40, "clustered")], indirect=["stack"]
)
async def test_searches_find_what_brute_force_finds(stack: Stack, index_from: int) -> None:
    clock, chance = Clock(), random.Random(7)
    if index_from and stack.urls:
        async with connection(stack.urls.admin) as admin:  # Few rows would be sorted instead.
            await admin.execute(f"ALTER ROLE {stack.urls.service.split('/')[2].split(':')[0]} SET enable_sort = off")
    async with serving(stack.settings(), clock=clock, index_from=index_from or 5000) as stubs:
        assert stubs.upkeep
        for name in ("ada", "eve"):
            await stubs.add(parts(header(name)))
        said: list[Said] = []
        for number in range(100):
            said.append(
                Said(
                    number,
                    " ".join(chance.choices(WORDS, k=4)),
                    chance.choice(EMOTIONS),
                    chance.choice(["bob", "bob", "bob", "ann"]),
                    chance.choice(["one", "two"]),
                    chance.choice(["ada", "ada", "ada", "eve"]),
                    clock.now_s,
                )
            )
            await _keep(stubs, said[-1])
            clock.now_s += 10
            if index_from and number in (60, 80):
                await stubs.upkeep.index()  # The last turns are not in the index.
        for _ in range(60):
            wanted: dict[str, Any] = {
                "hits_max": chance.choice([1, 3, 32]),
                "text": " ".join(chance.choices(WORDS, k=2)),
            }
            person = chance.choice(["bob", "bob", "ann"])
            conversation = chance.choice(["", "", "one"])
            if chance.random() < 0.3:
                wanted["user_emotions"] = chance.sample(EMOTIONS, 2)
            if chance.random() < 0.3:
                wanted["age_max_s"] = chance.choice([95.0, 405.0, 5000.0])
            if chance.random() < 0.3:
                wanted["similarity_min"] = chance.choice([-1.0, 0.3])
            if chance.random() < 0.3:
                wanted |= {"here": "one", "without": [each.id for each in said if chance.random() < 0.5]}
            hits = await search(stubs, person=person, conversation=conversation, **wanted)
            expected = _nearest(said, person, conversation, clock.now_s, wanted)
            assert [hit.similarity for hit in hits] == pytest.approx([each[0] for each in expected], abs=ROUNDING)
            exact = {
                each.id: value
                for value, each in _nearest(said, person, conversation, clock.now_s, {**wanted, "hits_max": 99})
            }
            assert {hit.turn.id: hit.similarity for hit in hits} == pytest.approx(
                {hit.turn.id: exact[hit.turn.id] for hit in hits}, abs=ROUNDING
            )
    if index_from and stack.urls:
        async with connection(stack.urls.admin) as admin, asyncio.timeout(PATIENCE_S):
            assert await admin.fetchval("SELECT count(*) FROM turn_embeddings WHERE is_indexed") > 40
            scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'ix_turn_embeddings_hnsw'"
            while not await admin.fetchval(scans):  # The connections that searched were closed just now.
                await asyncio.sleep(0.05)


async def test_hits_say_how_many_turns_ago_they_were_in_the_conversation_that_goes_on(stubs: Stubs) -> None:
    await remember(stubs, 4, "a dog", {"person": "bob", "conversation": "other"})
    hits = await search(stubs, "dog", "bob", here="talk", **NEAR)
    assert {hit.turn.id: hit.turns_ago for hit in hits} == {"turn-1": 3, "turn-2": 2, "turn-4": 0}
    hits = await search(stubs, "dog", "bob", conversation="talk", **NEAR)
    assert {hit.turn.id: hit.turns_ago for hit in hits} == {"turn-1": 3, "turn-2": 2}
    await remember(stubs, 1, "a dog", {"person": "bob", "conversation": "other"})
    left = await search(stubs, "dog", "bob", here="talk", without=["turn-1", "turn-4"], **NEAR)
    assert {(hit.turn.id, hit.turn.conversation) for hit in left} == {
        ("turn-2", "talk"),
        ("turn-4", "other"),
        ("turn-1", "other"),
    }


async def test_who_has_no_name_is_known_in_one_conversation_only(stubs: Stubs) -> None:
    for talk in ("talk", "walk"):
        await remember(stubs, 5, f"dog {talk}", {"conversation": talk})
    for hits in (await search(stubs, "dog", conversation="talk"), await search(stubs, "dog", here="talk")):
        assert [hit.turn.user_text for hit in hits] == ["dog talk"]
    assert "turn-5" not in await found(stubs, "dog", "bob")
    assert not await found(stubs, "dog", "talk")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "conversation: it is empty, and no person is named"):
        await search(stubs, "dog")


@pytest.mark.parametrize("text", ["?!", "nowhere"])
async def test_a_text_without_words_is_kept_and_listed_but_neither_found_nor_finds(stubs: Stubs, text: str) -> None:
    await remember(stubs, 4, text, {"person": "bob"})
    assert (await listed(stubs, person="bob"))[0].user_text == text
    assert not await found(stubs, text, "bob", similarity_min=-1)
    assert "turn-4" not in await found(stubs, "dog", "bob", similarity_min=-1, hits_max=32)


async def test_who_has_said_nothing_is_told_nothing(stubs: Stubs) -> None:
    assert not await found(stubs, "dog", "eve")
    assert not await found(stubs, "dog", "bob", conversation="other")
    assert not await found(stubs, "dog", conversation="talk")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("text", {"text": " "}),
        ("text", {"text": "x" * 4001}),
        ("hits_max", {"hits_max": 0}),
        ("hits_max", {"hits_max": 33}),
        ("similarity_min", {"similarity_min": 1.1}),
        ("similarity_min", {"similarity_min": float("nan")}),
        ("age_max_s", {"age_max_s": -1}),
        ("age_max_s", {"age_max_s": float("inf")}),
        ("user_emotions", {"user_emotions": ["meh"]}),
        ("without", {"without": [str(number) for number in range(1001)]}),
        ("here", {"here": "a/b"}),
        ("person", {"person": "a/b"}),
    ],
)
async def test_a_wrong_search_is_refused_with_the_field(embedded: Stack, field: str, wrong: dict[str, Any]) -> None:
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header()))
        with refused(grpc.StatusCode.INVALID_ARGUMENT, f"{field}: "):
            await stubs.memory.Search(memory_pb2.SearchRequest(**({**place(person="bob"), "text": "dog"} | wrong)))


async def test_without_the_identity_or_its_permission_nothing_is_searched(stubs: Stubs) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "'nobody'"):
        await search(stubs, "dog", "bob", identity="nobody")
    await allow(stubs, ("animate_face",))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
        await search(stubs, "dog", "bob")


async def test_what_was_searched_by_is_not_embedded_again_to_be_kept(stack: Stack) -> None:
    embedder = WordEmbedder()
    async with serving(stack.settings(), embedder) as stubs:
        await stubs.add(parts(header()))
        await search(stubs, "hello again", "bob")
        await remember(stubs, 1, "hello again", {"person": "bob"})
    assert embedder.read == ["hello again"]


async def test_turns_that_another_model_embedded_are_found_once_they_are_embedded_anew(
    stubs: Stubs, stack: Stack
) -> None:
    await remember(stubs, 4, "?!", {"person": "bob"})
    async with serving(stack.settings(), OtherEmbedder(), index_from=2) as other:
        assert other.upkeep
        await other.upkeep.index()
        assert not await found(other, "dog", "bob", **NEAR)
        assert await found(stubs, "dog", "bob", **NEAR) == ["turn-2", "turn-1"]
        await remember(other, 5, "a dog barks", {"person": "bob"})
        assert await other.upkeep.embed_anew() == 4
        await other.upkeep.index()
        assert sorted(await found(other, "dog", "bob", **NEAR)) == ["turn-1", "turn-2", "turn-5"]
        assert await other.upkeep.embed_anew() == 0
        assert not await found(stubs, "dog", "bob", **NEAR)  # Its model is the earlier one now.


async def test_a_server_finds_what_another_process_keeps_and_not_what_it_erases(stack: Stack) -> None:
    # The process has the real embedding, which finds by meaning.
    async with process_of(stack.variables) as (far, _), serving(stack.settings(), _real()) as near:
        await green(far)
        await near.add(parts(header()))
        for number in range(1, 4):
            await remember(far, number, f"my dog has {number} puppies", {"person": "bob"})
            assert len(await found(near, "the dog and its puppies", "bob")) == number
        await remember(near, 4, "my puppy barks", {"person": "bob", "conversation": "other"})
        assert len(await found(far, "the dog and its puppies", "bob")) == 4
        await erase_user(far, "bob")
        assert not await found(near, "the dog and its puppies", "bob")
        await remember(far, 5, "puppies again", {"person": "bob"})
        assert await found(near, "the dog and its puppies", "bob") == ["turn-5"]


@pytest.mark.parametrize("what", ["user", "identity"])
async def test_nothing_of_the_erased_is_found_and_everything_else_is(stubs: Stubs, stack: Stack, what: str) -> None:
    async with serving(stack.settings()) as other:
        await other.add(parts(header("eve")))
        await remember(other, 1, "my dog", {"person": "ann"})
        await remember(other, 1, "my dog", {"person": "bob", "identity": "eve"})
        everyone = [("ada", "bob"), ("ada", "ann"), ("eve", "bob")]
        for server in (stubs, other):
            for identity, person in everyone:
                assert "turn-1" in await found(server, "dog", person, identity=identity)
        await (erase_user(other, "bob") if what == "user" else erase_identity(other))
        if what == "identity":
            await other.add(parts(header()))
        left = {("ada", "ann")} if what == "user" else {("eve", "bob")}
        for server in (stubs, other):
            hits = {who for who in everyone if await found(server, "dog", who[1], identity=who[0], similarity_min=-1)}
            assert hits == left


def _real() -> SentenceEmbedder:
    return SentenceEmbedder(Path(".models"))


async def _keep(stubs: Stubs, said: Said) -> None:
    where = {"person": said.person, "conversation": said.conversation, "identity": said.identity}
    await remember(stubs, said.number, said.text, where, user_emotion=said.emotion)


def _nearest(
    said: list[Said], person: str, conversation: str, now_s: float, wanted: dict[str, Any]
) -> list[tuple[float, Said]]:
    def unit(text: str) -> Any:
        (vector,) = WordEmbedder().embed([text])
        return vector / np.linalg.norm(vector)

    matching = [
        each
        for each in said
        if (each.identity, each.person) == ("ada", person)
        and conversation in ("", each.conversation)
        and each.emotion in wanted.get("user_emotions", EMOTIONS)
        and now_s - each.at_s <= wanted.get("age_max_s", 1e9)
        and not (each.conversation == wanted.get("here") and each.id in wanted["without"])
    ]
    scored = [(float(unit(each.text) @ unit(wanted["text"])), each) for each in matching]
    near = [pair for pair in scored if pair[0] >= wanted.get("similarity_min", 0.0)]
    return sorted(near, key=lambda pair: -pair[0])[: wanted["hits_max"]]
