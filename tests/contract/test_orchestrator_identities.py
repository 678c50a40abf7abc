"""No file gets into an identity through the door that voice and face have not looked at."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING
from typing import cast as typed

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2, erasure_pb2_grpc, identities_pb2_grpc
from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2, orchestrator_pb2_grpc
from services.common.errors import BackendFailed
from tests.deployment import ALL_USES, PORTRAIT, VOICE, Cast, Deployment, deployed
from tests.fakes import Gate, fail
from tests.samples import film, png, wav
from tests.serving import CallLog, refused
from tests.turns import header as say
from tests.turns import respond

if TYPE_CHECKING:
    from e3rg.memory.v1.erasure_pb2_grpc import ErasureServiceAsyncStub as Erasure
    from e3rg.memory.v1.identities_pb2_grpc import IdentityServiceAsyncStub as Stub
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Turns

MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
PICTURE, RECORDING, MOVIE = pb.REFERENCE_KIND_PORTRAIT, pb.REFERENCE_KIND_VOICE, pb.REFERENCE_KIND_FILM
SILENT = VOICE[:44] + bytes(len(VOICE) - 44)
FILM = film()
TRACE = "0af7651916cd43dd8448eb211c80319c"

File = tuple[pb.ReferenceKind, bytes]


@pytest.fixture
async def deployment(cast: Cast) -> AsyncIterator[Deployment]:
    async with deployed(cast) as running:
        yield running


@pytest.fixture
def stub(deployment: Deployment) -> "Stub":
    return typed("Stub", identities_pb2_grpc.IdentityServiceStub(deployment.served["orchestrator"].channel))


def profile(language: str = "en") -> common.Profile:
    return common.Profile(name="Eve", age="elderly", gender="female", timbre="low", language=language)


def declared(files: Sequence[File]) -> list[pb.NewReference]:
    return [pb.NewReference(kind=kind, size_bytes=len(content)) for kind, content in files]


def addition(
    *files: File, name: str = "eve", language: str = "en", references: Sequence[pb.NewReference] | None = None
) -> list[pb.AddIdentityRequest]:
    """A request to add an identity with these files, which declares `references`, or what follows."""
    header = pb.AddIdentityHeader(
        tenant="acme",
        id=name,
        profile=profile(language),
        grants=[pb.Grant(use=use, granted_by="the test", granted_on="2026-01-31") for use in ALL_USES],
        references=declared(files) if references is None else references,
    )
    return [pb.AddIdentityRequest(header=header), *pieces(b"".join(content for _, content in files))]


def pieces(content: bytes, size: int = MIB) -> list[pb.AddIdentityRequest]:
    return [pb.AddIdentityRequest(content=content[start : start + size]) for start in range(0, len(content), size)]


BOTH = ((PICTURE, PORTRAIT), (RECORDING, VOICE))


async def test_an_identity_is_added_read_answers_and_is_erased(
    stub: "Stub", deployment: Deployment, cast: Cast
) -> None:
    second = wav(1.5)
    files = (*BOTH, (MOVIE, FILM), (RECORDING, second))
    added = (await stub.AddIdentity(iter(addition(*files)), timeout=20)).identity
    assert [(file.kind, file.size_bytes) for file in added.references] == [(kind, len(one)) for kind, one in files]
    assert (await stub.GetIdentity(pb.GetIdentityRequest(tenant="acme", identity="eve"))).identity == added
    listed = (await stub.ListIdentities(pb.ListIdentitiesRequest(tenant="acme"))).identities
    assert [identity.id for identity in listed] == ["eve"]
    for file, (_, content) in zip(added.references, files, strict=True):
        request = pb.GetReferenceRequest(tenant="acme", identity="eve", digest=file.digest)
        assert b"".join([part.content async for part in stub.GetReference(request)]) == content
    door = deployment.served["orchestrator"].channel
    turns = typed("Turns", orchestrator_pb2_grpc.OrchestratorServiceStub(door))
    turn = await respond(turns, say(identity="eve", tenant="acme", output=orchestrator_pb2.OUTPUT_AUDIO))
    assert (turn.identity.identity, turn.degraded) == (added, [])
    eraser = typed("Erasure", erasure_pb2_grpc.ErasureServiceStub(door))
    await eraser.EraseIdentity(erasure_pb2.EraseIdentityRequest(tenant="acme", identity="eve", asked_by="the test"))
    with refused(grpc.StatusCode.NOT_FOUND, "'eve' is unknown"):
        await stub.GetIdentity(pb.GetIdentityRequest(tenant="acme", identity="eve"))


async def test_every_file_is_looked_at_once_by_its_service_under_one_trace(stub: "Stub", calls: CallLog) -> None:
    parts = addition(*BOTH, (PICTURE, png(colour=(9, 9, 9))), (MOVIE, FILM), (RECORDING, wav(1.5)))
    await stub.AddIdentity(iter(parts), timeout=20, metadata=(("traceparent", f"00-{TRACE}-b7ad6b7169203331-01"),))
    await calls.ended("AddIdentity", 2)
    methods = [call.method for call in calls.calls]
    checks = ["CheckPortrait", "CheckVoice", "CheckPortrait", "CheckFilm", "CheckVoice"]
    assert methods == ["GetModel", *checks, "AddIdentity", "AddIdentity"]
    assert {call.trace_id for call in calls.calls} == {TRACE}


async def test_a_message_may_hold_the_end_of_one_file_and_the_beginning_of_the_next(stub: "Stub", cast: Cast) -> None:
    header, *_ = addition(*BOTH)
    await stub.AddIdentity(iter([header, *pieces(PORTRAIT + VOICE, 1000)]), timeout=20)
    assert sorted(cast.memory.files) != []
    kept = {content for (tenant, _, _), content in cast.memory.files.items() if tenant == "acme"}
    assert kept == {PORTRAIT, VOICE}


HEADER = addition(*BOTH)[0]


@pytest.mark.parametrize(
    ("parts", "code", "text"),
    [
        ([], INVALID, "header: missing; send it first"),
        (pieces(PORTRAIT), INVALID, "header: missing"),
        ([HEADER, HEADER, *pieces(PORTRAIT + VOICE)], INVALID, "part: header is out of order"),
        ([HEADER, pb.AddIdentityRequest()], INVALID, "part: nothing is out of order"),
        (addition(), INVALID, "header.references: 0 files; send 1 to 16"),
        (addition(*BOTH * 9), INVALID, "header.references: 18 files; send 1 to 16"),
        (addition(*BOTH)[:-1], INVALID, "header.references[0]: 0 of"),
        ([HEADER, *pieces(PORTRAIT + VOICE[:99])], INVALID, f"header.references[1]: 99 of {len(VOICE)} bytes came"),
        ([*addition(*BOTH), *pieces(b"x")], INVALID, "header.references: more bytes came than are declared"),
        ([HEADER, *pieces(PORTRAIT + VOICE + b"x")], INVALID, "header.references: more bytes came"),
        ([HEADER, *pieces(bytes(MIB + 1), MIB + 1)], INVALID, "content: a message holds 1048577 bytes; send at most"),
        (addition((PICTURE, b"GIF89a")), INVALID, "header.references[0]: portrait: 6 bytes that are no JPEG or PNG"),
        (addition(*BOTH, (PICTURE, png(colour=(0, 0, 0)))), INVALID, "header.references[2]: portrait: no face in it"),
        (addition((RECORDING, b"an mp3")), INVALID, "header.references[0]: voice: not a PCM WAV file"),
        (addition(*BOTH, (RECORDING, SILENT)), INVALID, "header.references[2]: voice: it is silent"),
        (addition((MOVIE, b"not a film"), *BOTH), INVALID, "header.references[0]: "),
        (addition(*BOTH, language="es"), INVALID, "header.profile.language: 'es' is not spoken by the voice; use one"),
    ],
)
async def test_what_cannot_be_an_identity_is_refused_and_nothing_is_kept(
    stub: "Stub", cast: Cast, parts: list[pb.AddIdentityRequest], code: grpc.StatusCode, text: str
) -> None:
    with refused(code, text):
        await stub.AddIdentity(iter(parts), timeout=20)
    assert list(cast.memory.identities) == [("default", "ada")]


async def test_an_identity_that_is_there_already_is_refused_by_the_memory(stub: "Stub") -> None:
    await stub.AddIdentity(iter(addition(*BOTH)), timeout=20)
    with refused(grpc.StatusCode.ALREADY_EXISTS, "identity 'eve' exists"):
        await stub.AddIdentity(iter(addition(*BOTH)), timeout=20)


@pytest.mark.parametrize(
    ("references", "text"),
    [
        ([(0, 10)], "[0].kind: 0; use one of: REFERENCE_KIND_PORTRAIT, REFERENCE_KIND_VOICE, REFERENCE_KIND_FILM"),
        ([(PICTURE, 10), (9, 10)], "[1].kind: 9; use one of"),
        ([(PICTURE, 0)], "[0].size_bytes: 0; send 1 to 16777216"),
        ([(PICTURE, 16 * MIB + 1)], "[0].size_bytes: 16777217; send 1 to 16777216"),
        ([(RECORDING, 16 * MIB + 1)], "[0].size_bytes: 16777217; send 1 to 16777216"),
        ([(PICTURE, 9), (MOVIE, 500 * MIB)], "[1].size_bytes: 524288000; send 1 to 67108864"),
        ([(MOVIE, 64 * MIB), (MOVIE, 64 * MIB), (PICTURE, 1)], ": 134217729 bytes in all; send at most 134217728"),
    ],
)
@pytest.mark.parametrize("request_of", ["AddIdentity", "ChangeIdentity"])
async def test_what_is_too_large_is_refused_before_a_byte_of_it_is_read(
    stub: "Stub", request_of: str, references: list[tuple[pb.ReferenceKind, int]], text: str
) -> None:
    files = [pb.NewReference(kind=kind, size_bytes=size) for kind, size in references]
    adds = request_of == "AddIdentity"
    asked = asyncio.Event()

    async def parts() -> AsyncIterator[pb.AddIdentityRequest | pb.ChangeIdentityRequest]:
        if adds:
            yield addition(references=files)[0]
        else:
            yield change(references=files)[0]
        await asked.wait()  # for ever: nothing more is needed

    call = stub.AddIdentity(parts(), timeout=20) if adds else stub.ChangeIdentity(parts(), timeout=20)  # type: ignore[arg-type]
    with refused(INVALID, f"header.{'references' if adds else 'added'}{text}"):
        await call


@pytest.mark.parametrize("checker", ["tts", "video"])
async def test_nothing_is_kept_that_face_and_voice_have_not_looked_at(
    stub: "Stub", cast: Cast, deployment: Deployment, checker: str
) -> None:
    await deployment.stop(checker)
    with refused(grpc.StatusCode.UNAVAILABLE, f"{checker}: "):
        await stub.AddIdentity(iter(addition(*BOTH)), timeout=20)
    assert list(cast.memory.identities) == [("default", "ada")]


async def test_a_look_that_fails_keeps_nothing(stub: "Stub", cast: Cast) -> None:
    cast.voice.before = fail(BackendFailed("secret"))
    with refused(grpc.StatusCode.INTERNAL, "internal error"):
        await stub.AddIdentity(iter(addition(*BOTH)), timeout=20)
    assert list(cast.memory.identities) == [("default", "ada")]


async def test_cancelling_ends_the_look_and_keeps_nothing(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.voice.before = gate = Gate("check")
    call = stub.AddIdentity(iter(addition(*BOTH)), timeout=20)
    await gate.reached()
    call.cancel()
    assert [ended.status for ended in await calls.ended("CheckVoice")] == ["CANCELLED"]
    # The memory may see no more than that the files do not come whole.
    assert "CANCELLED" in {ended.status for ended in await calls.ended("AddIdentity", 2)}
    gate.open()
    assert list(cast.memory.identities) == [("default", "ada")]


# Changes


def change(
    *files: File, language: str = "", references: Sequence[pb.NewReference] | None = None
) -> list[pb.ChangeIdentityRequest]:
    header = pb.ChangeIdentityHeader(
        tenant="default", id="ada", if_version=1, added=declared(files) if references is None else references
    )
    if language:
        header.profile.CopyFrom(profile(language))
    content = b"".join(one for _, one in files)
    return [
        pb.ChangeIdentityRequest(header=header),
        *(pb.ChangeIdentityRequest(content=piece.content) for piece in pieces(content)),
    ]


async def test_files_that_come_in_addition_are_looked_at(stub: "Stub", calls: CallLog) -> None:
    changed = (await stub.ChangeIdentity(iter(change((RECORDING, wav(1.5)))), timeout=20)).identity
    assert ([file.kind for file in changed.references], changed.version) == ([PICTURE, RECORDING, RECORDING], 2)
    assert [call.method for call in calls.calls[:-2]] == ["CheckVoice"]


async def test_a_change_without_files_and_of_the_language_is_asked_of_the_voice_only(
    stub: "Stub", calls: CallLog
) -> None:
    changed = (await stub.ChangeIdentity(iter(change(language="en")), timeout=20)).identity
    assert changed.profile.name == "Eve"
    assert [call.method for call in calls.calls] == ["GetModel", "ChangeIdentity", "ChangeIdentity"]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        (change((RECORDING, SILENT)), "header.added[0]: voice: it is silent"),
        (change((PICTURE, PORTRAIT), (RECORDING, b"an mp3")), "header.added[1]: voice: not a PCM WAV file"),
        (change(language="es"), "header.profile.language: 'es' is not spoken by the voice"),
        ([*change(), pb.ChangeIdentityRequest(content=b"x")], "header.added: more bytes came than are declared"),
        (change(*[(PICTURE, PORTRAIT)] * 17), "header.added: 17 files; send 0 to 16"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_and_nothing_is_changed(
    stub: "Stub", cast: Cast, parts: list[pb.ChangeIdentityRequest], text: str
) -> None:
    with refused(INVALID, text):
        await stub.ChangeIdentity(iter(parts), timeout=20)
    assert cast.memory.identities["default", "ada"].version == 1
