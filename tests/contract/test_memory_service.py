"""Every promise of `memory.proto`, over a real channel."""

import asyncio
import hashlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as pb
from e3rg.memory.v1 import memory_pb2_grpc
from services.common import backends, clients, server
from services.common.errors import NotReady
from services.common.inference import InferenceQueue
from services.memory.backends.s3 import S3Backend
from services.memory.memory import Memory
from services.memory.opening import Opening
from services.memory.ready import ready_identities
from services.memory.servicer import MemoryServicer
from services.memory.store import Store, content_of
from tests.fake_store import FakeStore
from tests.fakes import Gate, fail, go_on
from tests.s3_proxy import S3Proxy, Stalling
from tests.s3_server import S3Server
from tests.s3_server import environment as s3_environment
from tests.serving import refused

ROOT = Path(__file__).parents[2]
MIB = 2**20
PORTRAIT = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10_000  # 2.4 MiB: three messages
VOICE = b"RIFF\x00\x00\x00\x00WAVE" + b"voice" * 1000

if TYPE_CHECKING:  # The generated types have it, the generated code has not.
    from e3rg.memory.v1.memory_pb2_grpc import MemoryServiceAsyncStub as Stub


def header(
    name: str = "ada", uses: tuple[str, ...] = ("animate_face", "clone_voice", "keep_turns")
) -> pb.AddIdentityHeader:
    return pb.AddIdentityHeader(
        id=name,
        profile=common.Profile(
            name="Ada", age="young", gender="female", timbre="mid", language="en", about="Likes engines."
        ),
        consent=pb.Consent(granted_by="the test", granted_on="2026-01-31", uses=uses),
    )


def pieces(content: bytes) -> Iterator[bytes]:
    return (content[at : at + MIB] for at in range(0, len(content), MIB))


def parts(head: pb.AddIdentityHeader, portrait: bytes = PORTRAIT, voice: bytes = VOICE) -> list[pb.AddIdentityRequest]:
    sized = pb.AddIdentityHeader()
    sized.CopyFrom(head)
    sized.portrait_size_bytes, sized.voice_size_bytes = len(portrait), len(voice)
    return [
        pb.AddIdentityRequest(header=sized),
        *(pb.AddIdentityRequest(portrait=piece) for piece in pieces(portrait)),
        *(pb.AddIdentityRequest(voice=piece) for piece in pieces(voice)),
    ]


def turn(number: int) -> pb.Turn:
    return pb.Turn(
        id=f"turn-{number}", user_text=f"q {number}", user_emotion="sad", reply_text="a", reply_emotion="caring"
    )


async def add(stub: "Stub", requests: list[pb.AddIdentityRequest]) -> pb.AddIdentityResponse:
    async def each() -> AsyncIterator[pb.AddIdentityRequest]:
        for request in requests:
            yield request

    return await clients.ask(stub.AddIdentity(), each())


def open_stub(channel: grpc.aio.Channel) -> "Stub":
    return cast("Stub", memory_pb2_grpc.MemoryServiceStub(channel))


def held(store: Store) -> dict[str, bytes | None]:
    return {entry.key: content_of(store.get(entry.key)) for entry in store.list("")}


@pytest.fixture(params=["fake", "s3"])
def store(request: pytest.FixtureRequest) -> Store:
    return FakeStore() if request.param == "fake" else cast("Store", request.getfixturevalue("s3_store"))


@pytest.fixture
async def stub(store: Store) -> AsyncIterator["Stub"]:
    async with serving(Memory(store)) as stub:
        yield stub


@asynccontextmanager
async def serving(memory: Memory, opening: Opening | None = None) -> AsyncIterator["Stub"]:
    queue = InferenceQueue("memory", "fake", waiting_max=8, workers=4)
    servicer = MemoryServicer("fake", memory, queue, emotions.load(), opening)
    async with (
        server.running(
            "e3rg.memory.v1.MemoryService",
            "memory",
            lambda grpc_server: memory_pb2_grpc.add_MemoryServiceServicer_to_server(servicer, grpc_server),
            host="127.0.0.1",
            port=0,
            grace_s=1,
        ) as running,
        clients.open_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        yield open_stub(channel)
    queue.close()


async def test_the_store_says_which_it_is_and_which_wheel_it_uses(stub: "Stub") -> None:
    card = (await stub.GetStore(pb.GetStoreRequest())).card
    assert (card.backend, card.model, card.ontology_hash) == ("fake", "", emotions.load().digest)


async def test_an_identity_is_added_listed_read_and_its_references_come_back_in_pieces(stub: "Stub") -> None:
    added = (await add(stub, parts(header()))).identity
    assert added.profile == header().profile
    assert added.consent == header().consent
    assert added.emotion_bank == "default"
    assert added.portrait == pb.Reference(digest=hashlib.sha256(PORTRAIT).hexdigest(), size_bytes=len(PORTRAIT))
    assert (await stub.GetIdentity(pb.GetIdentityRequest(identity="ada"))).identity == added
    await add(stub, parts(header("abe")))
    listed = (await stub.ListIdentities(pb.ListIdentitiesRequest())).identities
    assert [identity.id for identity in listed] == ["abe", "ada"]
    for kind, content in ((pb.REFERENCE_KIND_PORTRAIT, PORTRAIT), (pb.REFERENCE_KIND_VOICE, VOICE)):
        got = [piece.content async for piece in stub.GetReference(pb.GetReferenceRequest(identity="ada", kind=kind))]
        assert b"".join(got) == content
        assert max(map(len, got)) <= MIB


def derived(**changes: object) -> pb.PutDerivedRequest:
    request = pb.PutDerivedRequest(
        identity="ada",
        kind=pb.REFERENCE_KIND_VOICE,
        reference_digest=hashlib.sha256(VOICE).hexdigest(),
        model_digest="a" * 64,
        content=b"a fitted voice",
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def wanted(put: pb.PutDerivedRequest) -> pb.GetDerivedRequest:
    return pb.GetDerivedRequest(
        identity=put.identity, kind=put.kind, reference_digest=put.reference_digest, model_digest=put.model_digest
    )


async def test_what_a_model_derived_is_kept_under_its_digest_until_the_identity_goes(
    stub: "Stub", store: Store
) -> None:
    await add(stub, parts(header()))
    for content in (b"first", b"second"):
        await stub.PutDerived(derived(content=content))
    await stub.PutDerived(derived(model_digest="b" * 64, content=b"of another model"))
    assert (await stub.GetDerived(wanted(derived()))).content == b"second"
    assert (await stub.GetDerived(wanted(derived(model_digest="b" * 64)))).content == b"of another model"
    with refused(grpc.StatusCode.NOT_FOUND, "identity 'ada': model cccccccccccc derived nothing from that voice"):
        await stub.GetDerived(wanted(derived(model_digest="c" * 64)))
    await stub.RemoveIdentity(pb.RemoveIdentityRequest(identity="ada"))
    assert store.list("") == ()


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (derived(kind=pb.REFERENCE_KIND_UNSPECIFIED), "kind: 0 is no reference"),
        (derived(model_digest="../secrets"), "model_digest: '../secrets' is not a SHA-256; send 64 digits 0-9 a-f"),
        (derived(reference_digest=""), "reference_digest: '' is not a SHA-256"),
        (derived(reference_digest="0" * 64), f"reference_digest: {'0' * 64} is not that of the voice of 'ada'; it is"),
        (derived(content=b""), "content: 0 bytes; send 1 to 1048576"),
        (derived(content=bytes(MIB + 1)), "content: 1048577 bytes; send 1 to 1048576"),
    ],
)
async def test_what_cannot_be_kept_of_a_model_is_refused_with_the_field(
    stub: "Stub", request_: pb.PutDerivedRequest, text: str, store: Store
) -> None:
    await add(stub, parts(header()))
    before = store.list("")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
        await stub.PutDerived(request_)
    assert store.list("") == before


@pytest.mark.parametrize(
    ("allowed", "kind", "lacking"),
    [
        ("animate_face", pb.REFERENCE_KIND_VOICE, "clone_voice"),
        ("clone_voice", pb.REFERENCE_KIND_PORTRAIT, "animate_face"),
    ],
)
async def test_a_reference_whose_use_is_not_allowed_is_not_lent_and_nothing_is_derived_from_it(
    stub: "Stub", allowed: str, kind: pb.ReferenceKind, lacking: str
) -> None:
    await add(stub, parts(header(uses=(allowed,))))
    reference = PORTRAIT if kind == pb.REFERENCE_KIND_PORTRAIT else VOICE
    put = derived(kind=kind, reference_digest=hashlib.sha256(reference).hexdigest())
    with refused(grpc.StatusCode.FAILED_PRECONDITION, f"for identity 'ada' does not include {lacking}"):
        [piece async for piece in stub.GetReference(pb.GetReferenceRequest(identity="ada", kind=kind))]
    with refused(grpc.StatusCode.FAILED_PRECONDITION, f"for identity 'ada' does not include {lacking}"):
        await stub.PutDerived(put)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, f"for identity 'ada' does not include {lacking}"):
        await stub.GetDerived(wanted(put))


async def test_a_damaged_fitted_voice_is_never_served(stub: "Stub", store: Store) -> None:
    await add(stub, parts(header()))
    await stub.PutDerived(derived())
    (key,) = [key for key in held(store) if "/derived/" in key]
    store.put(key, (held(store)[key] or b"")[:-1])
    with refused(grpc.StatusCode.INTERNAL, f"stored object {key!r} is damaged"):
        await stub.GetDerived(wanted(derived()))


async def test_turns_are_remembered_once_and_recalled_in_order(stub: "Stub") -> None:
    await add(stub, parts(header()))
    for number in (1, 2, 3, 4, 5, 6, 2):
        await stub.Remember(pb.RememberRequest(identity="ada", conversation="talk", turn=turn(number)))
    recalled = await stub.Recall(pb.RecallRequest(identity="ada", conversation="talk"))
    assert list(recalled.turns) == [turn(3), turn(4), turn(5), turn(6)]
    assert recalled.identity.id == "ada"
    assert recalled.emotion_bank.name == "default"
    assert tuple(recalled.emotion_bank.face_classes) == emotions.load().classes
    assert tuple(recalled.emotion_bank.voice_styles) == emotions.load().styles
    for turns_max, count in ((0, 0), (1, 1), (4_000_000_000, 6)):
        request = pb.RecallRequest(identity="ada", conversation="talk", turns_max=turns_max)
        assert len((await stub.Recall(request)).turns) == count
    assert not (await stub.Recall(pb.RecallRequest(identity="ada"))).turns


async def test_a_removed_identity_is_gone_with_all_its_objects(stub: "Stub", store: Store) -> None:
    await add(stub, parts(header()))
    await stub.Remember(pb.RememberRequest(identity="ada", conversation="talk", turn=turn(1)))
    count = len(store.list(""))
    assert (await stub.RemoveIdentity(pb.RemoveIdentityRequest(identity="ada"))).objects == count == 5
    assert store.list("") == ()
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await stub.Recall(pb.RecallRequest(identity="ada", conversation="talk"))
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND


def head_with(**changes: object) -> pb.AddIdentityHeader:
    changed = header("bob")
    for field in changes:
        changed.ClearField(field)
    changed.MergeFrom(pb.AddIdentityHeader(**{name: value for name, value in changes.items() if value}))  # type: ignore[arg-type]
    return changed


BOB = parts(header("bob"))


@pytest.mark.parametrize(
    ("requests", "code", "text"),
    [
        ([], grpc.StatusCode.INVALID_ARGUMENT, "header: missing"),
        (BOB[1:2], grpc.StatusCode.INVALID_ARGUMENT, "part: portrait is out of order"),
        (BOB[:-1], grpc.StatusCode.INVALID_ARGUMENT, "voice: 0 of 5012 bytes came"),
        ([BOB[0], *BOB[2:]], grpc.StatusCode.INVALID_ARGUMENT, "portrait: 1511432 of 2560008 bytes came"),
        ([BOB[0], BOB[0]], grpc.StatusCode.INVALID_ARGUMENT, "part: header is out of order"),
        ([*BOB, pb.AddIdentityRequest()], grpc.StatusCode.INVALID_ARGUMENT, "part: nothing is out of order"),
        (parts(head_with(profile=None)), grpc.StatusCode.INVALID_ARGUMENT, "header.profile: missing"),
        (parts(head_with(consent=None)), grpc.StatusCode.INVALID_ARGUMENT, "header.consent: missing"),
        (parts(head_with(id="../x")), grpc.StatusCode.INVALID_ARGUMENT, "header.id: '../x'"),
        (parts(head_with(emotion_bank="none")), grpc.StatusCode.INVALID_ARGUMENT, "header.emotion_bank: 'none'"),
        (parts(header("bob", uses=("all",))), grpc.StatusCode.INVALID_ARGUMENT, "header.consent.uses: 'all'"),
        (parts(header("bob"), portrait=b""), grpc.StatusCode.INVALID_ARGUMENT, "portrait: it is missing"),
        (parts(header("bob"), voice=b""), grpc.StatusCode.INVALID_ARGUMENT, "voice: it is missing"),
        (parts(header("bob"), portrait=VOICE), grpc.StatusCode.INVALID_ARGUMENT, "portrait: its 5012 bytes begin"),
        (parts(header("bob"), voice=VOICE + b"\0" * 16 * MIB), grpc.StatusCode.INVALID_ARGUMENT, "voice: more than"),
        (
            [BOB[0], pb.AddIdentityRequest(voice=b"\0" * (MIB + 1))],
            grpc.StatusCode.INVALID_ARGUMENT,
            "voice: a message holds 1048577 bytes",
        ),
        (parts(header("ada")), grpc.StatusCode.ALREADY_EXISTS, "identity 'ada' exists"),
    ],
)
async def test_a_wrong_addition_is_refused_with_the_reason_and_nothing_is_kept(
    stub: "Stub", store: Store, requests: list[pb.AddIdentityRequest], code: grpc.StatusCode, text: str
) -> None:
    await add(stub, parts(header("ada")))
    objects = held(store)
    with pytest.raises(grpc.aio.AioRpcError, match=re.escape(text)) as failure:
        await add(stub, requests)
    assert failure.value.code() is code
    assert held(store) == objects


@pytest.mark.parametrize(
    ("name", "code"), [("bob", grpc.StatusCode.NOT_FOUND), ("A/..", grpc.StatusCode.INVALID_ARGUMENT)]
)
async def test_every_rpc_refuses_an_unknown_identity_and_a_name_that_is_not_allowed(
    stub: "Stub", name: str, code: grpc.StatusCode
) -> None:
    await add(stub, parts(header("ada")))
    kind = pb.REFERENCE_KIND_VOICE
    for call in (
        stub.Recall(pb.RecallRequest(identity=name, conversation="talk")),
        stub.GetReference(pb.GetReferenceRequest(identity=name, kind=kind)).read(),
        stub.Remember(pb.RememberRequest(identity=name, conversation="talk", turn=turn(1))),
        stub.GetIdentity(pb.GetIdentityRequest(identity=name)),
        stub.RemoveIdentity(pb.RemoveIdentityRequest(identity=name)),
    ):
        with pytest.raises(grpc.aio.AioRpcError, match=re.escape(f"{name!r}")) as failure:
            await call
        assert failure.value.code() is code


async def test_a_reference_of_no_kind_is_refused(stub: "Stub") -> None:
    await add(stub, parts(header()))
    with pytest.raises(grpc.aio.AioRpcError, match="kind: 0 is no reference") as failure:
        await stub.GetReference(pb.GetReferenceRequest(identity="ada")).read()
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT


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
    ],
)
async def test_a_wrong_turn_is_refused_with_the_field(
    stub: "Stub", store: Store, field: str, conversation: str, changes: dict[str, str]
) -> None:
    await add(stub, parts(header()))
    broken = turn(1)
    for name, value in changes.items():
        setattr(broken, name, value)
    with pytest.raises(grpc.aio.AioRpcError, match=f"{field}: ") as failure:
        await stub.Remember(pb.RememberRequest(identity="ada", conversation=conversation, turn=broken))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(store.list("")) == 3


async def test_without_the_permission_a_turn_is_refused_and_the_permission_named(stub: "Stub") -> None:
    await add(stub, parts(header(uses=("animate_face",))))
    with pytest.raises(grpc.aio.AioRpcError, match="keep_turns") as failure:
        await stub.Remember(pb.RememberRequest(identity="ada", conversation="talk", turn=turn(1)))
    assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_damaged_object_is_an_internal_error_that_names_it(stub: "Stub", store: Store) -> None:
    digest = (await add(stub, parts(header()))).identity.voice.digest
    (key,) = (key for key in held(store) if key.endswith(digest))
    store.put(key, VOICE + b"!")
    with pytest.raises(grpc.aio.AioRpcError, match=re.escape(key)) as failure:
        await stub.GetReference(pb.GetReferenceRequest(identity="ada", kind=pb.REFERENCE_KIND_VOICE)).read()
    assert failure.value.code() is grpc.StatusCode.INTERNAL


async def test_a_store_that_is_away_is_unavailable_and_the_service_goes_on_when_it_is_back() -> None:
    store = FakeStore()
    async with serving(Memory(store)) as stub:
        store.before = fail(NotReady("the store is away; retry"))
        with refused(grpc.StatusCode.UNAVAILABLE, "the store is away"):
            await stub.ListIdentities(pb.ListIdentitiesRequest())
        store.before = go_on
        assert not (await stub.ListIdentities(pb.ListIdentitiesRequest())).identities


async def test_until_the_store_is_open_every_call_is_refused_with_the_reason() -> None:
    store = FakeStore()
    memory, queue = Memory(store), InferenceQueue("memory", "fake", waiting_max=8)
    opening = Opening(store, memory, queue)
    gate = Gate("check")
    store.before = gate
    async with serving(memory, opening) as stub:
        task = asyncio.create_task(opening.run())
        await gate.reached()
        for call in (
            stub.GetStore(pb.GetStoreRequest()),
            stub.ListIdentities(pb.ListIdentitiesRequest()),
            stub.Recall(pb.RecallRequest(identity="ada")),
        ):
            with refused(grpc.StatusCode.UNAVAILABLE, "is being opened; retry"):
                await call
        gate.open()
        await task
        assert (await stub.GetStore(pb.GetStoreRequest())).card.backend == "fake"
    queue.close()


@asynccontextmanager
async def process_of(
    variables: Mapping[str, str],
) -> AsyncIterator[tuple[grpc.aio.Channel, asyncio.subprocess.Process]]:
    """The service in a process of its own, once it listens; then it is told to stop, which it must do in peace."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protos" / "gen")]),
        "E3RG_MEMORY_HOST": "127.0.0.1",
        "E3RG_MEMORY_PORT": "0",
        "E3RG_MEMORY_METRICS_PORT": "0",
        **variables,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.memory", stderr=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stderr
    try:
        while not (listening := re.search(rb'"port": (\d+)', line := await process.stderr.readline())):
            assert line, "the process ended before it listened"
        async with grpc.aio.insecure_channel(f"127.0.0.1:{int(listening[1])}") as channel:
            yield channel, process
        process.send_signal(signal.SIGTERM)
        await process.stderr.read()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def green(channel: grpc.aio.Channel) -> None:
    """Returns when the service is ready."""
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=server.READINESS))
    async for light in watch:
        if light.status == health_pb2.HealthCheckResponse.SERVING:
            break
    watch.cancel()


@pytest.mark.parametrize("backend", backends.names("services.memory.backends"))
async def test_the_process_seeds_its_store_serves_and_ends_on_sigterm(
    request: pytest.FixtureRequest, tmp_path: Path, backend: str
) -> None:
    variables = {"E3RG_MEMORY_BACKEND": backend, "E3RG_MEMORY_FOLDER": str(tmp_path / "memory")}
    if backend == "s3":
        request.getfixturevalue("s3_store")
        variables |= s3_environment(request.getfixturevalue("s3_server").endpoint)
    async with process_of(variables) as (channel, _):
        await green(channel)
        stub = open_stub(channel)
        assert (await stub.GetStore(pb.GetStoreRequest())).card.backend == backend
        listed = await stub.ListIdentities(pb.ListIdentitiesRequest())
        assert [identity.id for identity in listed.identities] == [each.id for each in ready_identities()]


async def test_a_process_whose_store_is_away_starts_red_says_why_and_becomes_green_by_itself(
    s3_server: S3Server, s3_store: S3Backend
) -> None:
    proxy = S3Proxy(s3_server.port)
    proxy.down()
    try:
        variables = {"E3RG_MEMORY_BACKEND": "s3", **s3_environment(proxy.endpoint)}
        async with process_of(variables) as (channel, process):
            assert process.stderr
            while b'"not ready"' not in (line := await process.stderr.readline()):
                assert line, "the process ended"
            assert f"{proxy.endpoint} cannot be reached" in json.loads(line)["why"]
            lights = health_pb2_grpc.HealthStub(channel)
            light = await lights.Check(health_pb2.HealthCheckRequest(service=server.READINESS))
            assert light.status == health_pb2.HealthCheckResponse.NOT_SERVING
            stub = open_stub(channel)
            with refused(grpc.StatusCode.UNAVAILABLE, f"{proxy.endpoint} cannot be reached"):
                await stub.GetStore(pb.GetStoreRequest())
            proxy.up()
            await green(channel)
            assert len((await stub.ListIdentities(pb.ListIdentitiesRequest())).identities) == len(
                list(ready_identities())
            )
            proxy.down()
            with refused(grpc.StatusCode.UNAVAILABLE, f"{proxy.endpoint} cannot be reached"):
                await stub.ListIdentities(pb.ListIdentitiesRequest())
            proxy.up()
            proxy.answers = Stalling()
            with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
                await stub.ListIdentities(pb.ListIdentitiesRequest(), timeout=0.5)
    finally:
        proxy.close()


async def test_a_process_told_to_stop_while_its_store_is_away_stops() -> None:
    variables = {"E3RG_MEMORY_BACKEND": "s3", **s3_environment("127.0.0.1:1")}
    async with process_of(variables) as (_, process):
        assert process.stderr
        while b'"not ready"' not in (line := await process.stderr.readline()):
            assert line, "the process ended"
