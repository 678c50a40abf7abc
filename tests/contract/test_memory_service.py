"""Every promise of `memory.proto`, over a real channel and both kinds of stores."""

import asyncio
import hashlib
from collections.abc import Sequence

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

import emotions
from e3rg.memory.v1 import erasure_pb2, memory_pb2
from services.common import clients
from services.memory.memory import Memory
from services.memory.store import Store
from tests.fake_store import FakeStore
from tests.fakes import Gate
from tests.memory_service import (
    MIB,
    TENANT,
    USES,
    Stubs,
    each,
    header,
    held,
    joined,
    parts,
    pieces,
    serving,
    turn,
)
from tests.serving import refused
from tests.talking import MP4, WAV, WordEmbedder


async def test_the_store_says_which_it_is_how_it_finds_and_which_wheel_it_uses(stubs: Stubs) -> None:
    card = (await stubs.memory.GetStore(memory_pb2.GetStoreRequest())).card
    found = (card.backend, card.model, card.digest, card.ontology_hash)
    assert found == ("fake", WordEmbedder.model, WordEmbedder.digest, emotions.load().digest)


async def test_turns_are_remembered_once_and_recalled_in_order(stubs: Stubs) -> None:
    added = await stubs.add(parts(header()))
    for number in (1, 2, 3, 4, 5, 6, 2):
        await stubs.say(number)
    recalled = await stubs.recall(uses=USES)
    assert recalled.identity == added
    assert [turn.id for turn in recalled.turns] == ["turn-3", "turn-4", "turn-5", "turn-6"]
    last = recalled.turns[-1]
    assert (last.user_text, last.user_intensity, last.reply_emotion) == ("question 6", 0.5, "caring")
    assert dict(last.variants) == {"tts": "embedded"}
    assert not last.vote_record
    assert not last.timings_s
    assert recalled.emotion_bank.name == "default"
    assert tuple(recalled.emotion_bank.face_classes) == emotions.load().classes
    assert tuple(recalled.emotion_bank.voice_styles) == emotions.load().styles
    assert (recalled.ontology_hash, recalled.stale_s) == (emotions.load().digest, 0)


@pytest.mark.parametrize(("turns_max", "count"), [(0, 0), (1, 1), (4_000_000_000, 6)])
async def test_as_many_turns_are_recalled_as_are_asked_for(stubs: Stubs, turns_max: int, count: int) -> None:
    await stubs.add(parts(header()))
    for number in range(6):
        await stubs.say(number)
    request = memory_pb2.RecallRequest(tenant=TENANT, identity="ada", conversation="talk", turns_max=turns_max)
    recalled = await stubs.memory.Recall(request)
    assert len(recalled.turns) == count
    # How it felt is told whatever is asked for.
    assert (recalled.trajectory.label, dict(recalled.trajectory.weights)) == ("sad", {"sad": 1.0})
    assert recalled.trajectory.valence < 0 < recalled.trajectory.half_life_s


async def test_without_a_conversation_no_turns_are_recalled(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    await stubs.say(1)
    recalled = await stubs.recall(conversation="")
    assert (len(recalled.turns), recalled.trajectory.label) == (0, "")


async def test_what_one_person_said_is_not_recalled_for_another(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    await stubs.say(1, person="bob")
    await stubs.say(2, person="eve")
    await stubs.say(3)
    for person, number in (("bob", 1), ("eve", 2), ("", 3)):
        assert [turn.id for turn in (await stubs.recall(person=person)).turns] == [f"turn-{number}"]


async def test_past_turns_are_found_by_what_they_are_like(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    for number, text in enumerate(("my sister sings", "the weather is fine", "my sister plays the piano")):
        request = memory_pb2.RememberRequest(
            tenant=TENANT, identity="ada", person="bob", conversation=f"talk-{number}", turn=turn(number, text)
        )
        await stubs.memory.Remember(request)
    search = memory_pb2.SearchRequest(tenant=TENANT, identity="ada", person="bob", text="my sister sings", hits_max=2)
    found = await stubs.memory.Search(search)
    assert [(hit.turn.id, hit.turn.conversation) for hit in found.hits] == [("turn-0", "talk-0"), ("turn-2", "talk-2")]
    assert found.hits[0].similarity == pytest.approx(1, abs=1e-3)
    assert found.model_digest == WordEmbedder.digest
    search.similarity_min = 0.9
    assert [hit.turn.id for hit in (await stubs.memory.Search(search)).hits] == ["turn-0"]
    search.person = "eve"
    assert not (await stubs.memory.Search(search)).hits


async def test_how_long_a_turn_took_is_kept_when_it_is_over(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    for number in (1, 2):
        await stubs.say(number)
    timings_s = {"vote": 0.25, "speech": 1.5}
    request = memory_pb2.PutTimingsRequest(
        tenant=TENANT, identity="ada", conversation="talk", turn="turn-1", timings_s=timings_s
    )
    await stubs.memory.PutTimings(request)
    wanted = memory_pb2.ListTurnsRequest(tenant=TENANT, identity="ada", conversation="talk")
    listed = (await stubs.memory.ListTurns(wanted)).turns
    assert [dict(turn.timings_s) for turn in listed] == [{"vote": 0.25}, timings_s]
    for field, name, code, text in (
        ("turn", "turn-9", grpc.StatusCode.NOT_FOUND, "turn 'turn-9' is unknown"),
        ("turn", "../turn", grpc.StatusCode.INVALID_ARGUMENT, "turn: "),
        ("tenant", "", grpc.StatusCode.INVALID_ARGUMENT, "tenant: "),
    ):
        other = memory_pb2.PutTimingsRequest()
        other.CopyFrom(request)
        setattr(other, field, name)
        with refused(code, text):
            await stubs.memory.PutTimings(other)


async def test_turns_are_listed_in_pages_the_newest_first_with_how_the_panel_decided(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    for number in range(5):
        await stubs.say(number, person="bob")
    request = memory_pb2.ListTurnsRequest(tenant=TENANT, identity="ada", person="bob", conversation="talk", page_size=2)
    pages = []
    while True:
        page = await stubs.memory.ListTurns(request)
        pages.append([turn.id for turn in page.turns])
        assert all(turn.vote_record == b"how the panel decided" for turn in page.turns)
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    assert [name for page in pages for name in page] == ["turn-4", "turn-3", "turn-2", "turn-1", "turn-0"]
    assert max(map(len, pages)) == 2
    request.page_size = 201
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "page_size: 201; send 1 to 200"):
        await stubs.memory.ListTurns(request)


def clip_parts(kind: memory_pb2.ClipKind, content: bytes, **changes: str) -> list[memory_pb2.PutClipRequest]:
    named = {"tenant": TENANT, "identity": "ada", "conversation": "talk", "turn": "turn-1", **changes}
    head = memory_pb2.PutClipHeader(kind=kind, size_bytes=len(content), **named)
    return [
        memory_pb2.PutClipRequest(header=head),
        *(memory_pb2.PutClipRequest(content=piece) for piece in pieces(content)),
    ]


async def test_clips_of_a_turn_are_kept_told_of_and_sent_back_in_pieces(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    await stubs.say(1)
    contents = {memory_pb2.CLIP_KIND_SPEECH: WAV, memory_pb2.CLIP_KIND_VIDEO: MP4 + b"v" * 3 * MIB}
    for kind, content in contents.items():
        clip = (await clients.ask(stubs.memory.PutClip(), each(clip_parts(kind, content)))).clip
        digest = hashlib.sha256(content).hexdigest()
        assert clip == memory_pb2.Clip(kind=kind, digest=digest, size_bytes=len(content))
    request = memory_pb2.ListTurnsRequest(tenant=TENANT, identity="ada", conversation="talk")
    (listed,) = (await stubs.memory.ListTurns(request)).turns
    assert {clip.kind: clip.size_bytes for clip in listed.clips} == {k: len(each) for k, each in contents.items()}
    for kind, content in contents.items():
        wanted = memory_pb2.GetClipRequest(tenant=TENANT, identity="ada", conversation="talk", turn="turn-1", kind=kind)
        assert await joined(stubs.memory.GetClip(wanted)) == content


@pytest.mark.parametrize(
    ("requests", "code", "text"),
    [
        (clip_parts(memory_pb2.CLIP_KIND_SPEECH, MP4), grpc.StatusCode.INVALID_ARGUMENT, "send a WAV file"),
        (clip_parts(0, WAV), grpc.StatusCode.INVALID_ARGUMENT, "header.kind: 0 is no kind of clip"),  # type: ignore[arg-type]
        (clip_parts(1, b""), grpc.StatusCode.INVALID_ARGUMENT, "header.size_bytes: 0; declare"),  # type: ignore[arg-type]
        (clip_parts(1, WAV)[1:], grpc.StatusCode.INVALID_ARGUMENT, "header: missing; send it first"),  # type: ignore[arg-type]
        (clip_parts(1, WAV)[:1], grpc.StatusCode.INVALID_ARGUMENT, f"content: 0 of {len(WAV)} bytes came"),  # type: ignore[arg-type]
        (clip_parts(1, WAV, turn="turn-9"), grpc.StatusCode.NOT_FOUND, "turn-9"),  # type: ignore[arg-type]
        (clip_parts(1, WAV, person="eve"), grpc.StatusCode.NOT_FOUND, "turn-1"),  # type: ignore[arg-type]
    ],
)
async def test_a_wrong_clip_is_refused_and_nothing_of_it_is_kept(
    stubs: Stubs, store: Store, requests: list[memory_pb2.PutClipRequest], code: grpc.StatusCode, text: str
) -> None:
    await stubs.add(parts(header()))
    await stubs.say(1)
    before = held(store)
    with refused(code, text):
        await clients.ask(stubs.memory.PutClip(), each(requests))
    assert held(store) == before


@pytest.mark.parametrize(
    ("field", "conversation", "changes"),
    [
        ("conversation", "", {}),
        ("conversation", "../talk", {}),
        ("turn.id", "talk", {"id": ""}),
        ("turn.user_text", "talk", {"user_text": ""}),
        ("turn.user_emotion", "talk", {"user_emotion": "meh"}),
        ("turn.reply_text", "talk", {"reply_text": " "}),
        ("turn.reply_emotion", "talk", {"reply_emotion": ""}),
        ("turn.user_intensity", "talk", {"user_intensity": 1.5}),
        ("turn.vote_record", "talk", {"vote_record": b"x" * 65_537}),
    ],
)
async def test_a_wrong_turn_is_refused_with_the_field(
    stubs: Stubs, store: Store, field: str, conversation: str, changes: dict[str, object]
) -> None:
    await stubs.add(parts(header()))
    before = held(store)
    broken = turn(1)
    for name, value in changes.items():
        setattr(broken, name, value)
    request = memory_pb2.RememberRequest(tenant=TENANT, identity="ada", conversation=conversation, turn=broken)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, f"{field}: "):
        await stubs.memory.Remember(request)
    assert held(store) == before


async def test_without_the_permission_nothing_said_is_kept_or_found_and_the_permission_is_named(stubs: Stubs) -> None:
    await stubs.add(parts(header(uses=("animate_face",))))
    search = memory_pb2.SearchRequest(tenant=TENANT, identity="ada", person="bob", text="question 1")
    for call in (stubs.say(1), stubs.memory.Search(search), stubs.recall(uses=["keep_turns"])):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
            await call
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "uses: "):
        await stubs.recall(uses=["everything"])
    assert (await stubs.recall(uses=["animate_face"])).identity.id == "ada"


async def test_an_erased_person_is_recalled_no_more_and_others_are(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    await stubs.say(1, person="bob")
    await stubs.say(1, person="eve")
    request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="bob himself")
    await stubs.erasure.ErasePerson(request)
    assert not (await stubs.recall(person="bob")).turns
    assert len((await stubs.recall(person="eve")).turns) == 1


class Held(WordEmbedder):
    """Waits before it reads a text until the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.gate("embed")
        return super().embed(texts)


async def test_whoever_waits_for_the_sentence_embedding_holds_up_no_other_call() -> None:
    embedder = Held()
    async with serving(Memory(FakeStore(), embedder)) as stubs:
        await stubs.add(parts(header()))
        waiting = [asyncio.create_task(stubs.say(number)) for number in range(8)]  # More than there are threads.
        await embedder.gate.reached()
        assert not (await stubs.recall()).turns
        embedder.gate.open()
        await asyncio.gather(*waiting)
        assert len((await stubs.recall()).turns) == 4
