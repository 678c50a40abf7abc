"""Two gateways as processes: a voice that fails in both is taken back by the one that is elected."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from services.common.errors import BackendFailed
from services.common.variants.table import Guardrail, Stage, State, Table, Variant, dump, parse
from tests.deployment import Cast, Deployment
from tests.fake_voice import FakeVoice
from tests.fakes import fail
from tests.ports import HeldPort
from tests.serving import plain_channel
from tests.support.waiting import until
from tests.turns import header

TURNS = 60


async def test_a_voice_that_fails_is_taken_back_by_gateways_that_sum_up_their_turns(
    tmp_path: Path, cast: Cast, deployment: Deployment
) -> None:
    cast.variant_voices = {"b": FakeVoice()}
    cast.variant_voices["b"].before = fail(BackendFailed("hoarse"))
    await deployment.start(cast)
    voices = {"a": Variant(weight=50), "b": Variant(address=deployment.served["tts-b"].address, weight=50)}
    table = Table(
        version=1,
        stages={"tts": Stage(control="a", variants=voices)},
        guardrails={"tts": Guardrail(turns_min=TURNS // 4)},
    )
    path = tmp_path / "variants.json"
    path.write_text(dump(table), "utf-8")
    async with AsyncExitStack() as stack:
        ports = [stack.enter_context(HeldPort()).number for _ in range(2)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        settings = {
            "METRICS_PORT": "0",
            "VARIANTS_FILE": str(path),
            "PEERS_ADDRESS": f"ipv4:{','.join(addresses)}",
            **{
                f"{name.upper()}_ADDRESS": deployment.served[name].address
                for name in ("understanding", "memory", "tts", "video")
            },
        }
        stubs = []
        for port, address in zip(ports, addresses, strict=True):
            named = {f"E3RG_ORCHESTRATOR_{name}": value for name, value in {**settings, "PORT": str(port)}.items()}
            process = await asyncio.create_subprocess_exec(sys.executable, "-m", "orchestrator", env=os.environ | named)
            stack.push_async_callback(process.wait)
            stack.callback(process.terminate)
            channel = await stack.enter_async_context(plain_channel(address))
            stubs.append(orchestrator_pb2_grpc.OrchestratorServiceStub(channel))
        lost = 0
        for number in range(TURNS):
            call = stubs[number % 2].Respond(iter([header(output=pb.OUTPUT_AUDIO)]), timeout=60, wait_for_ready=True)
            events = [event async for event in call]  # type: ignore[attr-defined]
            lost += any(event.HasField("degraded") for event in events)
            assert events[-1].HasField("done")
        assert TURNS // 4 <= lost < TURNS
        await until(lambda: parse(path.read_text("utf-8")).version == 2)
        after = parse(path.read_text("utf-8"))
        assert after.stage("tts").variants["b"].state is State.OFF
        assert after.history[-1].by == "guardrail"
        assert "turns of 'b' and 'a'" in after.history[-1].why
