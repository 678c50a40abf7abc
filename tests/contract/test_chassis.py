"""Promises of every service: health, reflection, drain, statuses. Over real channels."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from emotions import Wheel
from services.common import clients, errors, rpc, server
from tests.deployment import Cast, Deployment
from tests.fake_voters import FakeLead
from tests.fakes import PATIENCE_S, Gate, fail
from tests.model_services import serving_mllm
from tests.ports import HeldPort
from tests.samples import pcm
from tests.serving import CallLog, Served, loopback, refused

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
MLLM = "/e3rg.mllm.v1.MllmService"


@pytest.fixture
def lead() -> FakeLead:
    return FakeLead({"sad": 1.0})


@pytest.fixture
async def served(lead: FakeLead, wheel: Wheel) -> AsyncIterator[Served]:
    async with serving_mllm("fake", lead, wheel) as served:
        yield served


@pytest.fixture
def stub(served: Served) -> "Stub":
    return cast("Stub", mllm_pb2_grpc.MllmServiceStub(served.channel))


def head(wheel: Wheel) -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(header=pb.PredictEmotionHeader(text="Hello.", ontology_hash=wheel.digest))


async def light(channel: grpc.aio.Channel, service: str) -> int:
    answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
    return int(answer.status)


async def test_every_service_is_alive_ready_and_lists_itself() -> None:
    deployment = Deployment()
    try:
        await deployment.start(Cast())
        assert len(deployment.served) == 8
        for name, service in deployment.served.items():
            assert await light(service.channel, "") == SERVING, name
            assert await light(service.channel, server.READINESS) == SERVING, name
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            async for answer in reflection_pb2_grpc.ServerReflectionStub(service.channel).ServerReflectionInfo(
                iter([request])
            ):
                listed = {row.name for row in answer.list_services_response.service}
            word = name.partition(" ")[0]
            assert listed == {
                f"e3rg.{word}.v1.{word.capitalize()}Service",
                "e3rg.replica.v1.ReplicaService",
                "grpc.health.v1.Health",
                "grpc.reflection.v1alpha.ServerReflection",
            }
    finally:
        await deployment.stop_all()


async def test_a_service_is_alive_but_not_ready_before_its_model_is() -> None:
    async with (
        server.running("x", "test", loopback()) as running,
        clients.open_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        assert await light(channel, "") == SERVING
        assert await light(channel, server.READINESS) == NOT_SERVING
        await running.set_ready()
        assert await light(channel, server.READINESS) == SERVING
        await running.set_ready(False)
        assert await light(channel, server.READINESS) == NOT_SERVING


async def test_a_port_that_is_taken_stops_the_start() -> None:
    async with server.running("x", "test", loopback()) as running:
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{running.port}"):
            async with server.running("x", "test", loopback(port=running.port)):
                pass


async def test_a_port_of_the_metrics_page_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        problem = f"cannot serve the metrics page on 127.0.0.1:{port}: .*; choose another METRICS_PORT"
        with HeldPort() as free:
            with pytest.raises(OSError, match=problem):
                async with server.running("x", "test", loopback(port=free.number, metrics_port=port)):
                    pass
            async with server.running("x", "test", loopback(port=free.number)):
                pass


async def test_while_draining_readiness_is_red_running_calls_finish_and_new_ones_are_refused(
    lead: FakeLead, wheel: Wheel
) -> None:
    async with AsyncExitStack() as stack:
        service = AsyncExitStack()
        served = await service.enter_async_context(serving_mllm("fake", lead, wheel, grace_s=20))
        channel = await stack.enter_async_context(clients.open_channel(served.address))
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=server.READINESS))
        assert (await watch.read()).status == SERVING
        stub = cast("Stub", mllm_pb2_grpc.MllmServiceStub(channel))
        lead.before = gate = Gate("predict")
        running = stub.PredictEmotion(iter([head(wheel)]), timeout=20)
        await gate.reached()
        stopping = asyncio.create_task(service.aclose())
        assert (await watch.read()).status == NOT_SERVING
        watch.cancel()
        with refused(grpc.StatusCode.UNAVAILABLE):
            await stub.GetModel(pb.GetModelRequest(), timeout=20)
        assert not stopping.done()
        gate.open()
        assert (await running).label == "sad"
        await stopping


async def test_a_call_that_outlasts_the_grace_is_cancelled(lead: FakeLead, wheel: Wheel, calls: CallLog) -> None:
    service = AsyncExitStack()
    served = await service.enter_async_context(serving_mllm("fake", lead, wheel, grace_s=0.1))
    async with clients.open_channel(served.address) as channel:
        lead.before = gate = Gate("write", after=1)
        order = pb.WriteReplyRequest(text="Hello.")
        for emotion in (order.user_emotion, order.reply_emotion):
            emotion.label, emotion.ontology_hash = "sad", wheel.digest
        call = cast("Stub", mllm_pb2_grpc.MllmServiceStub(channel)).WriteReply(order)
        assert cast("pb.WriteReplyResponse", await call.read()).WhichOneof("part") == "sentence"
        await gate.reached()
        stopping = asyncio.create_task(service.aclose())
        assert [ended.status for ended in await calls.ended("WriteReply")] == ["CANCELLED"]
        gate.open()
        await stopping
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call.read()
        assert isinstance(clients.translate(failure.value, "mllm"), errors.NotReady)
    await lead.stopped.happened()


@pytest.mark.parametrize("error", list(rpc.STATUS_BY_ERROR))
async def test_an_error_in_the_model_is_the_same_error_at_the_caller(
    stub: "Stub", lead: FakeLead, wheel: Wheel, error: type[errors.ServiceError]
) -> None:
    raised: errors.ServiceError
    if error is errors.InvalidRequest:
        raised = errors.InvalidRequest("header.text", "too sad")
    elif error is errors.Overloaded:
        raised = errors.Overloaded("full", 2.5, 1.5)
    else:
        raised = error("what the caller should know")
    lead.before = fail(raised)
    with pytest.raises(errors.ServiceError) as failure:
        async with clients.calling("mllm fake"):
            await stub.PredictEmotion(iter([head(wheel)]))
    assert type(failure.value) is error
    assert str(raised) in str(failure.value)
    named = error in (errors.NotReady, errors.DeadlineExceeded)  # what may be the way to the service
    assert str(failure.value).startswith("mllm fake: ") == named
    assert getattr(failure.value, "retry_after_s", 0) == getattr(raised, "retry_after_s", 0)
    assert getattr(failure.value, "allow_more_s", 0) == getattr(raised, "allow_more_s", 0)


async def test_a_service_that_nobody_runs_is_named_and_may_be_tried_again() -> None:
    with HeldPort() as port:
        async with clients.open_channel(f"127.0.0.1:{port.number}") as channel:
            stub = cast("Stub", mllm_pb2_grpc.MllmServiceStub(channel))
            with pytest.raises(errors.NotReady, match="mllm fake: "):
                async with clients.calling("mllm fake"):
                    await stub.GetModel(pb.GetModelRequest(), **clients.options(5))


async def test_channels_to_one_address_share_no_connection_and_so_no_retry_backoff() -> None:
    peers = []

    async def note(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        peers.append(context.peer())
        return b""

    def register(grpc_server: grpc.aio.Server) -> None:
        handler = grpc.unary_unary_rpc_method_handler(note, bytes, bytes)
        grpc_server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x", {"Note": handler}),))

    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(server.running("x", "test", loopback()))
        running.serve(register)
        for _ in range(2):
            channel = await stack.enter_async_context(clients.open_channel(f"127.0.0.1:{running.port}"))
            await channel.unary_unary("/x/Note", bytes, bytes)(b"", timeout=PATIENCE_S)
    assert len(set(peers)) == 2


async def test_a_service_that_is_silent_is_named_with_what_to_do(stub: "Stub", lead: FakeLead, wheel: Wheel) -> None:
    lead.before = gate = Gate()
    with pytest.raises(errors.DeadlineExceeded, match="mllm fake: it did not answer in time; try again later"):
        async with clients.calling("mllm fake"):
            await stub.PredictEmotion(iter([head(wheel)]), **clients.options(0.1))
    gate.open()


async def test_services_try_again_what_is_unavailable_and_nothing_else(
    served: Served, lead: FakeLead, wheel: Wheel
) -> None:
    def loading(operation: str) -> None:
        if len(lead.messages) < 4:
            raise errors.NotReady("loading")

    async with clients.open_channel(served.address) as channel:
        stub = cast("Stub", mllm_pb2_grpc.MllmServiceStub(channel))

        async def answer() -> pb.PredictEmotionResponse:
            async def messages() -> AsyncIterator[pb.PredictEmotionRequest]:
                yield head(wheel)

            return await clients.ask_any(stub.PredictEmotion, messages(), clients.options(PATIENCE_S))

        lead.before = fail(errors.BackendFailed("broken"))
        with refused(grpc.StatusCode.INTERNAL):
            await answer()
        assert len(lead.messages) == 1
        lead.before = loading
        assert (await answer()).label == "sad"
        assert len(lead.messages) == 4


NO_UTF8 = b"\x0a\x01\xff"  # field 1, one byte long


@pytest.mark.parametrize(
    ("rpc_name", "content"),
    [("WriteReply", NO_UTF8), ("WriteReply", b"\xff\xff"), ("PredictEmotion", b"\x0a\x03" + NO_UTF8)],
)
async def test_text_that_is_not_utf_8_and_bytes_that_are_no_message_are_refused(
    served: Served, rpc_name: str, content: bytes
) -> None:
    channel: Any = served.channel  # without a stub: it sends bytes
    with refused(grpc.StatusCode.INVALID_ARGUMENT, f"request: {len(content)} bytes that are no message") as failure:
        if rpc_name == "WriteReply":
            await channel.unary_stream(f"{MLLM}/{rpc_name}")(content).read()
        else:
            await channel.stream_unary(f"{MLLM}/{rpc_name}")(iter([content]))
    assert "send text as UTF-8" in str(failure.value.details())


async def test_an_rpc_that_the_service_has_not_is_unimplemented(served: Served) -> None:
    channel: Any = served.channel
    with refused(grpc.StatusCode.UNIMPLEMENTED):
        await channel.unary_unary(f"{MLLM}/Sing")(b"")


async def test_what_the_callers_own_messages_raise_ends_the_call_and_is_raised(
    stub: "Stub", wheel: Wheel, calls: CallLog
) -> None:
    async def messages() -> AsyncIterator[pb.PredictEmotionRequest]:
        yield head(wheel)
        raise errors.NotFound("the recall found nothing")

    with pytest.raises(errors.NotFound, match="the recall found nothing"):
        await clients.ask(stub.PredictEmotion(timeout=20), messages())
    await calls.ended("PredictEmotion")


async def test_a_call_that_the_service_ends_early_has_its_answer_not_a_broken_pipe(stub: "Stub") -> None:
    async def too_many() -> AsyncIterator[pb.TranscribeRequest]:
        for _ in range(20):
            yield pb.TranscribeRequest(audio=pcm(30))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "audio: more than 1920000 bytes"):
        await clients.ask(stub.Transcribe(timeout=20), too_many())
