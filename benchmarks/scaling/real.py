"""A day of turns through the real gateway and real gRPC servers, in one process, some times faster than a day."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, cast

import grpc

import emotions
from benchmarks.scaling import renderer
from benchmarks.scaling.fleet import Fleet
from benchmarks.scaling.load import Day, Turn
from benchmarks.scaling.rule import Rule
from benchmarks.scaling.stages import Voice, Writer
from benchmarks.scaling.tally import LATE_S, Tally
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from orchestrator import stages
from orchestrator.memory import Memory
from orchestrator.pipeline import Pipeline
from orchestrator.risks import Risks
from orchestrator.servicer import OrchestratorServicer
from orchestrator.variants.checking import VariantCheck
from services.common import clients
from services.common.channels import BalancedChannel
from services.common.replicas import Replicas
from services.common.variants.channels import VariantChannels
from services.common.variants.live import LiveTable
from services.common.variants.table import Table
from tests.deployment import Cast, serving_understanding
from tests.fake_memory import serving_memory
from tests.model_services import serving_mllm, serving_tts
from tests.serving import plain_channel, serving

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub

WAITING_MAX = 256


async def run(day: Day, segments: Sequence[Sequence[float]], replicas: int, rule: Rule | None, speed: float) -> Tally:
    """Play a day; return what it came to."""
    tally = Tally()
    fleet = Fleet(replicas, rule, speed, day.length_s, tally)
    await fleet.start()
    async with _gateway(fleet, replicas, speed) as door:
        begun = asyncio.Event()
        scaling = asyncio.create_task(fleet.scale(begun.set))
        await begun.wait()
        taken = []
        for turn in day.turns():
            await asyncio.sleep(max(0.0, (turn.at_s - fleet.now_s) / speed))
            taken.append(asyncio.create_task(_take(door, turn, len(segments[turn.reply]), speed, tally)))
        await asyncio.gather(scaling, *taken)
    await fleet.stop()
    return tally


async def _take(door: "OrchestratorServiceAsyncStub", turn: Turn, segments: int, speed: float, tally: Tally) -> None:
    """Take one turn as a user does, and count it."""
    tally.turns += 1
    began_s = time.monotonic()
    first_s, seen, heard, is_done = None, 0, False, False
    header = pb.RespondHeader(text=str(turn.reply), identity="ada")
    call = door.Respond(iter([pb.RespondRequest(header=header)]), timeout=renderer.DEADLINE_S / speed)
    try:
        async for event in call:
            heard |= event.HasField("audio")
            is_done |= event.HasField("done")
            if event.HasField("video"):
                seen += bool(event.video.quality)
                first_s = first_s or (time.monotonic() - began_s) * speed
    except grpc.aio.AioRpcError as error:
        print(f"turn at {turn.at_s:.0f} s: {error.code().name}: {error.details()}")
    tally.lost += not (heard and is_done)
    tally.bare += seen < segments
    tally.late += first_s is None or first_s > LATE_S
    if first_s is not None:
        tally.first_s.append(first_s)


@asynccontextmanager
async def _gateway(fleet: Fleet, replicas: int, speed: float) -> "AsyncIterator[OrchestratorServiceAsyncStub]":
    """Serve the gateway, and all that it calls but the renderers."""
    cast_ = Cast(lead=Writer({"sad": 0.6, "furious": 0.4}), voice=Voice(), waiting_max=WAITING_MAX)
    cast_.add_identity()
    wheel = emotions.load()
    async with AsyncExitStack() as stack:
        voters = {}
        for name, voter in cast_.voters.items():
            voting = serving_mllm(name, voter, wheel, WAITING_MAX)
            voters[name] = (await stack.enter_async_context(voting)).address
        served = {
            "understanding": await stack.enter_async_context(serving_understanding(cast_, voters)),
            "memory": await stack.enter_async_context(serving_memory(cast_.memory, wheel)),
            "tts": await stack.enter_async_context(serving_tts(cast_.voice, wheel, WAITING_MAX)),
        }
        channels = {}
        for name, each in served.items():
            channels[name] = await stack.enter_async_context(clients.open_channel(each.address))
            await channels[name].replicas.wait_ready()
        found = Replicas("video", "dns:///video:50051", grpc.aio.insecure_channel, resolve=fleet.resolve)
        at = {"tts": channels["tts"], "video": BalancedChannel(found)}
        variants = VariantChannels(dict.fromkeys(at, "127.0.0.1:1"), lambda _, name: at[name])
        stack.push_async_callback(variants.close)
        await found.wait_ready(replicas)
        deadline_s = renderer.DEADLINE_S / speed
        understanding = stages.Understanding(channels["understanding"])
        memory = Memory(channels["memory"])
        pipeline = Pipeline(
            understanding=understanding,
            memory=memory,
            channels=variants,
            variants=LiveTable(None, VariantCheck(variants, understanding, wheel.digest, Table).check),
            wheel=wheel,
            turn_deadline_s=deadline_s,
            turn_deadline_max_s=deadline_s,
            history_turns=4,
            risks=Risks(memory),
        )
        servicer = OrchestratorServicer(pipeline, channels)
        door = await stack.enter_async_context(
            serving(
                "e3rg.orchestrator.v1.OrchestratorService",
                lambda to: orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(servicer, to),
            )
        )
        channel = await stack.enter_async_context(plain_channel(door.address))
        yield cast("OrchestratorServiceAsyncStub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))
