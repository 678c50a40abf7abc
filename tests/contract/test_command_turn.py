"""`e3rg respond` with a person and what is recalled, and how the command ends."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from client import Client
from client.connection import send
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as pb_identities
from e3rg.memory.v1 import identities_pb2_grpc
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from tests.fake_door import FakeDoor, Run
from tests.fake_identities import ARCHIVE_END

ROOT = Path(__file__).parents[2]

WRITER = common.ModelCard(backend="smollm2", model="SmolLM2", digest="abc" * 20)


async def test_who_asks_is_sent_and_what_was_recalled_and_kept_is_told(
    run: Run, door: FakeDoor, tmp_path: Path
) -> None:
    said = memory.Turn(id="t1", user_text="I have a cat.", user_emotion="happy", conversation="monday")
    hits = [memory.Hit(turn=said, similarity=0.62, turns_ago=2)]
    door.events = [
        pb.RespondResponse(recalled=memory.SearchResponse(hits=hits, model_digest="abc")),
        pb.RespondResponse(served=pb.Served(stage="writer", variant="b", card=WRITER)),
        pb.RespondResponse(text=pb.TextDelta(sentence="How is your cat?")),
        pb.RespondResponse(done=pb.Done(text="How is your cat?", turn="t3")),
    ]
    words = ["--text", "Hi.", "--person", "bob", "--conversation", "monday", "--keep-clips", "--out", tmp_path]
    status, printed, _ = await run("--tenant", "acme", "respond", *words)
    assert status == 0
    assert printed.splitlines()[:4] == [
        "recalled   2 turns ago, similarity 0.62: 'I have a cat.' (happy)",
        "served     writer (b) by SmolLM2 abcabcabcabc",
        "reply      How is your cat?",
        "kept       as turn t3",
    ]
    header = door.requests[0].header
    assert (header.tenant, header.person, header.conversation, header.keep_clips) == ("acme", "bob", "monday", True)
    record = json.loads((tmp_path / "reply.json").read_text("utf-8"))
    assert record["recalled"]["hits"][0]["turn"]["user_text"] == "I have a cat."


async def test_a_risk_is_told_and_the_country_is_sent(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    risk = common.Risk(
        kind=common.RISK_KIND_SELF_HARM,
        severity=common.RISK_SEVERITY_HIGH,
        confidence=0.97,
        source=common.RISK_SOURCE_CLASSIFIER,
    )
    door.events = [
        pb.RespondResponse(risk_raised=pb.RiskRaised(risk=risk, id="r-1")),
        pb.RespondResponse(done=pb.Done()),
    ]
    status, printed, _ = await run("respond", "--text", "Hi.", "--country", "DE", "--out", tmp_path)
    assert (status, door.requests[0].header.country) == (0, "DE")
    assert printed.splitlines()[0] == "risk       self harm, high (found by classifier, 97%)"
    assert json.loads((tmp_path / "reply.json").read_text("utf-8"))["risk_raised"]["id"] == "r-1"


async def test_a_tester_names_variants_of_the_stages(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    door.events = [pb.RespondResponse(done=pb.Done())]
    words = ["respond", "--text", "Hi.", "--out", tmp_path]
    assert (await run(*words))[0] == 0
    assert (await run(*words, "--variant", "tts=kokoro", "--variant", "mllm-text=b"))[0] == 0
    assert door.variants == ["tts=kokoro,mllm-text=b"]


async def test_a_film_is_sent_from_its_file_piece_by_piece(run: Run, door: FakeDoor, tmp_path: Path) -> None:
    film = bytes(range(256)) * 3000
    (tmp_path / "me.mp4").write_bytes(film)
    door.events = [pb.RespondResponse(done=pb.Done())]
    assert (await run("respond", "--video", tmp_path / "me.mp4", "--out", tmp_path))[0] == 0
    header, *pieces = door.requests
    assert header.header.video_size_bytes == len(film)
    assert len(pieces) == 3
    assert b"".join(piece.video for piece in pieces) == film


async def test_a_file_that_cannot_be_read_to_its_end_takes_the_call_back(door: FakeDoor) -> None:
    def parts() -> Iterator[pb_identities.ImportIdentityRequest]:
        yield pb_identities.ImportIdentityRequest(header=pb_identities.ImportIdentityHeader(tenant="default"))
        yield pb_identities.ImportIdentityRequest(content=ARCHIVE_END)  # were it the end, it would be a whole one
        raise OSError(5, "Input/output error", "anna.tar")

    def upload() -> None:
        with grpc.insecure_channel(door.address) as channel:
            send(identities_pb2_grpc.IdentityServiceStub(channel).ImportIdentity, parts())

    with pytest.raises(OSError, match="Input/output error"):
        await asyncio.to_thread(upload)


async def test_a_header_may_name_another_tenant_than_the_client(door: FakeDoor) -> None:
    door.events = [pb.RespondResponse(done=pb.Done())]

    def ask() -> None:
        with Client(door.address, "acme") as client:
            list(client.respond(pb.RespondHeader(text="Hi.", identity="anna")))
            list(client.respond(pb.RespondHeader(text="Hi.", identity="anna", tenant="other")))

    await asyncio.to_thread(ask)
    assert [request.header.tenant for request in door.requests] == ["acme", "other"]


async def start(door: FakeDoor, *words: str, stdout: int, **variables: str) -> asyncio.subprocess.Process:
    """The command as a process of its own."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'protos' / 'gen'}"} | variables
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "client.command", "--address", door.address, *words),
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Programs that are started can be interrupted, also when these tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
async def test_an_interrupted_command_ends_without_a_word(door: FakeDoor) -> None:
    door.may_answer.clear()
    running = await start(door, "memory", "turns", "anna", "--conversation", "c", stdout=asyncio.subprocess.PIPE)
    await door.asked.wait()
    running.send_signal(signal.SIGINT)
    told = await running.communicate()
    door.may_answer.set()
    assert (running.returncode, told) == (130, (b"", b""))


async def test_a_command_whose_output_nobody_reads_ends_without_a_word(door: FakeDoor) -> None:
    door.identities["default", "anna"] = [pb_identities.Identity(id="anna")]
    reading, writing = os.pipe()
    os.close(reading)
    running = await start(door, "identity", "list", stdout=writing)
    os.close(writing)
    _, told = await running.communicate()
    assert (running.returncode, told) == (141, b"")


async def test_what_was_said_is_printed_in_any_encoding(door: FakeDoor) -> None:
    door.identities["default", "anna"] = [pb_identities.Identity(id="anna")]
    door.identities["default", "anna"][0].profile.about = "Ñandú"
    running = await start(door, "identity", "list", stdout=asyncio.subprocess.PIPE, PYTHONIOENCODING="ascii")
    printed, told = await running.communicate()
    assert (running.returncode, told) == (0, b"")
    assert rb"\xd1and\xfa" in printed
