"""The load tool against a deployment of real services over fake models, and against a gateway that is a fake."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.load import Load, Message, Mix, Profile, Result, in_background, run
from benchmarks.load.caller import TURNS_PER_CONNECTION
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from services.common import server
from services.common.errors import NotReady
from tests.deployment import Cast, Deployment
from tests.fake_door import FakeDoor
from tests.fakes import PATIENCE_S, Gate, fail
from tests.samples import film, wav
from tests.serving import CallLog, loopback, serving
from tests.support.tls import CERTIFICATE, FOLDER
from tests.turns import Start

SERVICE = "e3rg.orchestrator.v1.OrchestratorService"
MIX = Mix((Message("text", "I lost my job."), Message("audio", content=wav()), Message("video", content=film())))


def profile(deployment: Deployment, **fields: Any) -> Profile:
    return Profile(deployment.served["orchestrator"].address, identity="ada", **fields)


async def test_users_of_a_closed_loop_get_words_sound_and_video_for_each_kind_of_message(
    start: Start, deployment: Deployment
) -> None:
    await start()
    found = await run(profile(deployment, users=2, turns_max=8, mix=MIX))
    assert (found.lost, found.figures["ok"], len(found.turns)) == ([], 8, 8)
    assert {turn.kind for turn in found.turns} == {"text", "audio", "video"}
    for turn in found.turns:
        measures = [turn.upload_s, turn.first_text_s, turn.first_sound_s, turn.first_video_s, turn.whole_s]
        assert all(measure is not None and measure > 0 for measure in measures), turn
        assert turn.real_time_factor is not None
        assert turn.audio_s == 1.0
        assert turn.video_s == pytest.approx(1.0, abs=0.05)
        assert turn.bytes_received > 32_000
    assert found.percentile("first_video_s", 50) is not None
    assert sum(row["sent"] or 0 for row in found.series()) == 8


@pytest.mark.parametrize(("output", "heard"), [("text", False), ("audio", True)])
async def test_less_output_is_whole_without_what_was_not_wanted(
    start: Start, deployment: Deployment, output: str, heard: bool
) -> None:
    await start()
    found = await run(profile(deployment, turns_max=1, output=output))
    assert found.lost == []
    (turn,) = found.turns
    assert (turn.first_sound_s is not None, turn.first_video_s, turn.video_s) == (heard, None, 0)
    assert (turn.real_time_factor is not None) == heard


async def test_a_full_stage_refuses_users_who_come_again(start: Start, cast: Cast, deployment: Deployment) -> None:
    cast.waiting_max = 0
    await start()
    cast.lead.before = gate = Gate("write")
    holding = asyncio.create_task(run(profile(deployment, turns_max=1, output="text")))
    await gate.reached()
    found = await run(profile(deployment, turns_max=2, output="text"))
    assert (found.figures["refused"], len(found.lost)) == (2, 2)
    assert all(turn.retry_after_s > 0 and turn.status == "RESOURCE_EXHAUSTED" for turn in found.turns)
    assert "N requests wait for " in found.problems()[0][0]
    gate.open()
    assert (await holding).lost == []


async def test_an_open_loop_goes_on_while_turns_are_refused(start: Start, cast: Cast, deployment: Deployment) -> None:
    cast.waiting_max = 0
    await start()
    cast.lead.before = gate = Gate("write")
    holding = asyncio.create_task(run(profile(deployment, turns_max=1, output="text")))
    await gate.reached()
    found = await run(profile(deployment, rate=50.0, turns_max=10, open_max=2, output="text"))
    assert found.figures["sent"] == found.figures["lost"] == 10
    assert found.answered == 0
    gate.open()
    assert (await holding).lost == []


async def test_an_open_loop_is_answered(start: Start, cast: Cast, deployment: Deployment) -> None:
    cast.waiting_max = 100
    await start()
    found = await run(profile(deployment, rate=50.0, turns_max=10, conversations=True))
    assert (found.lost, found.answered) == ([], 10)


async def test_a_reply_without_its_voice_is_degraded_and_lost(start: Start, cast: Cast, deployment: Deployment) -> None:
    await start()
    cast.voice.before = fail(NotReady("the voice is away"))
    (turn,) = (found := await run(profile(deployment, turns_max=1))).turns
    assert (turn.outcome, turn.lacks, found.lost) == ("degraded", ["sound", "video"], [turn])
    assert list(found.degradations()) == ["speech: audio and video"]


async def test_a_turn_that_takes_too_long_is_late(start: Start, cast: Cast, deployment: Deployment) -> None:
    await start()
    cast.lead.before = gate = Gate("write")
    found = await run(profile(deployment, turns_max=1, deadline_s=0.5))
    assert (found.figures["late"], found.turns[0].status) == (1, "DEADLINE_EXCEEDED")
    gate.open()


async def test_failures_are_told_with_the_trace_id_of_the_turn(
    start: Start, deployment: Deployment, calls: CallLog
) -> None:
    await start()
    found = await run(Profile(deployment.served["orchestrator"].address, identity="bob", turns_max=1))
    ((problem, count, trace_id),) = found.problems()
    assert (problem, count) == ("failed, NOT_FOUND: identity 'bob' is unknown", 1)
    assert {call.trace_id for call in await calls.ended("Respond")} == {trace_id}


async def test_a_cancelled_load_stops_its_turns(
    start: Start, cast: Cast, deployment: Deployment, calls: CallLog
) -> None:
    await start()
    cast.lead.before = gate = Gate("write")
    load = Load(profile(deployment, users=1))
    running = asyncio.create_task(load.run())
    await gate.reached()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [call.status for call in await calls.ended("Respond")] == ["CANCELLED"]
    assert (load.result().figures["unfinished"], load.result().lost) == (1, [])
    gate.open()


async def test_a_load_runs_in_the_background_until_the_block_ends(start: Start, deployment: Deployment) -> None:
    await start()

    def work() -> Result:
        with in_background(profile(deployment, users=2, duration_s=3600, output="text")) as load:
            load.wait_for(2)
            load.wait_for(2)
            assert len(load.ended) >= 4
        return load.result()

    found = await asyncio.to_thread(work)
    assert found.lost == []
    assert found.figures["unfinished"] == 0
    assert len(found.turns) >= 4


class _Waiting(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """Answers no turn before so many are open."""

    def __init__(self, turns: int) -> None:
        self._wanted = asyncio.Barrier(turns)
        self.peers: set[str] = set()

    async def Respond(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.RespondRequest], context: Any
    ) -> AsyncIterator[pb.RespondResponse]:
        self.peers.add(context.peer())
        async with asyncio.timeout(PATIENCE_S):
            await self._wanted.wait()
        yield pb.RespondResponse(text=pb.TextDelta(sentence="Hello."))
        yield pb.RespondResponse(done=pb.Done(text="Hello."))


async def test_many_turns_at_once_are_spread_over_connections() -> None:
    turns = 2 * TURNS_PER_CONNECTION + 1
    waiting = _Waiting(turns)  # type: ignore[abstract]
    async with serving(
        SERVICE, lambda to: orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(waiting, to)
    ) as served:
        found = await run(Profile(served.address, users=turns, turns_max=turns, output="text", connections=1))
    assert (found.lost, len(waiting.peers)) == ([], 3)


async def test_a_gateway_with_tls_is_asked_by_its_authority(stack: AsyncExitStack) -> None:
    settings = loopback(tls_certificate_file=CERTIFICATE, tls_key_file=FOLDER / "key.pem")
    running = await stack.enter_async_context(server.running(SERVICE, "orchestrator", settings))
    fake = FakeDoor()
    running.serve(fake.register)
    fake.events = [pb.RespondResponse(text=pb.TextDelta(sentence="Hello.")), pb.RespondResponse(done=pb.Done())]
    address = f"127.0.0.1:{running.port}"
    found = await run(Profile(address, turns_max=1, output="text", ca_file=CERTIFICATE))
    assert found.lost == []
    ((problem, _, _),) = (await run(Profile(address, turns_max=1, output="text"))).problems()
    assert problem.startswith("failed, UNAVAILABLE")


async def test_a_stream_that_is_no_video_fails_the_turn(door: FakeDoor) -> None:
    door.events = [pb.RespondResponse(video=pb.VideoChunk(content=b"\0\0\0\3free"))]
    found = await run(Profile(door.address, turns_max=1))
    assert found.turns[0].problem == "the video is no fragmented MP4: a box has 3 bytes"
    assert len(found.lost) == 1


async def started(deployment: Deployment, *words: str) -> asyncio.subprocess.Process:
    address = deployment.served["orchestrator"].address
    command = (sys.executable, "-m", "benchmarks.load", address, "--identity", "ada", *words)
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)


async def test_the_command_ends_with_status_1_when_a_bound_fails_and_writes_everything(
    start: Start, deployment: Deployment, tmp_path: Path
) -> None:
    await start()
    path = tmp_path / "load.json"
    process = await started(deployment, "--turns", "2", "--json", str(path), "--fail-if", "lost>0", "--fail-if", "ok>1")
    out, _ = await process.communicate()
    assert process.returncode == 1
    assert out.decode().splitlines()[-1] == "FAILED   ok>1: it is 2"
    written = json.loads(path.read_text("utf-8"))
    assert (written["figures"]["ok"], written["failures"]) == (2, ["ok>1: it is 2"])


async def test_an_interrupted_command_prints_what_was_measured(
    start: Start, cast: Cast, deployment: Deployment
) -> None:
    await start()
    cast.lead.before = gate = Gate("write", after=2)
    process = await started(deployment, "--output", "text", "--json", "-")
    await gate.reached()
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert process.returncode == 130
    assert "1 ok, 0 degraded, 0 refused, 0 failed, 0 late, 1 unfinished" in err.decode()
    written = json.loads(out)
    assert (written["was_cancelled"], [turn["outcome"] for turn in written["turns"]]) == (True, ["ok", "unfinished"])
    gate.open()


async def test_a_gateway_that_cannot_be_reached_is_told_at_once() -> None:
    command = (sys.executable, "-m", "benchmarks.load", "127.0.0.1:1")
    process = await asyncio.create_subprocess_exec(*command, stderr=PIPE)
    _, err = await process.communicate()
    assert process.returncode == 2
    assert err.decode().startswith("benchmarks.load: UNAVAILABLE: ")
