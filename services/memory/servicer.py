"""The memory on the wire."""

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as pb
from e3rg.memory.v1 import memory_pb2_grpc
from emotions import Wheel
from services.common.errors import InvalidRequest
from services.common.inference import InferenceQueue
from services.common.media import Collector, chunks
from services.memory.checks import REFERENCE_BYTES_MAX
from services.memory.domain import (
    BANK_DEFAULT,
    Consent,
    Derivation,
    EmotionBank,
    Identity,
    NewIdentity,
    Profile,
    Reference,
    ReferenceKind,
    Turn,
)
from services.memory.memory import Memory
from services.memory.opening import Opening

Result = TypeVar("Result")

TURNS_DEFAULT = 4
"""Turns that are recalled when the caller does not say how many."""

_KINDS = {pb.REFERENCE_KIND_PORTRAIT: ReferenceKind.PORTRAIT, pb.REFERENCE_KIND_VOICE: ReferenceKind.VOICE}


class MemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Serves one store.

    Args:
        name: Name of the store's back-end.
        memory: What is asked.
        queue: Runs the blocking calls.
        wheel: The emotion wheel, for the store's card.
        opening: Refuses every call until the store is open; one that is open needs none.
    """

    def __init__(
        self, name: str, memory: Memory, queue: InferenceQueue, wheel: Wheel, opening: Opening | None = None
    ) -> None:
        self._name = name
        self._memory = memory
        self._queue = queue
        self._wheel = wheel
        self._opening = opening

    async def GetStore(self, request: pb.GetStoreRequest, context: Any) -> pb.GetStoreResponse:
        self._check_open()
        return pb.GetStoreResponse(card=common.ModelCard(backend=self._name, ontology_hash=self._wheel.digest))

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        turns_max = request.turns_max if request.HasField("turns_max") else TURNS_DEFAULT
        found = await self._run(lambda: self._memory.recall(request.identity, request.conversation, turns_max))
        return pb.RecallResponse(
            identity=_to_identity(found.identity),
            emotion_bank=_to_bank(found.emotion_bank),
            turns=[_to_turn(turn) for turn in found.turns],
            ontology_hash=self._wheel.digest,
        )

    async def GetReference(
        self, request: pb.GetReferenceRequest, context: Any
    ) -> AsyncIterator[pb.GetReferenceResponse]:
        kind = _from_kind(request.kind)
        content = await self._run(lambda: self._memory.reference(request.identity, kind))
        for piece in chunks(content):
            yield pb.GetReferenceResponse(content=piece)

    async def GetDerived(self, request: pb.GetDerivedRequest, context: Any) -> pb.GetDerivedResponse:
        derivation = _from_derivation(request)
        content = await self._run(lambda: self._memory.derived(request.identity, derivation))
        return pb.GetDerivedResponse(content=content)

    async def PutDerived(self, request: pb.PutDerivedRequest, context: Any) -> pb.PutDerivedResponse:
        derivation = _from_derivation(request)
        await self._run(lambda: self._memory.keep_derived(request.identity, derivation, request.content))
        return pb.PutDerivedResponse()

    async def Remember(self, request: pb.RememberRequest, context: Any) -> pb.RememberResponse:
        turn = _from_turn(request.turn)
        await self._run(lambda: self._memory.remember(request.identity, request.conversation, turn))
        return pb.RememberResponse()

    async def ListIdentities(self, request: pb.ListIdentitiesRequest, context: Any) -> pb.ListIdentitiesResponse:
        identities = await self._run(self._memory.identities)
        return pb.ListIdentitiesResponse(identities=[_to_identity(identity) for identity in identities])

    async def GetIdentity(self, request: pb.GetIdentityRequest, context: Any) -> pb.GetIdentityResponse:
        identity = await self._run(lambda: self._memory.identity(request.identity))
        return pb.GetIdentityResponse(identity=_to_identity(identity))

    async def AddIdentity(
        self, request_iterator: AsyncIterator[pb.AddIdentityRequest], context: Any
    ) -> pb.AddIdentityResponse:
        new = await _read_new(request_iterator)
        return pb.AddIdentityResponse(identity=_to_identity(await self._run(lambda: self._memory.add(new))))

    async def RemoveIdentity(self, request: pb.RemoveIdentityRequest, context: Any) -> pb.RemoveIdentityResponse:
        return pb.RemoveIdentityResponse(objects=await self._run(lambda: self._memory.remove(request.identity)))

    def _check_open(self) -> None:
        if self._opening:
            self._opening.check()

    async def _run(self, ask: Callable[[], Result]) -> Result:
        self._check_open()
        return await self._queue.run(ask)


async def _read_new(parts: AsyncIterator[pb.AddIdentityRequest]) -> NewIdentity:
    header: pb.AddIdentityHeader | None = None
    portrait = Collector("portrait", REFERENCE_BYTES_MAX)
    voice = Collector("voice", REFERENCE_BYTES_MAX)
    async for part in parts:
        match part.WhichOneof("part"):
            case "header" if header is None:
                header = part.header
            case "portrait" if header:
                portrait.add(part.portrait)
            case "voice" if header:
                voice.add(part.voice)
            case found:
                raise InvalidRequest("part", f"{found or 'nothing'} is out of order; send one header first, then media")
    if header is None:
        raise InvalidRequest("header", "missing; send it first")
    portrait.check_whole(header.portrait_size_bytes)
    voice.check_whole(header.voice_size_bytes)
    for field in ("profile", "consent"):
        if not header.HasField(field):
            raise InvalidRequest(f"header.{field}", "missing; it is required")
    return NewIdentity(
        id=header.id,
        profile=_from_profile(header.profile),
        consent=Consent(header.consent.granted_by, header.consent.granted_on, tuple(header.consent.uses)),
        portrait=portrait.content,
        voice=voice.content,
        emotion_bank=header.emotion_bank or BANK_DEFAULT,
    )


def _from_kind(kind: pb.ReferenceKind) -> ReferenceKind:
    if kind not in _KINDS:
        raise InvalidRequest("kind", f"{kind} is no reference; use REFERENCE_KIND_PORTRAIT or REFERENCE_KIND_VOICE")
    return _KINDS[kind]


def _from_derivation(request: pb.GetDerivedRequest | pb.PutDerivedRequest) -> Derivation:
    return Derivation(_from_kind(request.kind), request.reference_digest, request.model_digest)


def _from_profile(profile: common.Profile) -> Profile:
    return Profile(
        name=profile.name,
        age=profile.age,
        gender=profile.gender,
        timbre=profile.timbre,
        language=profile.language,
        about=profile.about,
    )


def _from_turn(turn: pb.Turn) -> Turn:
    return Turn(
        id=turn.id,
        user_text=turn.user_text,
        user_emotion=turn.user_emotion,
        reply_text=turn.reply_text,
        reply_emotion=turn.reply_emotion,
    )


def _to_turn(turn: Turn) -> pb.Turn:
    return pb.Turn(
        id=turn.id,
        user_text=turn.user_text,
        user_emotion=turn.user_emotion,
        reply_text=turn.reply_text,
        reply_emotion=turn.reply_emotion,
    )


def _to_bank(bank: EmotionBank) -> pb.EmotionBank:
    return pb.EmotionBank(name=bank.name, face_classes=bank.face_classes, voice_styles=bank.voice_styles)


def _to_reference(reference: Reference) -> pb.Reference:
    return pb.Reference(digest=reference.digest, size_bytes=reference.size_bytes)


def _to_identity(identity: Identity) -> pb.Identity:
    profile, consent = identity.profile, identity.consent
    return pb.Identity(
        id=identity.id,
        profile=common.Profile(
            name=profile.name,
            age=profile.age,
            gender=profile.gender,
            timbre=profile.timbre,
            language=profile.language,
            about=profile.about,
        ),
        portrait=_to_reference(identity.portrait),
        voice=_to_reference(identity.voice),
        consent=pb.Consent(granted_by=consent.granted_by, granted_on=consent.granted_on, uses=consent.uses),
        emotion_bank=identity.emotion_bank,
    )
