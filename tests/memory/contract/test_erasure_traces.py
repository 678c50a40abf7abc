"""No word and no byte of what was erased is in any file of the databases and the object storage."""

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing

import numpy as np
import pytest

from e3rg.memory.v1 import exemplars_pb2, memory_pb2, turns_pb2
from tests.support.conversations import (
    connection,
    erase_identity,
    erase_tenant,
    erase_user,
    put_derived,
    remember,
    traces,
    traces_in,
)
from tests.support.memory import FILM, MP4, PORTRAIT, TENANT, VOICE, Stubs, WordEmbedder, header, parts, serving
from tests.support.object_store import ObjectStore
from tests.support.stacks import Stack

MARKER = "qzmarkerqz"
FILE = FILM + MARKER.encode() * 1000


@pytest.fixture
async def stubs(stack: Stack) -> AsyncIterator[Stubs]:
    async with serving(stack.settings()) as stubs:
        yield stubs


async def _talk(stubs: Stubs, stack: Stack) -> None:
    """Keep the marker in everything that a conversation leaves, among turns without it."""
    await stubs.add(parts(header("eve")))
    for number in range(60):
        for person, text in (("bob", f"{MARKER} {number} " * (1 + number % 7 * 40)), ("ann", f"hello {number} " * 30)):
            await remember(
                stubs,
                number,
                text,
                {"person": person, "identity": "eve"},
                reply_text=text,
                vote_record=text.encode()[:60_000],
                models={"tts": text[:100]},
                variants={"tts": text[:100]},
                experiment="marked",
                degraded=[text[:100].strip()],
            )
        if not number % 20:
            await stubs.put_clip(
                memory_pb2.CLIP_KIND_VIDEO, MP4 + MARKER.encode() * 50, f"turn-{number}", identity="eve", person="bob"
            )
    rating = turns_pb2.Rating(rater=MARKER, expressiveness=1, consistency=1, naturalness=1)
    await stubs.turns.RateTurn(
        turns_pb2.RateTurnRequest(
            tenant=TENANT, identity="eve", user="bob", conversation="talk", turn="turn-1", rating=rating
        )
    )
    scores = {MARKER: 1.0}
    await stubs.turns.PutScores(
        turns_pb2.PutScoresRequest(
            tenant=TENANT, identity="eve", user="bob", conversation="talk", turn="turn-1", scores=scores
        )
    )
    await _analyze(stack)


async def _add(stubs: Stubs, stack: Stack) -> None:
    """Keep the marker in everything that makes an identity, among others without it."""
    await stubs.add(parts(header("eve")))
    head = header()
    head.profile.name = head.profile.speaking_style = MARKER
    head.profile.about = f"{MARKER} likes engines."
    for grant in head.grants:
        grant.granted_by = grant.purpose = MARKER
    identity = await stubs.add(parts(head, PORTRAIT, VOICE, FILE))
    await put_derived(stubs, identity, MARKER.encode() * 100)
    for name in ("ada", "eve"):
        texts = [f"{MARKER if name == 'ada' else 'hello'} {number}" for number in range(30)]
        examples = [exemplars_pb2.Exemplar(user_text=text, user_emotion="sad", reply_text=text) for text in texts]
        await stubs.exemplars.PutExemplars(
            exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity=name, exemplars=examples)
        )
    await _analyze(stack)


async def _analyze(stack: Stack) -> None:
    """Let the database gather samples of its columns, as it does by itself now and then."""
    if stack.urls:
        async with connection(stack.urls.admin) as admin:
            await admin.execute("ANALYZE")
    else:
        with closing(sqlite3.connect(stack.folder / "memory.db")) as database:
            database.execute("ANALYZE")


@pytest.mark.parametrize(
    ("keeps", "erases"),
    [
        (_talk, lambda stubs: erase_user(stubs, "bob")),
        (_talk, lambda stubs: erase_identity(stubs, "eve")),
        (_add, erase_identity),
        (_add, erase_tenant),
        (_talk, erase_tenant),
    ],
    ids=["user", "talked-identity", "identity", "tenant", "talked-tenant"],
)
async def test_nothing_of_what_was_erased_is_left_in_any_file(
    stubs: Stubs,
    stack: Stack,
    s3: ObjectStore,
    keeps: Callable[[Stubs, Stack], Awaitable[None]],
    erases: Callable[[Stubs], Awaitable[object]],
) -> None:
    await stubs.add(parts(header("max")))  # The tenant of the turns that stay.
    await keeps(stubs, stack)
    marker = MARKER.encode()
    assert await traces(stack, marker)
    await erases(stubs)
    assert await traces(stack, marker) == []
    if stack.bucket:
        assert await traces_in(s3, marker) == []


async def test_no_vector_of_what_was_erased_is_left_in_any_file(stubs: Stubs, stack: Stack) -> None:
    await stubs.add(parts(header()))
    for number in range(40):
        for person in ("bob", "ann"):
            await remember(stubs, number, f"words of {person} {number}", {"person": person})
    await _analyze(stack)
    (vector,) = WordEmbedder().embed(["words of bob 7"])
    marker = (vector / np.linalg.norm(vector)).astype("<f2").tobytes()[100:140]
    (other,) = WordEmbedder().embed(["words of ann 7"])
    theirs = (other / np.linalg.norm(other)).astype("<f2").tobytes()[100:140]
    assert await traces(stack, theirs)
    await erase_user(stubs, "bob")
    assert await traces(stack, marker) == []
    assert await traces(stack, theirs)


@pytest.mark.parametrize("seed", [0, 3])
async def test_no_page_of_an_embedded_database_keeps_a_copy_of_a_row_that_moved(embedded: Stack, seed: int) -> None:
    chance = random.Random(seed)
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header()))
        for person in ("bob", "ann"):
            await remember(stubs, 0, where={"person": person})
        with closing(sqlite3.connect(embedded.folder / "memory.db")) as database:  # Thousands of calls take a minute.
            database.row_factory = sqlite3.Row
            known = [dict(row) for row in database.execute("SELECT * FROM turns ORDER BY pk")]
            for number in range(1, 3000):
                row = chance.choice(known)
                text = f"{'hello' if row is known[1] else MARKER} {number} " * chance.choice([1, 3, 20, 60, 100])
                values = row | {"pk": number + 2, "place": number + 1, "id": f"turn-{number}", "user_text": text}
                places = ",".join("?" * len(values))
                database.execute(f"INSERT INTO turns ({','.join(values)}) VALUES ({places})", [*values.values()])
            database.commit()
        await erase_user(stubs, "bob")
        assert await traces(embedded, MARKER.encode()) == []
