"""Each replica tells its model to those that watch it, and those that choose among replicas know it without a call."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, cast

import grpc
import pytest
from google.protobuf.message import Message

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2
from e3rg.replica.v1 import replica_pb2 as pb
from e3rg.replica.v1 import replica_pb2_grpc
from e3rg.tts.v1 import tts_pb2
from e3rg.video.v1 import video_pb2
from emotions import Wheel
from services.common import server
from services.common.load import Load
from tests.echoes import NAME, connected, echoes
from tests.fake_faces import FakeFace, FakePainter
from tests.fake_voice import FakeVoice
from tests.fake_voters import FakeVoter
from tests.fakes import PATIENCE_S
from tests.model_services import serving_mllm, serving_tts, serving_video
from tests.serving import Served, loopback, plain_channel

if TYPE_CHECKING:
    from e3rg.replica.v1.replica_pb2_grpc import ReplicaServiceAsyncStub as Stub

Watching = grpc.aio.UnaryStreamCall[pb.WatchReplicaRequest, pb.WatchReplicaResponse]


def model_of(name: str) -> mllm_pb2.GetModelResponse:
    return mllm_pb2.GetModelResponse(card=common.ModelCard(backend=name, digest=name * 8))


async def read(call: Watching) -> pb.WatchReplicaResponse:
    return cast("pb.WatchReplicaResponse", await asyncio.wait_for(call.read(), PATIENCE_S))


def unpacked(report: pb.WatchReplicaResponse, kind: type[Message] = mllm_pb2.GetModelResponse) -> Message:
    model = kind()
    assert report.model.Unpack(model)
    return model


async def watch(stack: AsyncExitStack, port: int) -> Watching:
    channel = await stack.enter_async_context(plain_channel(f"127.0.0.1:{port}"))
    stub = cast("Stub", replica_pb2_grpc.ReplicaServiceStub(channel))
    return stub.WatchReplica(pb.WatchReplicaRequest())


# What a replica tells


async def test_a_model_is_told_once_it_is_loaded_and_not_again(stack: AsyncExitStack) -> None:
    running = await stack.enter_async_context(server.running(NAME, NAME, loopback()))
    call = await watch(stack, running.port)
    loading = await read(call)
    assert (loading.ready, loading.HasField("model")) == (False, False)
    running.serve(lambda to: to.add_generic_rpc_handlers(()), model=model_of("new"))
    loaded = await read(call)
    assert unpacked(loaded) == model_of("new")
    await running.set_ready()
    while not (report := await read(call)).ready:
        assert not report.HasField("model")
    assert not report.HasField("model")


async def test_who_comes_later_hears_of_the_model_at_once(stack: AsyncExitStack) -> None:
    running = await stack.enter_async_context(server.running(NAME, NAME, loopback()))
    running.serve(lambda to: to.add_generic_rpc_handlers(()), model=model_of("new"))
    await running.set_ready()
    for _ in range(2):
        call = await watch(stack, running.port)
        assert unpacked(await read(call)) == model_of("new")
        assert not (await read(call)).HasField("model")


async def test_a_service_without_a_model_tells_none(stack: AsyncExitStack) -> None:
    running = await stack.enter_async_context(server.running(NAME, NAME, loopback()))
    running.serve(lambda to: to.add_generic_rpc_handlers(()), Load)
    call = await watch(stack, running.port)
    assert [(await read(call)).HasField("model") for _ in range(2)] == [False, False]


@pytest.mark.parametrize(
    ("serving", "package", "kind"),
    [
        (lambda wheel: serving_mllm("face", FakeVoter({"sad": 1.0}), wheel), "mllm", mllm_pb2.GetModelResponse),
        (lambda wheel: serving_tts(FakeVoice(), wheel), "tts", tts_pb2.GetModelResponse),
        (lambda wheel: serving_video(FakeFace(), wheel), "video", video_pb2.GetModelResponse),
        (lambda wheel: serving_video(FakePainter(), wheel), "video", video_pb2.GetModelResponse),
    ],
    ids=["mllm", "tts", "video", "video by segments"],
)
async def test_each_service_tells_what_it_answers_to_those_who_ask(
    wheel: Wheel,
    stack: AsyncExitStack,
    serving: Callable[[Wheel], AbstractAsyncContextManager[Served]],
    package: str,
    kind: type[Message],
) -> None:
    served = await stack.enter_async_context(serving(wheel))
    told = unpacked(await read(await watch(stack, served.running.port)), kind)
    name = f"/e3rg.{package}.v1.{package.capitalize()}Service/GetModel"
    ask = served.channel.unary_unary(name, Message.SerializeToString, kind.FromString)
    assert told == await ask(mllm_pb2.GetModelRequest())


# What callers know


async def test_callers_know_the_model_of_each_replica_that_takes_calls(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 3, [model_of("a"), model_of("b"), None])
    channel = await connected(stack, *replicas)
    models = channel.replicas.models(mllm_pb2.GetModelResponse)
    assert sorted(model.card.backend for model in models) == ["a", "b"]
    assert channel.replicas.models(tts_pb2.GetModelResponse) == []
    await channel.replicas.changed()  # by a report without a model
    assert len(channel.replicas.models(mllm_pb2.GetModelResponse)) == 2
    await replicas[0].stop()
    while len(channel.replicas.ready) == 3:
        await channel.replicas.changed()
    assert channel.replicas.models(mllm_pb2.GetModelResponse) == [model_of("b")]


async def test_what_takes_the_place_of_a_replica_is_known_by_its_own_model(stack: AsyncExitStack) -> None:
    (old,) = await echoes(stack, 1, [model_of("old")])
    channel = await connected(stack, old)
    assert old.running
    port = old.running.port
    await old.stop()
    settings = loopback(port=port)
    running = await stack.enter_async_context(server.running(NAME, NAME, settings))
    running.serve(lambda to: to.add_generic_rpc_handlers(()))
    while channel.replicas.ready:
        await channel.replicas.changed()
    await running.set_ready()
    await channel.replicas.wait_ready()
    assert channel.replicas.models(mllm_pb2.GetModelResponse) == []
