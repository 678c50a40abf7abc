"""The `e3rg` command and the client under it, against a running deployment with fake models."""

import asyncio
import io
import json
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import av
import grpc
import pytest

from client import Client, ClientError, command
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from services.common.errors import BackendFailed
from tests.deployment import ALL_USES, PORTRAIT, VOICE, Cast, Deployment
from tests.fakes import Gate, fail
from tests.samples import film, png
from tests.serving import CallLog

Run = Callable[..., Awaitable[tuple[int, str, str]]]
REPLY = "I am sorry to hear that. Tell me more."


@pytest.fixture
def cast() -> Cast:
    cast = Cast()
    cast.add_identity("anna")
    return cast


@pytest.fixture
async def deployment(cast: Cast) -> AsyncIterator[Deployment]:
    running = Deployment()
    await running.start(cast)
    yield running
    await running.stop_all()


@pytest.fixture
def run(deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; returns its exit status, and what it printed and complained of."""

    async def now(*words: str | Path) -> tuple[int, str, str]:
        arguments = ["--address", deployment.served["orchestrator"].address, *map(str, words)]
        status = await asyncio.to_thread(command.main, arguments)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return now


async def test_a_reply_becomes_a_film_a_record_and_lines_for_a_person(run: Run, tmp_path: Path) -> None:
    (tmp_path / "reply.wav").write_text("of an earlier reply")
    status, printed, complaint = await run("respond", "--text", "I lost my job.", "--out", tmp_path)
    assert (status, complaint) == (0, "")
    with av.open(io.BytesIO((tmp_path / "reply.mp4").read_bytes()), mode="r") as reply:
        assert sum(1 for _ in reply.decode(video=0)) == 25
    assert not (tmp_path / "reply.wav").exists()
    record = json.loads((tmp_path / "reply.json").read_text("utf-8"))
    assert record["done"]["text"] == " ".join(record["text"]) == REPLY
    assert record["understood"]["record"]["label"] == "sad"
    assert record["identity"]["identity"]["id"] == "anna"
    assert 0 < record["first_audio_s"] <= record["first_video_s"] <= record["total_s"]
    assert {row["stage"] for row in record["timings"]} >= {"recall", "vote", "reply", "speech", "video", "turn"}
    for voter in ("text", "face", "lead"):
        assert f"vote       {voter:8} sad" in printed
    assert "emotion    sad, by majority: sad 3; tie-break: none" in printed
    assert "mapped     voice style friendly\n" in printed
    assert "served     tts by fake voice 555555555555\n" in printed
    assert sorted(each["stage"] for each in record["served"]) == ["tts", "video", "writer"]
    assert "reply      I am sorry to hear that." in printed
    assert f"written    {tmp_path / 'reply.mp4'}, {tmp_path / 'reply.json'}" in printed


async def test_wishes_and_files_are_sent(run: Run, cast: Cast, tmp_path: Path) -> None:
    (tmp_path / "me.mp4").write_bytes(film())
    words = ["--video", tmp_path / "me.mp4", "--emotion", "joyful", "--intensity", "0.5", "--output", "audio"]
    status, printed, _ = await run("respond", *words, "--seed", "7", "--out", tmp_path / "new" / "folder")
    assert status == 0
    assert "heard      'I lost my job.'" in printed
    assert "answers    joyful at 0.50, by request" in printed
    assert cast.lead.orders[0].seed == 7
    with wave.open(str(tmp_path / "new" / "folder" / "reply.wav")) as sound:
        assert (sound.getnframes(), sound.getframerate(), sound.getnchannels()) == (16_000, 16_000, 1)


async def test_the_quality_of_the_video_is_asked_for_and_told(run: Run, tmp_path: Path) -> None:
    status, printed, _ = await run("respond", "--text", "Hello.", "--quality", "full", "--out", tmp_path)
    assert status == 0
    assert "video      in quality full\n" in printed
    assert json.loads((tmp_path / "reply.json").read_text("utf-8"))["video_qualities"] == ["full"]
    status, _, complaint = await run("respond", "--text", "Hello.", "--quality", "finest", "--out", tmp_path)
    assert status == 1
    assert "header.quality: 'finest'; use one of: full" in complaint


async def test_a_refused_message_leaves_the_earlier_reply_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "reply.mp4").write_bytes(film())
    status, _, complaint = await run(
        "respond", "--video", tmp_path / "reply.mp4", "--identity", "nobody", "--out", tmp_path
    )
    assert status == 1
    assert "NOT_FOUND" in complaint
    assert (tmp_path / "reply.mp4").read_bytes() == film()


async def test_an_empty_file_is_refused_by_its_name(run: Run, tmp_path: Path) -> None:
    (tmp_path / "zero.mp4").touch()
    status, _, complaint = await run("respond", "--text", "Hello.", "--video", tmp_path / "zero.mp4")
    assert status == 1
    assert complaint == f"e3rg: {tmp_path / 'zero.mp4'}: the file is empty\n"


async def test_what_arrived_of_a_reply_that_breaks_off_is_kept(run: Run, cast: Cast, tmp_path: Path) -> None:
    cast.lead.before = fail(BackendFailed("out of ink"))
    status, printed, complaint = await run("respond", "--text", "Hello.", "--out", tmp_path)
    assert status == 1
    assert "INTERNAL" in complaint
    assert json.loads((tmp_path / "reply.json").read_text("utf-8"))["understood"]["text"] == "Hello."
    assert "written" in printed


async def test_what_was_dropped_is_said(run: Run, cast: Cast, tmp_path: Path) -> None:
    cast.portrait.before = fail(BackendFailed("secret"))
    status, printed, _ = await run("respond", "--text", "Hello.", "--out", tmp_path)
    assert status == 0
    assert "degraded   video: without video (video: internal error" in printed
    assert not (tmp_path / "reply.mp4").exists()
    assert (tmp_path / "reply.wav").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--text", ""], "e3rg: INVALID_ARGUMENT: header.text: the message is empty; send text, audio or video"),
        (["--text", "Hi.", "--identity", "bob"], "e3rg: NOT_FOUND: identity 'bob' is unknown"),
        (["--text", "Hi.", "--emotion", "meh"], "e3rg: INVALID_ARGUMENT: header.reply_emotion: 'meh'"),
        (["--audio", "nowhere.wav"], "e3rg: nowhere.wav: No such file or directory"),
    ],
)
async def test_what_is_refused_is_told_in_one_line(run: Run, tmp_path: Path, words: list[str], complaint: str) -> None:
    status, _, told = await run("respond", *words, "--out", tmp_path)
    assert status != 0
    assert told.splitlines()[-1].startswith(complaint)
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--text", "caf\udce9"], r"argument --text: 'caf\udce9' is not UTF-8; check the terminal's locale"),
        (["--text", "Hi.", "--seed", "-1"], "argument --seed: '-1' is no number; give 0 to 4294967295"),
        (["--text", "Hi.", "--seed", "4294967296"], "argument --seed: '4294967296' is no number"),
        (["--text", "Hi.", "--timeout", "nan"], "argument --timeout: 'nan' is no length of time; give seconds"),
        (["--text", "Hi.", "--timeout", "0"], "argument --timeout: '0' is no length of time"),
        (["--text", "Hi.", "--timeout", "soon"], "argument --timeout: 'soon' is no length of time"),
        (["--text", "Hi.", "--variant", "tts"], "argument --variant: 'tts' names no variant; give STAGE=VARIANT"),
        (["--text", "Hi.", "--output", "smell"], "argument --output: invalid choice: 'smell'"),
    ],
)
def test_words_that_make_no_request_are_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["respond", *words])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


async def test_an_identity_is_added_answers_and_is_erased(run: Run, cast: Cast, tmp_path: Path) -> None:
    (tmp_path / "eve.png").write_bytes(PORTRAIT)
    (tmp_path / "eve.wav").write_bytes(VOICE)
    files = ["--portrait", tmp_path / "eve.png", "--voice", tmp_path / "eve.wav"]
    uses = ["--grant", "animate_face", "--grant", "clone_voice", "--grant", "infer_emotion", "--grant", "keep_turns"]
    who = ["--age", "elderly", "--gender", "female", "--timbre", "low", *uses, "--granted-by", "Eve"]
    assert (await run("identity", "add", "eve", *files, *who))[:2] == (0, "added eve\n")
    assert "eve: Eve, elderly, female, low voice, en" in (await run("identity", "show", "eve"))[1]
    words = ["--text", "Hello.", "--identity", "eve", "--conversation", "c", "--output", "text", "--out", tmp_path]
    status, printed, _ = await run("respond", *words)
    assert status == 0
    assert "kept       as turn " in printed
    assert (await run("memory", "turns", "eve", "--conversation", "c"))[1].count("'Hello.'") == 1
    status, printed, _ = await run("identity", "erase", "eve", "--asked-by", "Eve", "--yes")
    assert (status, printed.splitlines()[0]) == (0, "erased     identity eve, asked for by Eve")
    assert (await run("identity", "show", "eve"))[0] == 1


async def test_a_turn_that_stands_alone_or_may_not_be_kept_is_told_so(run: Run, cast: Cast, tmp_path: Path) -> None:
    words = ["--text", "Hello.", "--output", "text", "--out", tmp_path]
    assert "not kept   it stood alone: name a --conversation\n" in (await run("respond", *words))[1]
    cast.add_identity("eve", tuple(use for use in ALL_USES if use != "keep_turns"))
    printed = (await run("respond", *words, "--identity", "eve", "--conversation", "c"))[1]
    assert "degraded   remember: without " in printed
    assert "not kept   as said above\n" in printed


async def test_a_portrait_that_cannot_be_used_is_refused_with_the_reason(run: Run, tmp_path: Path) -> None:
    (tmp_path / "eve.png").write_bytes(png(colour=(0, 0, 0)))
    (tmp_path / "eve.wav").write_bytes(VOICE)
    files = ["--portrait", tmp_path / "eve.png", "--voice", tmp_path / "eve.wav"]
    who = ["--age", "young", "--gender", "female", "--grant", "keep_turns", "--granted-by", "Eve"]
    status, _, complaint = await run("identity", "add", "eve", *files, *who)
    assert status == 1
    assert complaint.startswith("e3rg: INVALID_ARGUMENT: ")
    assert "no face in it; send a photograph of one face" in complaint


async def test_the_status_fails_when_a_service_is_gone(run: Run, deployment: Deployment) -> None:
    status, printed, _ = await run("status")
    assert status == 0
    assert printed.count(" ready") == 8
    await deployment.stop("tts")
    status, printed, _ = await run("status")
    assert status == 1
    assert "NOT READY  tts: " in printed


async def test_a_deployment_that_is_not_there_is_told(run: Run, deployment: Deployment) -> None:
    await deployment.stop("orchestrator")
    status, _, complaint = await run("identity", "list")
    assert (status, complaint.startswith("e3rg: UNAVAILABLE: ")) == (1, True)


async def test_closing_the_events_cancels_the_turn(deployment: Deployment, cast: Cast, calls: CallLog) -> None:
    cast.lead.before = gate = Gate("write", after=1)

    def take_one() -> str | None:
        with Client(deployment.served["orchestrator"].address) as client:
            events = client.respond(pb.RespondHeader(text="Hello.", identity="anna"))
            for timed in events:
                if timed.event.WhichOneof("event") == "text":
                    events.close()  # type: ignore[attr-defined]  # it is a generator
                    return timed.event.text.sentence
        return None

    assert await asyncio.to_thread(take_one) == "I am sorry to hear that."
    assert [ended.status for ended in await calls.ended("Respond")] == ["CANCELLED"]
    gate.open()
    await cast.lead.stopped.happened()


async def test_a_failure_has_its_status_and_its_text(deployment: Deployment) -> None:
    def ask() -> None:
        with Client(deployment.served["orchestrator"].address) as client:
            client.identities.get("bob")

    with pytest.raises(ClientError, match="NOT_FOUND: identity 'bob' is unknown") as failure:
        await asyncio.to_thread(ask)
    assert failure.value.status is grpc.StatusCode.NOT_FOUND
