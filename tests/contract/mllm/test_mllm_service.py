"""What `mllm.proto` promises of a model, its votes and its transcripts, over a real channel."""

from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from emotions import Wheel
from services.mllm.domain import Modality, Utterance
from tests.fake_voters import FakeLead, FakeVoter
from tests.mllm_service import HASH, INVALID, MIB, audio, frame, head, stub_of
from tests.model_services import serving_mllm
from tests.samples import jpeg, pcm
from tests.serving import refused

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub


# GetModel


async def test_a_model_says_what_it_is_and_all_that_it_can_do(stub: "Stub") -> None:
    model = await stub.GetModel(pb.GetModelRequest())
    assert model.card == common.ModelCard(
        backend="fake", model="fake voter", digest="v" * 64, ontology_hash=HASH, prompt_version="prompt-1"
    )
    assert set(model.operations) == {pb.OPERATION_PREDICT, pb.OPERATION_WRITE, pb.OPERATION_TRANSCRIBE}
    assert set(model.perceives) == {common.MODALITY_TEXT, common.MODALITY_AUDIO, common.MODALITY_VIDEO}
    assert model.level == pb.LEVEL_LABEL


async def test_a_model_that_only_votes_says_so(voter_stub: "Stub") -> None:
    model = await voter_stub.GetModel(pb.GetModelRequest())
    assert list(model.operations) == [pb.OPERATION_PREDICT]
    assert model.level == pb.LEVEL_CLASS


async def test_perceives_names_every_modality(voter: FakeVoter, wheel: Wheel) -> None:
    voter.card = replace(voter.card, perceives=frozenset({Modality.VIDEO}))
    async with serving_mllm("face", voter, wheel) as served:
        model = await stub_of(served).GetModel(pb.GetModelRequest())
    assert list(model.perceives) == [common.MODALITY_VIDEO]


# PredictEmotion


async def test_the_model_gets_the_whole_message_and_its_vote_comes_back(stub: "Stub", lead: FakeLead) -> None:
    first = head()
    first.header.history.add(speaker=common.SPEAKER_USER, text="Hello.", emotion="happy")
    first.header.history.add(speaker=common.SPEAKER_AVATAR, text="Hello!")
    sound = pcm(0.5)
    parts = [first, audio(sound[:1000]), frame(jpeg(40, 30), 0.5), audio(sound[1000:]), frame(jpeg(20, 10), 1.5)]
    answer = await stub.PredictEmotion(iter(parts))
    (message,) = lead.messages
    assert message.text == "I lost my job."
    assert message.history == (Utterance("user", "Hello.", "happy"), Utterance("avatar", "Hello!"))
    assert message.audio is not None
    assert message.audio.dtype == np.float32
    np.testing.assert_allclose(message.audio, np.frombuffer(sound, "<i2") / 32768, atol=1e-7)
    assert [(one.time_s, one.image.shape) for one in message.frames] == [(0.5, (30, 40, 3)), (1.5, (10, 20, 3))]
    assert (answer.label, answer.face_class, answer.level) == ("sad", "sad", pb.LEVEL_LABEL)
    assert dict(answer.evidence) == {"words": "counted"}
    assert (list(answer.saw), answer.parse, answer.abstained) == ([common.MODALITY_TEXT], "scored", "")
    assert answer.distribution["lonely"] == pytest.approx(0.3)
    assert sum(answer.distribution.values()) == pytest.approx(1)
    assert answer.card == (await stub.GetModel(pb.GetModelRequest())).card


async def test_a_vote_over_classes_is_spread_over_all_labels_and_says_its_level(
    voter_stub: "Stub", wheel: Wheel
) -> None:
    answer = await voter_stub.PredictEmotion(iter([head()]))
    assert answer.level == pb.LEVEL_CLASS
    assert (answer.label, answer.face_class) == ("sad", "sad")
    assert set(answer.distribution) == set(wheel.labels)
    assert wheel.gather(answer.distribution)["happy"] == pytest.approx(0.3, abs=1e-5)


async def test_to_abstain_is_an_answer(voter_stub: "Stub", voter: FakeVoter) -> None:
    voter.abstain("no face in any frame")
    answer = await voter_stub.PredictEmotion(iter([head()]))
    assert answer.abstained == "no face in any frame"
    assert (answer.label, answer.face_class, dict(answer.distribution)) == ("", "", {})


async def test_a_message_may_hold_no_text_and_the_longest_may_be_sent(stub: "Stub", lead: FakeLead) -> None:
    await stub.PredictEmotion(iter([head(text="")]))
    await stub.PredictEmotion(iter([head(text="ä" * 4000)]))
    assert [len(message.text) for message in lead.messages] == [0, 4000]
    assert lead.messages[0].audio is None
    assert lead.messages[0].frames == ()


UNKNOWN_SPEAKER = head()
UNKNOWN_SPEAKER.header.history.add(speaker=common.SPEAKER_USER, text="Hello.")
UNKNOWN_SPEAKER.header.history.add(text="Who said this?")
TALL = jpeg(8, 4097)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([audio(pcm(0.1)), head()], "part: audio is out of order; send one header first"),
        ([head(), head()], "part: header is out of order"),
        ([head(), pb.PredictEmotionRequest()], "part: nothing is out of order"),
        ([head("x" * 4001)], "header.text: 4001 characters; send at most 4000"),
        ([UNKNOWN_SPEAKER], "header.history[1].speaker: 0; use SPEAKER_USER or SPEAKER_AVATAR"),
        ([head(), audio(b"odd")], "audio: 3 bytes; PCM s16le has two bytes a sample"),
        ([head(), audio(bytes(MIB + 2))], "audio: a message holds 1048578 bytes; send at most 1048576"),
        ([head(), audio(bytes(MIB)), audio(bytes(MIB))], "audio: more than 1920000 bytes"),
        ([head(), frame(b"GIF89a")], "frame.jpeg: 6 bytes that are no JPEG or PNG"),
        ([head(), frame(b"")], "frame.jpeg: 0 bytes that are no JPEG or PNG"),
        ([head(), frame(jpeg()[:300])], "frame.jpeg: the image is damaged"),
        ([head(), frame(TALL)], "frame.jpeg: the image is 8x4097 px; send at most 4096 px a side"),
        ([head(), frame(jpeg() + bytes(MIB))], "send at most 1048576"),
        ([head(), *[frame(jpeg(8, 8))] * 65], "frame: more than 64 frames; send fewer"),
    ],
)
async def test_a_malformed_message_is_refused_with_field_value_and_remedy(
    stub: "Stub", lead: FakeLead, parts: list[pb.PredictEmotionRequest], text: str
) -> None:
    with refused(INVALID, text):
        await stub.PredictEmotion(iter(parts))
    assert lead.messages == []
    assert (await stub.PredictEmotion(iter([head()]))).label == "sad"  # it still works


@pytest.mark.parametrize(("digest", "named"), [("0" * 64, "000000000000"), ("", "not named")])
async def test_a_caller_with_another_wheel_is_refused(stub: "Stub", digest: str, named: str) -> None:
    text = f"header.ontology_hash: the caller's emotion wheel is {named}, this service's is {HASH[:12]}"
    with refused(grpc.StatusCode.FAILED_PRECONDITION, text):
        await stub.PredictEmotion(iter([head(ontology_hash=digest)]))


@pytest.mark.parametrize("distribution", [{"sad": 0.5}, {"meh": 1.0}, {}])
async def test_a_model_whose_vote_is_no_distribution_has_failed(
    voter_stub: "Stub", voter: FakeVoter, distribution: dict[str, float]
) -> None:
    voter.prediction = replace(voter.prediction, distribution=distribution)
    with refused(grpc.StatusCode.INTERNAL, "internal error"):
        await voter_stub.PredictEmotion(iter([head()]))


# Transcribe


async def test_speech_is_transcribed(stub: "Stub", lead: FakeLead) -> None:
    sound = pcm(40)
    parts = [pb.TranscribeRequest(audio=sound[at : at + MIB]) for at in range(0, len(sound), MIB)]
    assert len(parts) == 2
    answer = await stub.Transcribe(iter(parts))
    assert (answer.text, answer.language) == ("I lost my job.", "en")
    assert answer.no_speech == pytest.approx(0.1)
    assert len(lead.heard[0]) == 40 * 16_000


async def test_a_model_without_ears_cannot_transcribe(voter_stub: "Stub") -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED, "face cannot transcribe"):
        await voter_stub.Transcribe(iter([pb.TranscribeRequest(audio=pcm(0.1))]))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "audio: empty; send PCM s16le, mono, 16000 Hz"),
        ([b""], "audio: empty"),
        ([b"odd"], "audio: 3 bytes"),
        ([bytes(MIB + 2)], "audio: a message holds 1048578 bytes"),
        ([bytes(MIB)] * 2, "audio: more than 1920000 bytes"),
    ],
)
async def test_audio_that_cannot_be_transcribed_is_refused(stub: "Stub", parts: list[bytes], text: str) -> None:
    with refused(INVALID, text):
        await stub.Transcribe(pb.TranscribeRequest(audio=part) for part in parts)
