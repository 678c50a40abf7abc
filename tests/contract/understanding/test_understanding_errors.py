"""Which messages `understanding.proto` promises to refuse, and what a voter's failing does, over a real channel."""

from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.understanding.v1 import understanding_pb2 as pb
from services.common.errors import BackendFailed
from services.mllm.domain import Modality, Transcript
from tests.deployment import Cast
from tests.fakes import Gate, fail
from tests.samples import film
from tests.serving import CallLog, refused
from tests.understanding_service import (
    AUDIO,
    INVALID,
    MIB,
    Panel,
    audio,
    context,
    header,
    understand,
    understand_text,
    video,
)

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub


# What is refused


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([context(), header("Hello.")], "header: missing"),
        ([header("x" * 4001), context()], "header.text: 4001 characters; send at most 4000"),
        ([header(audio=(32 << 20) + 1)], "header.audio_size_bytes: 33554433; send at most 33554432"),
        ([header(video=1 << 60)], "header.video_size_bytes: 1152921504606846976; send at most 33554432"),
        ([header("Hello.")], "context: nothing came instead; send it last"),
        ([header("Hello."), header("Hello.")], "context: header came instead"),
        ([header("Hello."), audio(AUDIO), context()], "context: audio came instead"),
        ([header(audio=100), context()], "audio: 0 of 100 bytes came; send the whole file"),
        ([header(audio=100), audio(bytes(60))], "audio: 60 of 100 bytes came"),
        ([header(video=100), video(bytes(60)), context()], "video: 60 of 100 bytes came"),
        ([header(audio=100), audio(bytes(101)), context()], "audio: more than 100 bytes"),
        ([header(audio=MIB + 1), audio(bytes(MIB + 1))], "audio: a message holds 1048577 bytes; send at most 1048576"),
        ([header(), context()], "text: the message is empty; send text, audio or video"),
        ([header(" \n"), context()], "text: the message is empty"),
        ([header(audio=9), audio(b"not audio"), context()], "audio: "),
        ([header("Hi.", video=9), video(b"not video"), context()], "video: "),
        ([header(audio=len(AUDIO)), audio(AUDIO[:44] + bytes(len(AUDIO) - 44)), context()], "audio: no sound"),
    ],
)
async def test_what_cannot_be_understood_is_refused_with_field_value_and_remedy(
    stub: "Stub", cast: Cast, parts: list[pb.UnderstandRequest], text: str
) -> None:
    with refused(INVALID, text):
        await understand(stub, *parts)
    assert cast.text.messages == []
    assert (await understand_text(stub)).emotion.label == "sad"  # it still works


async def test_a_film_without_sound_needs_words(stub: "Stub") -> None:
    silent = film(sound=False)
    with refused(INVALID, "video: it has no sound, so there are no words to answer; add text or an audio file"):
        await understand(stub, header(video=len(silent)), video(silent), context())
    answer = await understand(stub, header("I won!", video=len(silent)), video(silent), context())
    assert any("no sound track" in note for note in answer.notes)


@pytest.mark.parametrize("transcript", [Transcript("Thank you.", "en", 0.9), Transcript(" ", "en", 0.0)])
async def test_sound_without_words_is_refused_and_no_words_are_invented(
    stub: "Stub", cast: Cast, transcript: Transcript
) -> None:
    cast.lead.transcript = transcript
    with refused(INVALID, "audio: no speech was recognised in it; speak up, or add text"):
        await understand(stub, header(audio=len(AUDIO)), audio(AUDIO), context())


@pytest.mark.parametrize(("digest", "named"), [("0" * 64, "000000000000"), ("", "not named")])
async def test_a_caller_with_another_wheel_is_refused(stub: "Stub", digest: str, named: str) -> None:
    with refused(
        grpc.StatusCode.FAILED_PRECONDITION, f"header.ontology_hash: the caller's emotion wheel is {named}, this"
    ):
        await understand(stub, header("Hello.", ontology_hash=digest), context())


async def test_a_face_that_votes_ahead_is_stopped_when_the_message_turns_out_wrong(
    panel: Panel, cast: Cast, calls: CallLog
) -> None:
    cast.face.card = replace(cast.face.card, perceives=frozenset({Modality.VIDEO}))
    stub = await panel.start()
    cast.face.before = gate = Gate("predict")
    clip = film()
    call = stub.Understand(timeout=60)
    await call.write(header("I lost my job.", video=len(clip)))
    await call.write(video(clip))
    await gate.reached()
    await call.done_writing()
    with refused(INVALID, "context: nothing came instead"):
        await call
    (vote,) = await calls.ended("PredictEmotion")  # long before its own deadline
    assert vote.status == "CANCELLED"
    gate.open()


# Who fails


async def test_a_voter_that_cannot_tell_is_recorded_with_its_reason(stub: "Stub", cast: Cast) -> None:
    cast.face.abstain("no face in any frame")
    record = (await understand_text(stub)).record
    assert (record.votes[1].status, record.votes[1].reason) == (pb.VOTE_STATUS_ABSTAINED, "no face in any frame")
    assert record.votes[1].prediction.abstained == "no face in any frame"
    assert dict(record.tally) == {"sad": 2}


async def test_a_voter_that_fails_is_recorded_and_the_panel_goes_on(stub: "Stub", cast: Cast) -> None:
    cast.face.before = fail(BackendFailed("secret"))
    record = (await understand_text(stub)).record
    failed = record.votes[1]
    assert failed.status == pb.VOTE_STATUS_FAILED
    assert failed.reason == "mllm face: internal error; the log of the service has the details"
    assert not failed.HasField("prediction")
    assert dict(record.tally) == {"sad": 2}


async def test_a_voter_that_was_killed_is_recorded_and_the_panel_goes_on(stub: "Stub", panel: Panel) -> None:
    await understand_text(stub)
    await panel.stop("face")
    record = (await understand_text(stub)).record
    killed = record.votes[1]
    assert (killed.voter, killed.status) == ("face", pb.VOTE_STATUS_FAILED)
    assert killed.reason.startswith("mllm face: ")
    assert not killed.HasField("card")
    assert dict(record.tally) == {"sad": 2}


async def test_without_a_quorum_there_is_no_answer_and_every_fate_is_told(panel: Panel, cast: Cast) -> None:
    cast.quorum = 3
    stub = await panel.start()
    cast.face.abstain("no face in any frame")
    fates = (
        "2 of the 3 votes needed, and asking again does not help, since the other voters abstain:"
        " face abstained (no face in any frame)"
    )
    with refused(grpc.StatusCode.FAILED_PRECONDITION, fates):
        await understand_text(stub)


async def test_without_its_transcriber_the_panel_cannot_hear_but_can_read(stub: "Stub", panel: Panel) -> None:
    await panel.stop("lead")
    with refused(grpc.StatusCode.UNAVAILABLE, "mllm lead, which transcribes: "):
        await understand(stub, header(audio=len(AUDIO)), audio(AUDIO), context())
    assert dict((await understand_text(stub)).record.tally) == {"sad": 2}
