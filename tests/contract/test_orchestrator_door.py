"""What the door serves beside turns: the status of all services, and the memory's own services, handed on."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from typing import cast as typed

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

import emotions
from client import command
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import identities_pb2_grpc, memory_pb2_grpc
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from orchestrator.memories import IN_TURNS, SERVICES, WITHIN
from services.common.errors import (
    AlreadyExists,
    BackendFailed,
    Conflict,
    Damaged,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    NotReady,
    Overloaded,
)
from tests.deployment import Cast, Deployment
from tests.fake_memory import FakeMemory
from tests.fakes import Gate, fail
from tests.serving import CallLog, refused
from tests.turns import header, respond

if TYPE_CHECKING:
    from e3rg.memory.v1.identities_pb2_grpc import IdentityServiceAsyncStub as Identities
    from e3rg.memory.v1.memory_pb2_grpc import MemoryServiceAsyncStub as Talks
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

WHEEL = emotions.load()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT


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
        assert found[name].address == "ipv4:" + deployment.served[name].address


async def test_a_service_that_is_gone_is_told_with_the_reason(stub: "Stub", deployment: Deployment) -> None:
    for name in ("tts", "mllm face"):
        await deployment.stop(name)
    found = {service.name: service for service in (await stub.GetStatus(pb.GetStatusRequest())).services}
    assert {name for name, service in found.items() if not service.ready} == {"tts", "mllm face"}
    assert found["tts"].problem.startswith("tts: ")
    assert found["mllm face"].problem.startswith("mllm face: ")
    assert found["tts"].address == "ipv4:" + deployment.served["tts"].address


async def test_a_problem_of_the_memorys_store_is_told_though_it_is_ready(
    stub: "Stub", cast: Cast, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    async def printed() -> tuple[int, str]:
        words = ["--address", deployment.served["orchestrator"].address, "status"]
        return await asyncio.to_thread(command.main, words), capsys.readouterr().out

    cast.memory.problem = "the memory's database cannot be reached"
    (found,) = [one for one in (await stub.GetStatus(pb.GetStatusRequest())).services if one.problem]
    assert (found.name, found.ready, found.problem) == ("memory", True, cast.memory.problem)
    status, lines = await printed()
    assert (status, f"memory                 ready      fake; {cast.memory.problem}\n" in lines) == (1, True)
    cast.memory.problem = ""
    status, lines = await printed()
    assert (status, "memory                 ready      fake\n" in lines) == (0, True)


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


# The memory's own services


class SlowMemory(FakeMemory):
    """Sends a clip's second piece, and reads a bank's second part, only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.began = asyncio.Event()

    async def GetClip(  # noqa: N802
        self, request: memory.GetClipRequest, context: Any
    ) -> AsyncIterator[memory.GetClipResponse]:
        yield memory.GetClipResponse(content=b"first")
        await self.go_on.wait()
        yield memory.GetClipResponse(content=b"second")

    async def PutEmotionReference(  # noqa: N802
        self, request_iterator: AsyncIterator[identities.PutEmotionReferenceRequest], context: Any
    ) -> identities.PutEmotionReferenceResponse:
        parts = aiter(request_iterator)
        name = (await anext(parts)).header.name
        self.began.set()
        content = b"".join([part.content async for part in parts])
        reference = identities.EmotionReference(name=name, size_bytes=len(content))
        return identities.PutEmotionReferenceResponse(reference=reference)


@pytest.fixture
def channel(stub: "Stub", deployment: Deployment) -> grpc.aio.Channel:
    return deployment.served["orchestrator"].channel


@pytest.fixture
def people(channel: grpc.aio.Channel) -> "Identities":
    return typed("Identities", identities_pb2_grpc.IdentityServiceStub(channel))


@pytest.fixture
def talks(channel: grpc.aio.Channel) -> "Talks":
    return typed("Talks", memory_pb2_grpc.MemoryServiceStub(channel))


WHO = identities.GetIdentityRequest(tenant="default", identity="ada")
METHODS = [(service, method) for service in SERVICES for method in service.methods]


def test_what_only_turns_do_is_for_the_services_within() -> None:
    assert {"Recall", "Remember", "PutClip", "PutTimings", "RaiseRisk", "GetDerived", "PutDerived"} == IN_TURNS
    assert {"PutScores", "SummarizeUsers"} == WITHIN - IN_TURNS


@pytest.mark.parametrize(("service", "method"), METHODS, ids=[f"{one.name}.{two.name}" for one, two in METHODS])
async def test_every_method_reaches_the_memory_or_is_said_to_be_for_the_services_within(
    channel: grpc.aio.Channel, calls: CallLog, service: ServiceDescriptor, method: MethodDescriptor
) -> None:
    path = f"/{service.full_name}/{method.name}"
    sent: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(path)
    read: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
    asked: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    failure = None
    try:
        if method.client_streaming:
            await sent(iter([b""]), timeout=20)
        elif method.server_streaming:
            assert not [part async for part in read(b"", timeout=20)]
        else:
            await asked(b"", timeout=20)
    except grpc.aio.AioRpcError as error:
        failure = error
    handled = [call for call in calls.calls if call.method == method.name]
    if method.name in WITHIN:
        assert failure
        assert failure.code() is grpc.StatusCode.UNIMPLEMENTED
        instead = "; here a turn does it (OrchestratorService.Respond)" if method.name in IN_TURNS else ""
        assert failure.details() == f"{method.name} is for the services within{instead}"
        assert len(handled) == 1
    elif method.name in ("AddIdentity", "ChangeIdentity", "ImportIdentity"):
        assert failure
        assert failure.details() == "header: missing; send it first"
    else:
        assert len(handled) == 2
        assert handled[0].status == handled[1].status


async def test_what_is_answered_in_pieces_is_handed_on_piece_by_piece(deployment: Deployment, cast: Cast) -> None:
    cast.memory = slow = SlowMemory()  # type: ignore[abstract] # the rest is not asked
    await start(deployment, cast)
    talks = typed("Talks", memory_pb2_grpc.MemoryServiceStub(deployment.served["orchestrator"].channel))
    call = talks.GetClip(memory.GetClipRequest(tenant="default"), timeout=20)
    assert typed("memory.GetClipResponse", await call.read()).content == b"first"
    slow.go_on.set()
    assert typed("memory.GetClipResponse", await call.read()).content == b"second"
    assert await call.read() is grpc.aio.EOF


async def test_what_is_sent_in_pieces_is_handed_on_as_it_comes(deployment: Deployment, cast: Cast) -> None:
    cast.memory = slow = SlowMemory()  # type: ignore[abstract] # the rest is not asked
    await start(deployment, cast)
    people = typed("Identities", identities_pb2_grpc.IdentityServiceStub(deployment.served["orchestrator"].channel))

    async def parts() -> AsyncIterator[identities.PutEmotionReferenceRequest]:
        yield identities.PutEmotionReferenceRequest(header=identities.PutEmotionReferenceHeader(name="sad"))
        await slow.began.wait()
        for _ in range(3):
            yield identities.PutEmotionReferenceRequest(content=bytes(MIB))

    kept = (await people.PutEmotionReference(parts(), timeout=20)).reference
    assert (kept.name, kept.size_bytes) == ("sad", 3 * MIB)


async def test_cancelling_a_stream_here_cancels_it_there(deployment: Deployment, cast: Cast, calls: CallLog) -> None:
    cast.memory = SlowMemory()  # type: ignore[abstract] # the rest is not asked
    await start(deployment, cast)
    talks = typed("Talks", memory_pb2_grpc.MemoryServiceStub(deployment.served["orchestrator"].channel))
    call = talks.GetClip(memory.GetClipRequest(tenant="default"), timeout=20)
    await call.read()
    call.cancel()
    assert [ended.status for ended in await calls.ended("GetClip", 2)] == ["CANCELLED"] * 2


async def test_cancelling_a_question_here_cancels_it_there(people: "Identities", cast: Cast, calls: CallLog) -> None:
    cast.memory.before = gate = Gate("GetIdentity")
    call = people.GetIdentity(WHO, timeout=20)
    await gate.reached()
    call.cancel()
    assert [ended.status for ended in await calls.ended("GetIdentity", 2)] == ["CANCELLED"] * 2
    gate.open()


async def test_deadline_and_trace_go_on(people: "Identities", calls: CallLog) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    await people.GetIdentity(WHO, timeout=7, metadata=(("traceparent", f"00-{trace_id}-b7ad6b7169203331-01"),))
    for call in await calls.ended("GetIdentity", 2):
        assert call.trace_id == trace_id
        assert call.remaining_s is not None
        assert call.remaining_s < 7.1


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InvalidRequest("tenant", "'A' is not a name"), INVALID, "tenant: 'A' is not a name"),
        (NotFound("identity 'ada' is unknown"), grpc.StatusCode.NOT_FOUND, "identity 'ada' is unknown"),
        (AlreadyExists("it exists"), grpc.StatusCode.ALREADY_EXISTS, "it exists"),
        (Conflict("it is at version 2"), grpc.StatusCode.ABORTED, "it is at version 2"),
        (FailedPrecondition("keep_turns is missing"), grpc.StatusCode.FAILED_PRECONDITION, "keep_turns is missing"),
        (NotReady("the store is away"), grpc.StatusCode.UNAVAILABLE, "memory: the store is away"),
        (DeadlineExceeded("too slow"), grpc.StatusCode.DEADLINE_EXCEEDED, "memory: too slow"),
        (Damaged("x/y is damaged"), grpc.StatusCode.INTERNAL, "memory: x/y is damaged"),
        (BackendFailed("secret"), grpc.StatusCode.INTERNAL, "memory: internal error; the log of the service has the"),
    ],
)
async def test_what_the_memory_refuses_the_caller_reads(
    people: "Identities", cast: Cast, error: Exception, code: grpc.StatusCode, text: str
) -> None:
    cast.memory.before = fail(error)
    with refused(code, text):
        await people.GetIdentity(WHO, timeout=20)


async def test_a_full_memory_says_when_to_come_again(people: "Identities", cast: Cast) -> None:
    cast.memory.before = fail(Overloaded("8 requests wait", 1.5))
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "8 requests wait") as failure:
        await people.GetIdentity(WHO, timeout=20)
    assert dict(failure.value.trailing_metadata() or ())["retry-after-ms"] == "1500"


async def test_without_the_memory_it_is_named(people: "Identities", talks: "Talks", deployment: Deployment) -> None:
    await deployment.stop("memory")
    with refused(grpc.StatusCode.UNAVAILABLE, "memory: "):
        await people.GetIdentity(WHO, timeout=20)
    with refused(grpc.StatusCode.UNAVAILABLE, "memory: "):
        assert [part async for part in talks.GetClip(memory.GetClipRequest(), timeout=20)]
    with refused(grpc.StatusCode.UNAVAILABLE, "memory: "):
        await people.PutEmotionReference(iter([identities.PutEmotionReferenceRequest()]), timeout=20)


async def test_what_was_said_is_listed(stub: "Stub", talks: "Talks") -> None:
    turn = await respond(stub, header(conversation="talk", output=pb.OUTPUT_TEXT))
    request = memory.ListTurnsRequest(tenant="default", identity="ada", conversation="talk")
    assert [kept.id for kept in (await talks.ListTurns(request)).turns] == [turn.done.turn]
