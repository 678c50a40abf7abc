"""Killed voters, drained services, cancelled turns: the real processes under faults."""

import signal
import time
from collections.abc import Iterator

import pytest

from client import Client, ClientError
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from local.deployment import Deployment
from tests.integration.conftest import ROOT, gather

HEADER = pb.RespondHeader(text="My cat ran away and I miss her so much.", identity="anna")


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment of its own, since these tests break it."""
    patient = {"orchestrator": {"E3RG_ORCHESTRATOR_SHUTDOWN_GRACE_S": "60"}}
    with Deployment(tmp_path_factory.mktemp("fragile"), ROOT / ".models", environment=patient) as running:
        yield running


def kill(deployment: Deployment, name: str, number: signal.Signals = signal.SIGKILL) -> int:
    process = deployment.components[name].process
    assert process
    process.send_signal(number)
    return process.wait(20)


def restart(deployment: Deployment, *names: str) -> None:
    for name in names:
        deployment.start(name)
    for name in names:
        deployment.wait_ready(name)
    deadline_s = time.monotonic() + 20
    with Client(deployment.address) as client:
        while not all(service.ready for service in client.status()):
            assert time.monotonic() < deadline_s, f"{names} came back, but the others do not find them"
            time.sleep(0.1)


def test_a_killed_voter_is_recorded_and_the_panel_goes_on(fragile: Deployment) -> None:
    # Two of the three that read text: one alone the others would outvote before it is known to be gone.
    killed = ("mpnet", "text")
    for name in killed:
        kill(fragile, f"mllm-{name}")
    try:
        with Client(fragile.address) as client:
            turn = gather(client.respond(HEADER))
    finally:
        restart(fragile, *(f"mllm-{name}" for name in killed))
    fates = {vote.voter: vote for vote in turn.understood.record.votes}
    for name in killed:
        assert fates[name].status == understanding.VOTE_STATUS_FAILED
        assert name in fates[name].reason
    assert fates["smollm2"].status == understanding.VOTE_STATUS_VOTED
    assert turn.mp4


def test_without_the_face_renderer_the_audio_still_comes(fragile: Deployment) -> None:
    kill(fragile, "video")
    try:
        with Client(fragile.address) as client:
            turn = gather(client.respond(HEADER))
            assert any(not service.ready and service.name == "video" for service in client.status())
    finally:
        restart(fragile, "video")
    assert turn.pcm
    assert not turn.mp4
    assert [(row.stage, row.dropped) for row in turn.degraded if row.stage != "reply"] == [("video", "video")]


def test_without_the_voice_the_text_still_comes(fragile: Deployment) -> None:
    kill(fragile, "tts")
    try:
        with Client(fragile.address) as client:
            turn = gather(client.respond(HEADER))
    finally:
        restart(fragile, "tts")
    assert turn.done.text
    assert not turn.pcm
    assert [row.stage for row in turn.degraded if row.stage != "reply"] == ["speech"]


def test_a_face_renderer_that_dies_in_mid_stream_costs_the_video_only(fragile: Deployment) -> None:
    with Client(fragile.address) as client:
        events = client.respond(HEADER)
        seen = []
        for timed in events:
            seen.append(timed)
            if timed.event.WhichOneof("event") == "video":
                kill(fragile, "video")
                break
        turn = gather(iter([*seen, *events]))
    restart(fragile, "video")
    assert turn.done.text
    assert [row.dropped for row in turn.degraded if row.stage == "video"] == ["the rest of the video"]


def test_sigterm_in_the_middle_of_a_stream_lets_the_turn_finish(fragile: Deployment) -> None:
    with Client(fragile.address) as client:
        events = client.respond(HEADER)
        seen = []
        for timed in events:
            seen.append(timed)
            if timed.event.WhichOneof("event") == "audio":
                break
        door = fragile.components["orchestrator"].process
        assert door
        door.send_signal(signal.SIGTERM)
        turn = gather(iter([*seen, *events]))
        assert turn.order[-1] == "done"
        assert door.wait(60) == 0
        with pytest.raises(ClientError):
            client.status()
    restart(fragile, "orchestrator")


def test_a_cancelled_turn_stops_every_stage(fragile: Deployment) -> None:
    with Client(fragile.address) as client:
        events = client.respond(HEADER)
        for timed in events:
            if timed.event.WhichOneof("event") == "video":
                break
        events.close()  # type: ignore[attr-defined]
        log = fragile.log_path("video")
        deadline_s = time.monotonic() + 10
        while '"CANCELLED"' not in log.read_text("utf-8") and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert '"CANCELLED"' in log.read_text("utf-8")
        assert gather(client.respond(HEADER)).mp4
