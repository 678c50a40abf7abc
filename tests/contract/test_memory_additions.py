"""What of a new identity is refused, when, and that nothing of it is kept."""

import hashlib
from collections.abc import AsyncIterator

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from services.common import clients
from services.common.errors import Overloaded
from services.memory.servicer import SERVICES
from services.memory.wire.uploads import Declared, Transfers
from tests.fake_store import FakeStore
from tests.fakes import PATIENCE_S
from tests.memory_service import (
    FILM,
    MIB,
    PORTRAIT,
    TENANT,
    VOICE,
    Stubs,
    each,
    header,
    memory_over,
    parts,
    serving,
    turn,
)
from tests.serving import refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
async def stubs(store: FakeStore) -> AsyncIterator[Stubs]:
    async with serving(memory_over(store)) as stubs:
        yield stubs


def head_with(**changes: object) -> pb.AddIdentityHeader:
    changed = header("bob")
    for field in changes:
        changed.ClearField(field)
    changed.MergeFrom(pb.AddIdentityHeader(**{name: value for name, value in changes.items() if value}))  # type: ignore[arg-type]
    return changed


def declaring(**changes: object) -> list[pb.AddIdentityRequest]:
    """A portrait and a voice, of which the voice is declared otherwise."""
    declared = {"kind": pb.REFERENCE_KIND_VOICE, "size_bytes": len(VOICE), **changes}
    references = [
        pb.NewReference(kind=pb.REFERENCE_KIND_PORTRAIT, size_bytes=len(PORTRAIT)),
        pb.NewReference(**declared),  # type: ignore[arg-type]
    ]
    return parts(head_with(references=references))


BOB = parts(header("bob"))


@pytest.mark.parametrize(
    ("requests", "code", "text"),
    [
        ([], INVALID, "header: missing; send it first"),
        (BOB[1:2], INVALID, "header: missing; send it first"),
        (BOB[:1], INVALID, f"header.references[0]: 0 of {len(PORTRAIT)} bytes came"),
        (BOB[:-1], INVALID, "header.references[0]: 2097152 of 2560008 bytes came"),
        (
            [*BOB[:-1], pb.AddIdentityRequest(content=BOB[-1].content[:-1])],
            INVALID,
            "header.references[1]: 5011 of 5012",
        ),
        ([*BOB, pb.AddIdentityRequest(content=b"!")], INVALID, "content: more than the 2565020 bytes came"),
        ([BOB[0], BOB[0]], INVALID, "part: header is out of order"),
        ([*BOB, pb.AddIdentityRequest()], INVALID, "part: nothing is out of order"),
        (parts(header("bob"), pieced=[b"\0" * (MIB + 1)]), INVALID, "content: a message holds 1048577 bytes"),
        (parts(head_with(profile=None)), INVALID, "header.profile: missing"),
        (parts(head_with(grants=None)), INVALID, "header.grants"),
        (parts(head_with(id="../x")), INVALID, "header.id: '../x'"),
        (parts(head_with(id="\u0430da")), INVALID, "header.id: '\\u0430da'"),
        (parts(head_with(emotion_bank="none")), INVALID, "'none'"),
        (parts(header("bob", uses=("all",))), INVALID, "'all'"),
        (parts(header("bob"), PORTRAIT), INVALID, "voice"),
        (parts(header("bob"), VOICE), INVALID, "portrait"),
        (parts(header("bob"), PORTRAIT, VOICE, *[VOICE + bytes([n]) for n in range(15)]), INVALID, "17 files"),
        (parts(header("bob"), PORTRAIT, VOICE, b"no picture"), INVALID, "begins with b'no picture'"),
        (
            declaring(kind=0),
            INVALID,
            "header.references[1].kind: 0 is no kind of file; use one of: REFERENCE_KIND",
        ),
        (declaring(size_bytes=0), INVALID, "header.references[1]: the voice is empty (0 bytes)"),
        (declaring(size_bytes=16 * MIB + 1), INVALID, "the voice has 16777217 bytes; send at most 16777216 (16 MiB)"),
        (declaring(digest="0" * 64), INVALID, f"its SHA-256 is {hashlib.sha256(VOICE).hexdigest()}, and 0000"),
        ([declaring(digest="9\n" * 20_000)[0]], INVALID, "header.references[1].digest: '9\\n9\\n"),
        (parts(header("ada")), grpc.StatusCode.ALREADY_EXISTS, "'ada'"),
    ],
)
async def test_a_wrong_addition_is_refused_with_the_reason_and_nothing_is_kept(
    stubs: Stubs, store: FakeStore, requests: list[pb.AddIdentityRequest], code: grpc.StatusCode, text: str
) -> None:
    await stubs.add(parts(header("ada")))
    before = dict(store.objects)
    with refused(code, text):
        await stubs.add(requests)
    assert store.objects == before


async def test_pieces_need_not_end_where_files_do(stubs: Stubs) -> None:
    whole = PORTRAIT + VOICE + FILM
    pieces = [whole[at : at + 99_991] for at in range(0, len(whole), 99_991)]
    added = await stubs.add(parts(header(), PORTRAIT, VOICE, FILM, pieced=pieces))
    digests = [hashlib.sha256(file).hexdigest() for file in (PORTRAIT, VOICE, FILM)]
    assert [reference.digest for reference in added.references] == digests


async def test_a_film_of_500_mb_is_refused_before_a_byte_of_it_is_sent(stubs: Stubs, store: FakeStore) -> None:
    head = parts(header())[0].header
    head.references.add(kind=pb.REFERENCE_KIND_FILM, size_bytes=500_000_000)
    call = stubs.identities.AddIdentity(timeout=PATIENCE_S)
    await call.write(pb.AddIdentityRequest(header=head))  # And nothing more, nor an end.
    with refused(INVALID, "header.references[2]: the film has 500000000 bytes; send at most 67108864 (64 MiB)"):
        await call
    assert not store.objects


async def test_an_upload_that_breaks_off_leaves_nothing_and_gives_its_room_back(store: FakeStore) -> None:
    async with serving(memory_over(store)) as stubs:
        for _ in range(6):  # All of them together had no room.
            call = stubs.identities.AddIdentity()
            sizes = [16 * MIB, 16 * MIB, *[MIB * 12] * 8]
            head = header()
            kinds = [pb.REFERENCE_KIND_PORTRAIT, *[pb.REFERENCE_KIND_VOICE] * 9]
            head.references.extend(
                pb.NewReference(kind=kind, size_bytes=size) for kind, size in zip(kinds, sizes, strict=True)
            )
            await call.write(pb.AddIdentityRequest(header=head))
            await call.write(pb.AddIdentityRequest(content=PORTRAIT[:MIB]))
            call.cancel()
        await stubs.add(parts(header()))


def test_more_uploads_than_there_is_room_for_are_told_to_come_again() -> None:
    uploads = Transfers(100)
    with uploads.room([Declared("a", 60)]):
        problem = "60 bytes of files are on their way, and 41 more are too many; retry in 1 s"
        with pytest.raises(Overloaded, match=problem), uploads.room([Declared("b", 41)]):
            pass
        with uploads.room([Declared("c", 40)]):
            pass
    with uploads.room([Declared("d", 100)]):
        pass


async def test_every_rpc_refuses_a_call_without_a_tenant_and_says_what_to_send(stubs: Stubs) -> None:
    asked = 0
    for module in (memory_pb2, identities_pb2, erasure_pb2, exemplars_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            assert service.full_name in SERVICES
            for method in service.methods:
                if method.name == "GetStore":
                    continue
                request = getattr(module, method.input_type.name)()
                if method.client_streaming:
                    request.header.SetInParent()
                stub = {
                    "MemoryService": stubs.memory,
                    "IdentityService": stubs.identities,
                    "ErasureService": stubs.erasure,
                    "ExemplarService": stubs.exemplars,
                }[service.name]
                asking = getattr(stub, method.name)
                field = "header.tenant" if method.client_streaming else "tenant"
                with refused(INVALID, f"{field}: '' is not a name; use 1 to 63 lower-case letters a-z"):
                    if method.client_streaming:
                        await clients.ask(asking(), each([request]))
                    elif method.server_streaming:
                        await asking(request).read()
                    else:
                        await asking(request)
                asked += 1
    assert asked >= 25


@pytest.mark.parametrize(
    ("name", "code"), [("bob", grpc.StatusCode.NOT_FOUND), ("A/..", INVALID), ("\u0430da", INVALID)]
)
async def test_every_rpc_refuses_an_unknown_identity_and_a_name_that_is_not_allowed(
    stubs: Stubs, name: str, code: grpc.StatusCode
) -> None:
    await stubs.add(parts(header("ada")))
    named = {"tenant": TENANT, "identity": name}
    digest = "0" * 64
    for call in (
        stubs.recall(name),
        stubs.memory.Search(memory_pb2.SearchRequest(**named, person="bob", text="hello")),  # type: ignore[arg-type]
        stubs.memory.Remember(memory_pb2.RememberRequest(**named, conversation="talk", turn=turn(1))),
        stubs.memory.ListTurns(memory_pb2.ListTurnsRequest(**named, conversation="talk")),  # type: ignore[arg-type]
        stubs.memory.GetClip(
            memory_pb2.GetClipRequest(**named, conversation="talk", turn="t", kind=memory_pb2.CLIP_KIND_SPEECH)
        ).read(),
        stubs.identities.GetIdentity(pb.GetIdentityRequest(**named)),  # type: ignore[arg-type]
        stubs.identities.GetReference(pb.GetReferenceRequest(**named, digest=digest)).read(),
        stubs.identities.GetDerived(
            pb.GetDerivedRequest(**named, reference_digests=[digest], model_digest=digest)
        ).read(),
        stubs.identities.ListEmotionReferences(pb.ListEmotionReferencesRequest(**named)),
        stubs.identities.ExportIdentity(pb.ExportIdentityRequest(**named)).read(),
        stubs.change(pb.ChangeIdentityHeader(tenant=TENANT, id=name, if_version=1)),
        stubs.erasure.EraseIdentity(erasure_pb2.EraseIdentityRequest(**named, asked_by="me")),
        stubs.exemplars.ListExemplars(exemplars_pb2.ListExemplarsRequest(**named)),  # type: ignore[arg-type]
    ):
        shown = name if code is grpc.StatusCode.NOT_FOUND else ascii(name)[1:-1]
        with refused(code, shown):
            await call
