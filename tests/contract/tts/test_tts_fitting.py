"""What `tts.proto` promises of recordings: which can be a voice, and when one is fitted, over a real channel."""

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, cast

import pytest

from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from emotions import Wheel
from services.tts.domain import Profile
from tests.fake_voice import FakeVoice
from tests.fakes import Gate
from tests.model_services import serving_tts
from tests.samples import wav
from tests.serving import refused
from tests.tts_service import (
    FIRST,
    INVALID,
    MIB,
    VOICE,
    check,
    header,
    lending,
    reference,
    sentence,
    speak,
    stand_in_line,
)

if TYPE_CHECKING:
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub as Stub


# CheckVoice


async def test_a_recording_that_can_be_a_voice_is_told_its_length(stub: "Stub") -> None:
    assert (await check(stub, VOICE[:100], VOICE[100:])).duration_s == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([], "voice: not a PCM WAV file"),
        ([b"an mp3"], "voice: not a PCM WAV file"),
        ([VOICE[:-100]], "voice: cut off"),
        ([VOICE[:44] + bytes(len(VOICE) - 44)], "voice: it is silent"),
        ([wav(61, 8000)], "voice: 61 s long; send at most 60 s"),
        ([bytes(MIB + 1)], "voice: a message holds 1048577 bytes; send at most 1048576"),
        ([bytes(MIB)] * 16 + [b"x"], "voice: more than 16777216 bytes"),
    ],
)
async def test_what_cannot_be_a_voice_is_refused_with_the_reason(stub: "Stub", pieces: list[bytes], text: str) -> None:
    with refused(INVALID, text):
        await check(stub, *pieces)


async def test_a_recording_is_only_listened_to_and_neither_fitted_nor_kept(stub: "Stub", voice: FakeVoice) -> None:
    await check(stub, VOICE)
    assert voice.prepared == []
    assert (await speak(stub, *FIRST))[0].ready.fit_s > 0


# Speak


async def test_the_voice_is_fitted_once_to_the_reference_that_was_lent(stub: "Stub", voice: FakeVoice) -> None:
    cut = [pb.SpeakRequest(voice=VOICE[:100]), pb.SpeakRequest(voice=VOICE[100:])]
    assert (await speak(stub, header(), *cut))[0].ready.fit_s > 0
    assert (await speak(stub, header(), *reference()))[0].ready.fit_s == 0
    ((lent, profile),) = voice.prepared
    assert (lent.digest, lent.sample_rate_hz) == (hashlib.sha256(VOICE).hexdigest(), 16_000)
    assert profile == Profile("young", "female", "mid", "en")


async def test_a_voice_is_fitted_to_all_its_recordings(stub: "Stub", voice: FakeVoice) -> None:
    recordings = [wav(1.2), wav(3.0, 8_000)]
    assert (await speak(stub, lending(recordings), *reference(b"".join(recordings))))[0].ready.fit_s > 0
    lent = [(reference.digest, reference.sample_rate_hz) for reference, _ in voice.prepared]
    assert lent == [
        (hashlib.sha256(each).hexdigest(), rate) for each, rate in zip(recordings, (16_000, 8_000), strict=True)
    ]


async def test_a_fitted_voice_spares_the_fitting_where_it_is_sent(wheel: Wheel) -> None:
    first, second = FakeVoice(), FakeVoice()
    async with serving_tts(first, wheel) as one, serving_tts(second, wheel) as other:
        stubs = [cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel)) for served in (one, other)]
        fitted = (await speak(stubs[0], *FIRST))[0].ready.fitted
        again = [lending([VOICE], len(fitted)), pb.SpeakRequest(fitted=fitted), *reference()]
        ready = (await speak(stubs[1], *again, sentence("Hello.")))[0].ready
        assert (ready.fit_s, ready.fitted) == (0, b"")
        assert (second.prepared, second.restored) == ([], [b"a fitted voice"])
        assert [text for text, _ in second.spoken] == ["Hello."]
        assert (await speak(stubs[1], *FIRST))[0].ready.fitted == fitted  # who sends none is given it


@pytest.mark.parametrize(
    "other", ["another recording", "another profile", "another model", "another fitting", "garbage", "another format"]
)
async def test_a_fitted_voice_of_something_else_is_not_used(wheel: Wheel, other: str) -> None:
    first, second = FakeVoice(), FakeVoice()
    lent = wav(2.0) if other == "another recording" else VOICE
    before = lending([lent])
    if other == "another profile":
        before.header.profile.age = "elderly"
    if other == "another model":
        first.digest = "6" * 64
    if other == "another fitting":
        first.fitting = 2
    async with serving_tts(first, wheel) as one, serving_tts(second, wheel) as two:
        stubs = [cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel)) for served in (one, two)]
        fitted = (await speak(stubs[0], before, *reference(lent)))[0].ready.fitted
        fitted = b"x" * 100 if other == "garbage" else fitted
        if other == "another format":
            fitted = fitted.replace(b"a fitted voice", b"what is that")
        ready = (await speak(stubs[1], lending([VOICE], len(fitted)), pb.SpeakRequest(fitted=fitted), *reference()))[0]
        assert ready.ready.fit_s > 0
        assert ready.ready.fitted.endswith(b"a fitted voice")
        assert (len(second.prepared), second.restored) == (1, [])


async def test_a_stale_fitted_voice_is_replaced_also_where_the_voice_is_known(stub: "Stub") -> None:
    fitted = (await speak(stub, *FIRST))[0].ready.fitted
    stale = bytes(len(fitted))
    ready = (await speak(stub, lending([VOICE], len(stale)), pb.SpeakRequest(fitted=stale), *reference()))[0].ready
    assert (ready.fit_s, ready.fitted) == (0, fitted)


async def test_the_wait_in_line_is_no_time_of_fitting(wheel: Wheel) -> None:
    voice = FakeVoice()
    voice.before = gate = Gate("check")
    async with serving_tts(voice, wheel) as served:
        stub = cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel))
        checking = asyncio.ensure_future(check(stub, VOICE))
        await gate.reached()
        speaking = asyncio.create_task(speak(stub, *FIRST))
        await stand_in_line(stub, 1)
        for _ in range(50):  # that takes longer than a stand-in takes to fit
            await stub.GetModel(pb.GetModelRequest())
        opened_s = time.monotonic()
        gate.open()
        ready = (await speaking)[0].ready
        assert 0 < ready.fit_s < time.monotonic() - opened_s
        await checking
