"""What `orchestrator.proto` promises beside turns: the status of all services, and the identities."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import cast as typed

import grpc
import pytest

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from services.common.errors import BackendFailed
from tests.deployment import ALL_USES, PORTRAIT, VOICE, Cast, Deployment
from tests.fakes import fail
from tests.samples import png
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

WHEEL = emotions.load()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def cast() -> Cast:
    cast = Cast()
    cast.add_identity("ada")
    return cast


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    running = Deployment()
    yield running
    await running.stop_all()


async def start(deployment: Deployment, cast: Cast) -> "Stub":
    await deployment.start(cast)
    channel = deployment.served["orchestrator"].channel
    return typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))


@pytest.fixture
async def stub(deployment: Deployment, cast: Cast) -> "Stub":
    return await start(deployment, cast)


# GetStatus


async def test_every_service_is_told_the_orchestrator_first(stub: "Stub", deployment: Deployment) -> None:
    services = (await stub.GetStatus(pb.GetStatusRequest())).services
    names = ["orchestrator", "understanding", "mllm text", "mllm face", "mllm lead", "memory", "tts", "video"]
    assert [service.name for service in services] == names
    assert all(service.ready and not service.problem for service in services)
    assert {service.card.ontology_hash for service in services} == {WHEEL.digest}
    found = {service.name: service for service in services}
    assert found["tts"].card.model == "fake voice"
    assert found["mllm lead"].card.prompt_version == "prompt-1"
    for name in ("understanding", "memory", "tts", "video"):
        assert found[name].address == deployment.served[name].address


async def test_a_service_that_is_gone_is_told_with_the_reason(stub: "Stub", deployment: Deployment) -> None:
    for name in ("tts", "mllm face"):
        await deployment.stop(name)
    found = {service.name: service for service in (await stub.GetStatus(pb.GetStatusRequest())).services}
    assert {name for name, service in found.items() if not service.ready} == {"tts", "mllm face"}
    assert found["tts"].problem.startswith("tts: ")
    assert found["mllm face"].problem.startswith("mllm face: ")
    assert found["tts"].address == deployment.served["tts"].address


async def test_without_the_panel_its_voters_cannot_be_told(stub: "Stub", deployment: Deployment) -> None:
    await deployment.stop("understanding")
    services = (await stub.GetStatus(pb.GetStatusRequest())).services
    assert [service.name for service in services] == ["orchestrator", "understanding", "memory", "tts", "video"]
    assert services[1].problem.startswith("understanding: ")


@pytest.mark.parametrize("service", ["understanding", "mllm face", "memory", "tts", "video"])
async def test_a_service_with_another_wheel_is_not_ready(deployment: Deployment, cast: Cast, service: str) -> None:
    cast.wheels = {service: replace(WHEEL, digest="0" * 64)}
    stub = await start(deployment, cast)
    found = {one.name: one for one in (await stub.GetStatus(pb.GetStatusRequest())).services}
    assert not found[service].ready
    assert "000000000000" in found[service].problem
    assert found["orchestrator"].ready


# Identities


def header(name: str = "eve", language: str = "en", **consent: object) -> pb.AddIdentityRequest:
    fields: dict[str, object] = {"granted_by": "the test", "granted_on": "2026-01-31", "uses": ALL_USES}
    return pb.AddIdentityRequest(
        header=memory.AddIdentityHeader(
            id=name,
            profile=common.Profile(name="Eve", age="elderly", gender="female", timbre="low", language=language),
            consent=memory.Consent(**(fields | consent)),  # type: ignore[arg-type]
        )
    )


def portrait(content: bytes = PORTRAIT) -> pb.AddIdentityRequest:
    return pb.AddIdentityRequest(portrait=content)


def voice(content: bytes = VOICE) -> pb.AddIdentityRequest:
    return pb.AddIdentityRequest(voice=content)


async def add(stub: "Stub", *parts: pb.AddIdentityRequest) -> memory.Identity:
    return (await stub.AddIdentity(iter(sized(parts)), timeout=20)).identity


def sized(parts: Sequence[pb.AddIdentityRequest]) -> list[pb.AddIdentityRequest]:
    """Declares in the header what follows."""
    whole = [pb.AddIdentityRequest.FromString(part.SerializeToString()) for part in parts]
    for part in whole:
        if part.HasField("header"):
            part.header.portrait_size_bytes = sum(len(part.portrait) for part in parts)
            part.header.voice_size_bytes = sum(len(part.voice) for part in parts)
    return whole


async def test_an_identity_is_added_listed_read_answers_and_is_removed(stub: "Stub", cast: Cast) -> None:
    added = await add(
        stub, header(), portrait(PORTRAIT[:50]), portrait(PORTRAIT[50:]), voice(VOICE[:9]), voice(VOICE[9:])
    )
    assert (added.id, added.profile.age, tuple(added.consent.uses)) == ("eve", "elderly", tuple(sorted(ALL_USES)))
    assert (added.portrait.size_bytes, added.voice.size_bytes) == (len(PORTRAIT), len(VOICE))
    assert (await stub.GetIdentity(pb.GetIdentityRequest(identity="eve"))).identity == added
    listed = (await stub.ListIdentities(pb.ListIdentitiesRequest())).identities
    assert [identity.id for identity in listed] == ["ada", "eve"]
    request = pb.RespondRequest(header=pb.RespondHeader(text="Hello.", identity="eve", conversation="talk"))
    events = [event async for event in stub.Respond(iter([request]), timeout=20)]
    assert events[-1].done.turn
    # Its record, two references, the fitted voice, a turn and that turn's id.
    assert (await stub.RemoveIdentity(pb.RemoveIdentityRequest(identity="eve"))).objects == 6
    assert not [key for key in cast.store.objects if "eve" in key]
    with refused(grpc.StatusCode.NOT_FOUND, "'eve' is unknown"):
        await stub.GetIdentity(pb.GetIdentityRequest(identity="eve"))


async def test_references_are_read_once_and_not_kept_when_their_identity_is_removed(
    stub: "Stub", calls: CallLog
) -> None:
    for turns, reads in ((2, 2), (1, 4)):
        await add(stub, header(), portrait(), voice())
        for _ in range(turns):
            request = pb.RespondRequest(header=pb.RespondHeader(text="Hello.", identity="eve"))
            assert [event async for event in stub.Respond(iter([request]), timeout=20)]
        assert sum(call.method == "GetReference" for call in calls.calls) == reads
        await stub.RemoveIdentity(pb.RemoveIdentityRequest(identity="eve"))


async def test_an_unknown_identity_is_not_found(stub: "Stub") -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "identity 'bob' is unknown"):
        await stub.GetIdentity(pb.GetIdentityRequest(identity="bob"))
    with refused(grpc.StatusCode.NOT_FOUND, "identity 'bob' is unknown"):
        await stub.RemoveIdentity(pb.RemoveIdentityRequest(identity="bob"))


SILENT = VOICE[:44] + bytes(len(VOICE) - 44)


@pytest.mark.parametrize(
    ("parts", "code", "text"),
    [
        ([], INVALID, "header: missing; send it first"),
        ([portrait(), header(), voice()], INVALID, "header: missing"),
        ([header(), header(), portrait(), voice()], INVALID, "part: header is out of order"),
        ([header(), portrait(), voice(), pb.AddIdentityRequest()], INVALID, "part: nothing is out of order"),
        ([header(), voice()], INVALID, "portrait: missing; send a PNG or JPEG of one face"),
        ([header(), portrait()], INVALID, "voice: missing; send a WAV file of the voice"),
        ([header(), portrait(b"GIF89a"), voice()], INVALID, "portrait: 6 bytes that are no JPEG or PNG"),
        ([header(), portrait(png(colour=(0, 0, 0))), voice()], INVALID, "portrait: no face in it"),
        ([header(), portrait(), voice(b"an mp3")], INVALID, "voice: not a PCM WAV file"),
        ([header(), portrait(), voice(SILENT)], INVALID, "voice: it is silent"),
        ([header(), portrait(bytes(MIB + 1)), voice()], INVALID, "portrait: a message holds 1048577 bytes"),
        ([header(), *[voice(bytes(MIB))] * 17], INVALID, "voice: more than 16777216 bytes"),
        ([header("No Name"), portrait(), voice()], INVALID, "header.id: 'No Name' is not a name"),
        ([header(uses=["all"]), portrait(), voice()], INVALID, "header.consent.uses: 'all' is unknown"),
        ([header(granted_by=""), portrait(), voice()], INVALID, "header.consent.granted_by"),
        ([header(language="es"), portrait(), voice()], INVALID, "header.profile.language: 'es' is not spoken by the"),
        ([header("ada"), portrait(), voice()], grpc.StatusCode.ALREADY_EXISTS, "identity 'ada' exists"),
    ],
)
async def test_what_cannot_be_an_identity_is_refused_and_nothing_is_kept(
    stub: "Stub", cast: Cast, parts: list[pb.AddIdentityRequest], code: grpc.StatusCode, text: str
) -> None:
    before = dict(cast.store.objects)
    with refused(code, text):
        await add(stub, *parts)
    assert cast.store.objects == before


@pytest.mark.parametrize("checker", ["tts", "video"])
async def test_nothing_is_kept_that_face_and_voice_have_not_checked(
    stub: "Stub", cast: Cast, deployment: Deployment, checker: str
) -> None:
    before = dict(cast.store.objects)
    await deployment.stop(checker)
    with refused(grpc.StatusCode.UNAVAILABLE, f"{checker}: "):
        await add(stub, header(), portrait(), voice())
    assert cast.store.objects == before


async def test_a_check_that_fails_keeps_nothing(stub: "Stub", cast: Cast) -> None:
    before = dict(cast.store.objects)
    cast.voice.before = fail(BackendFailed("secret"))
    with refused(grpc.StatusCode.INTERNAL, "internal error"):
        await add(stub, header(), portrait(), voice())
    assert cast.store.objects == before


async def test_the_trace_goes_on_to_every_service_that_checks(stub: "Stub", calls: CallLog) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    metadata = (("traceparent", f"00-{trace_id}-b7ad6b7169203331-01"),)
    await stub.AddIdentity(iter(sized([header(), portrait(), voice()])), timeout=20, metadata=metadata)
    assert [call.method for call in calls.calls] == [
        "GetModel",
        "CheckPortrait",
        "CheckVoice",
        "AddIdentity",
        "AddIdentity",
    ]
    assert {call.trace_id for call in calls.calls} == {trace_id}


async def test_without_the_memory_it_is_named(stub: "Stub", deployment: Deployment) -> None:
    await deployment.stop("memory")
    failures = await asyncio.gather(
        stub.ListIdentities(pb.ListIdentitiesRequest()),
        stub.GetIdentity(pb.GetIdentityRequest(identity="ada")),
        stub.RemoveIdentity(pb.RemoveIdentityRequest(identity="ada")),
        return_exceptions=True,
    )
    for failure in failures:
        assert isinstance(failure, grpc.aio.AioRpcError)
        assert failure.code() is grpc.StatusCode.UNAVAILABLE
        assert (failure.details() or "").startswith("memory: ")


async def test_an_identity_whose_references_came_in_part_is_refused_and_not_kept(stub: "Stub") -> None:
    whole = sized([header(), portrait(), voice()])
    cut = [whole[0], whole[1], voice(VOICE[: len(VOICE) // 2])]
    with refused(INVALID, f"voice: {len(VOICE) // 2} of {len(VOICE)} bytes came"):
        await stub.AddIdentity(iter(cut), timeout=20)
    assert "eve" not in {one.id for one in (await stub.ListIdentities(pb.ListIdentitiesRequest())).identities}
