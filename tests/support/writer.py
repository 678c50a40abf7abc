"""Clients that write everything a memory keeps, ask again until they are answered, and know what must be there then."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2, turns_pb2
from services.common import clients
from services.memory.domain import digest_of
from tests.fakes import PATIENCE_S
from tests.support import memory
from tests.support.memory import TENANT, Stubs, each, header, joined, parts, turn

MODEL = "d" * 64
CLIPS = {
    memory_pb2.CLIP_KIND_SPEECH: b"RIFF\0\0\0\0WAVE",
    memory_pb2.CLIP_KIND_VIDEO: b"\0\0\0\x18ftypisom",
}
RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclass
class Service:
    """A memory that may be down; `stubs` is the one that is up."""

    stubs: Stubs | None = None
    up: asyncio.Event = field(default_factory=asyncio.Event)
    acknowledged: int = 0
    refusals: int = 0
    calls: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, stubs: Stubs) -> None:
        self.stubs = stubs
        self.up.set()

    async def told(self, call: Callable[[Stubs, Any], Awaitable[Any]]) -> Any:
        """Makes a call until it is answered, with one idempotency key."""
        options = {"metadata": (("idempotency-key", secrets.token_hex(16)),), "timeout": 3 * PATIENCE_S}
        while True:
            async with asyncio.timeout(6 * PATIENCE_S):
                await self.up.wait()
            assert self.stubs
            self.calls += 1
            try:
                answer = await call(self.stubs, options)
            except grpc.aio.AioRpcError as error:
                assert error.code() in RETRIED, error.details()
                self.refusals += 1
            else:
                self.acknowledged += 1
                return answer
            finally:
                self.calls -= 1
                self._news.set()

    async def reach(self, acknowledged: int) -> None:
        """Waits until so many writes are acknowledged."""
        await self._until(lambda: self.acknowledged >= acknowledged)

    async def wait_within(self, delay_s: float) -> None:
        """Lets calls go on for some time, so that what comes then comes anywhere within one."""
        await asyncio.sleep(delay_s)

    async def end_calls(self) -> None:
        """Waits until all calls to a memory that went down are refused."""
        await self._until(lambda: not self.calls)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(6 * PATIENCE_S):
            while not is_so():
                self._news.clear()
                await self._news.wait()


@dataclass
class Kept:
    """A turn that was acknowledged, with what was kept beside it."""

    timings_s: dict[str, float]
    are_timings_final: bool = False
    clips: dict[int, bytes] = field(default_factory=dict)
    rating: int = 0


class Writer:
    """One client; it has an identity and a person of its own.

    Args:
        service: Where it writes.
        name: Of its identity.
        seed: Of what it writes.
    """

    def __init__(self, service: Service, name: str, seed: int) -> None:
        self._service, self.name, self._random = service, name, random.Random(seed)
        self.person = f"person-of-{name}"
        self.version = 0
        self.style = ""
        self.files: list[bytes] = []
        self.derived = b""
        self.bank: tuple[str, ...] = ()
        self.emotions: dict[str, bytes] = {}
        self.examples: dict[str, str] = {}
        self.turns: dict[str, Kept] = {}
        self.erasures: list[str] = []
        self._number = 0
        self._writes = 0

    async def write(self, count: int) -> None:
        """Makes so many writes of all kinds."""
        kinds = {
            self.remember: 8,
            self.put_clip: 5,
            self.put_timings: 2,
            self.rate: 2,
            self.change: 2,
            self.put_derived: 2,
            self.put_bank: 1,
            self.put_emotion: 2,
            self.remove_emotion: 1,
            self.put_examples: 1,
            self.remove_example: 1,
            self.erase_person: 1,
            self.erase_identity: 1,
        }
        await self.add()
        for kind in kinds:
            await kind()
        while self._writes < count:
            (kind,) = self._random.choices(list(kinds), list(kinds.values()))
            await (kind if self.version else self.add)()

    async def add(self) -> None:
        self.files = [b"\x89PNG\r\n\x1a\n" + self._bytes(), b"RIFF\0\0\0\0WAVE" + self._bytes()]
        messages = parts(header(self.name), *self.files)
        self.version = (await self._stream(lambda it: it.identities.AddIdentity, messages)).identity.version
        self.style = header().profile.speaking_style

    async def change(self) -> None:
        """Changes how it speaks, adds a film, or removes one."""
        change = identities_pb2.ChangeIdentityHeader(tenant=TENANT, id=self.name, if_version=self.version)
        change.profile.CopyFrom(header().profile)
        self.style = change.profile.speaking_style = f"style {self._next()}"
        messages = [identities_pb2.ChangeIdentityRequest(header=change)]
        if len(self.files) > 2:
            change.removed.append(digest_of(self.files.pop()))
        else:
            self.files.append(b"\0\0\0\x18ftypisom" + self._bytes())
            change.added.extend(memory.new_references(self.files[2:]))
            messages.append(identities_pb2.ChangeIdentityRequest(content=self.files[2]))
        messages[0].header.CopyFrom(change)
        changed = (await self._stream(lambda it: it.identities.ChangeIdentity, messages)).identity
        assert changed.version == self.version + 1
        self.version = changed.version

    async def put_derived(self) -> None:
        content = self._bytes()
        about = identities_pb2.PutDerivedHeader(
            tenant=TENANT,
            identity=self.name,
            reference_digests=[digest_of(self.files[0])],
            model_digest=MODEL,
            size_bytes=len(content),
        )
        messages = [identities_pb2.PutDerivedRequest(header=about), identities_pb2.PutDerivedRequest(content=content)]
        await self._stream(lambda it: it.identities.PutDerived, messages)
        self.derived = content

    async def put_bank(self) -> None:
        classes = tuple(self._random.sample(("neutral", "happy", "sad", "angry"), 2))
        bank = identities_pb2.EmotionBank(name=self.name, face_classes=classes, voice_styles=["default"])
        request = identities_pb2.PutEmotionBankRequest(tenant=TENANT, bank=bank)
        await self._unary(lambda it: it.identities.PutEmotionBank, request)
        self.bank = classes

    async def put_emotion(self) -> None:
        name, content = self._random.choice(("sad", "angry", "cheerful")), self._bytes()
        about = identities_pb2.PutEmotionReferenceHeader(
            tenant=TENANT,
            identity=self.name,
            generator=identities_pb2.GENERATOR_VOICE,
            name=name,
            media_type="audio/wav",
            size_bytes=len(content),
        )
        await self._stream(
            lambda it: it.identities.PutEmotionReference,
            [
                identities_pb2.PutEmotionReferenceRequest(header=about),
                identities_pb2.PutEmotionReferenceRequest(content=content),
            ],
        )
        self.emotions[name] = content

    async def remove_emotion(self) -> None:
        if self.emotions:
            name, _ = self.emotions.popitem()
            request = identities_pb2.RemoveEmotionReferenceRequest(
                tenant=TENANT, identity=self.name, generator=identities_pb2.GENERATOR_VOICE, name=name
            )
            await self._unary(lambda it: it.identities.RemoveEmotionReference, request)

    async def put_examples(self) -> None:
        new = [
            exemplars_pb2.Exemplar(user_text=f"text {self._next()}", user_emotion="sad", reply_text="answer")
            for _ in range(3)
        ]
        request = exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity=self.name, exemplars=new)
        ids = (await self._unary(lambda it: it.exemplars.PutExemplars, request)).ids
        self.examples |= dict(zip(ids, (each.user_text for each in new), strict=True))

    async def remove_example(self) -> None:
        if self.examples:
            gone, _ = self.examples.popitem()
            request = exemplars_pb2.RemoveExemplarsRequest(tenant=TENANT, identity=self.name, ids=[gone])
            assert (await self._unary(lambda it: it.exemplars.RemoveExemplars, request)).exemplars == 1

    async def remember(self) -> None:
        said = turn(self._next())
        request = memory_pb2.RememberRequest(**self._where(), turn=said)
        await self._unary(lambda it: it.memory.Remember, request)
        self.turns[said.id] = Kept(dict(said.timings_s))

    async def put_clip(self) -> None:
        if self.turns:
            turn_id, kind = self._turn(), self._random.choice(list(CLIPS))
            content = CLIPS[kind] + self._bytes()
            about = memory_pb2.PutClipHeader(**self._where(), turn=turn_id, kind=kind, size_bytes=len(content))
            messages = [memory_pb2.PutClipRequest(header=about), memory_pb2.PutClipRequest(content=content)]
            await self._stream(lambda it: it.memory.PutClip, messages)
            self.turns[turn_id].clips[kind] = content

    async def put_timings(self) -> None:
        if self.turns:
            kept = self.turns[turn_id := self._turn()]
            timings_s = {"vote": float(self._next())}
            request = memory_pb2.PutTimingsRequest(**self._where(), turn=turn_id, timings_s=timings_s)
            await self._unary(lambda it: it.memory.PutTimings, request)
            if not kept.are_timings_final:  # Those that came first stay.
                kept.timings_s, kept.are_timings_final = timings_s, True

    async def rate(self) -> None:
        if self.turns:
            kept = self.turns[turn_id := self._turn()]
            kept.rating = kept.rating or self._random.randint(1, 5)
            where = self._where()
            where["user"] = where.pop("person")
            scales = dict.fromkeys(("expressiveness", "consistency", "naturalness"), kept.rating)
            rating = turns_pb2.Rating(rater="rita", **scales)
            request = turns_pb2.RateTurnRequest(**where, turn=turn_id, rating=rating)
            await self._unary(lambda it: it.turns.RateTurn, request)

    async def erase_person(self) -> None:
        if self.turns:
            request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person=self.person, asked_by=self.name)
            await self._erase(lambda it: it.erasure.ErasePerson, request)
            self.turns = {}

    async def erase_identity(self) -> None:
        request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity=self.name, asked_by=self.name)
        await self._erase(lambda it: it.erasure.EraseIdentity, request)
        self.version, self.files, self.derived = 0, [], b""
        self.emotions, self.examples, self.turns = {}, {}, {}

    async def check(self, stubs: Stubs) -> None:
        """Checks that all of what was acknowledged is there, once, and nothing else."""
        audits = [audit async for audit in _audits(stubs) if audit.asked_by == self.name]
        assert sorted(audit.id for audit in audits) == sorted(self.erasures)
        assert all(audit.done_at_s for audit in audits)
        listed = await stubs.identities.ListIdentities(identities_pb2.ListIdentitiesRequest(tenant=TENANT))
        assert (self.name in [identity.id for identity in listed.identities]) == bool(self.version)
        if self.version:
            await self._check_identity(stubs)
            await self._check_turns(stubs)

    async def _check_identity(self, stubs: Stubs) -> None:
        mine = {"tenant": TENANT, "identity": self.name}
        found = (await stubs.identities.GetIdentity(identities_pb2.GetIdentityRequest(**mine))).identity  # type: ignore[arg-type]
        digests = [digest_of(file) for file in self.files]
        assert (found.version, found.profile.speaking_style) == (self.version, self.style)
        assert [reference.digest for reference in found.references] == digests
        for digest, file in zip(digests, self.files, strict=True):
            reading = identities_pb2.GetReferenceRequest(**mine, digest=digest)
            assert await joined(stubs.identities.GetReference(reading)) == file
        if self.derived:
            request = identities_pb2.GetDerivedRequest(**mine, reference_digests=digests[:1], model_digest=MODEL)
            assert await joined(stubs.identities.GetDerived(request)) == self.derived
        listing = identities_pb2.ListEmotionReferencesRequest(**mine)
        there = (await stubs.identities.ListEmotionReferences(listing)).references
        assert {each.name: each.digest for each in there} == {
            name: digest_of(content) for name, content in self.emotions.items()
        }
        for name, content in self.emotions.items():
            asked = identities_pb2.GetEmotionReferenceRequest(
                **mine,
                generator=identities_pb2.GENERATOR_VOICE,
                name=name,
            )
            assert await joined(stubs.identities.GetEmotionReference(asked)) == content
        page = exemplars_pb2.ListExemplarsRequest(**mine, page_size=200)
        examples = (await stubs.exemplars.ListExemplars(page)).exemplars
        assert {example.id: example.user_text for example in examples} == self.examples

    async def _check_turns(self, stubs: Stubs) -> None:
        filters = turns_pb2.TurnFilter(identity=self.name)
        request = turns_pb2.QueryTurnsRequest(
            tenant=TENANT, filter=filters, page_size=200, order=turns_pb2.TURN_ORDER_OLDEST_FIRST
        )
        records = (await stubs.turns.QueryTurns(request)).turns
        assert [record.turn.id for record in records] == list(self.turns)
        for record, kept in zip(records, self.turns.values(), strict=True):
            assert dict(record.turn.timings_s) == kept.timings_s
            assert [rating.expressiveness for rating in record.ratings] == ([kept.rating] if kept.rating else [])
            assert {clip.kind: clip.digest for clip in record.turn.clips} == {
                kind: digest_of(content) for kind, content in kept.clips.items()
            }
            for kind, content in kept.clips.items():
                asked = memory_pb2.GetClipRequest(**self._where(), turn=record.turn.id, kind=kind)  # type: ignore[arg-type]
                assert await joined(stubs.memory.GetClip(asked)) == content

    async def _erase(self, method: Callable[[Stubs], Any], request: Any) -> None:
        self.erasures.append((await self._unary(method, request)).audit.id)

    async def _unary(self, method: Callable[[Stubs], Any], request: Any) -> Any:
        self._writes += 1
        return await self._service.told(lambda stubs, options: method(stubs)(request, **options))

    async def _stream(self, method: Callable[[Stubs], Any], messages: Sequence[Any]) -> Any:
        self._writes += 1
        return await self._service.told(lambda stubs, options: clients.ask(method(stubs)(**options), each(messages)))

    def _where(self) -> dict[str, Any]:
        return {"tenant": TENANT, "identity": self.name, "person": self.person, "conversation": "talk"}

    def _turn(self) -> str:
        return self._random.choice(list(self.turns))

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._random.randint(100, 100_000))


async def _audits(stubs: Stubs) -> Any:
    token = ""
    while True:
        request = erasure_pb2.ListAuditsRequest(tenant=TENANT, page_size=200, page_token=token)
        page = await stubs.erasure.ListAudits(request)
        for audit in page.audits:
            yield audit
        if not (token := page.next_page_token):
            return
