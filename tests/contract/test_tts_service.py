"""Every promise of `tts.proto`, over a real channel."""

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TYPE_CHECKING, cast

import grpc
import numpy as np
import pytest
from prometheus_client import REGISTRY

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from emotions import Wheel
from services.common.errors import BackendFailed, NotReady
from services.tts.domain import Delivery, Profile
from tests.deployment import serving_tts
from tests.fakes import PATIENCE_S, FakeVoice, Gate, fail
from tests.samples import wav
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub as Stub

HASH = emotions.load().digest
VOICE = wav()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
Speaking = grpc.aio.StreamStreamCall[pb.SpeakRequest, pb.SpeakResponse]


@pytest.fixture
def voice() -> FakeVoice:
    return FakeVoice()


@pytest.fixture
async def stub(voice: FakeVoice, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_tts(voice, wheel, waiting_max=0) as served:
        yield cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel))


def header(
    label: str = "caring",
    intensity: float = 0.5,
    ontology_hash: str = HASH,
    style: str = "friendly",
    content: bytes = VOICE,
    digest: str = "",
    size_bytes: int = -1,
) -> pb.SpeakRequest:
    return pb.SpeakRequest(
        header=pb.SpeakHeader(
            emotion=common.Emotion(label=label, intensity=intensity, ontology_hash=ontology_hash),
            style=style,
            profile=common.Profile(name="Ada", age="young", gender="female", timbre="mid"),
            voices=[
                pb.VoiceFile(
                    digest=digest or hashlib.sha256(content).hexdigest(),
                    size_bytes=len(content) if size_bytes < 0 else size_bytes,
                )
            ],
        )
    )


def reference(content: bytes = VOICE) -> list[pb.SpeakRequest]:
    return [pb.SpeakRequest(voice=content[at : at + MIB]) for at in range(0, len(content), MIB)]


def lending(recordings: list[bytes], fitted_size_bytes: int = 0) -> pb.SpeakRequest:
    request = header()
    files = [pb.VoiceFile(digest=hashlib.sha256(each).hexdigest(), size_bytes=len(each)) for each in recordings]
    request.header.ClearField("voices")
    request.header.voices.extend(files)
    request.header.fitted_size_bytes = fitted_size_bytes
    return request


def sentence(text: str) -> pb.SpeakRequest:
    return pb.SpeakRequest(sentence=text)


async def speak(stub: "Stub", *parts: pb.SpeakRequest) -> list[pb.SpeakResponse]:
    return [part async for part in stub.Speak(iter(parts), timeout=20)]


async def read(call: Speaking) -> pb.SpeakResponse:
    return cast("pb.SpeakResponse", await call.read())


async def rest(call: Speaking) -> list[pb.SpeakResponse]:
    parts = []
    while (part := await call.read()) is not grpc.aio.EOF:
        parts.append(cast("pb.SpeakResponse", part))
    return parts


# GetModel


async def test_a_voice_says_what_it_is_and_what_it_has(stub: "Stub", voice: FakeVoice) -> None:
    model = await stub.GetModel(pb.GetModelRequest())
    assert model.card == common.ModelCard(backend="fake", model="fake voice", digest="5" * 64, ontology_hash=HASH)
    assert (tuple(model.styles), tuple(model.languages), model.sample_rate_hz) == (voice.styles, ("en",), 16_000)


# CheckVoice


async def check(stub: "Stub", *pieces: bytes) -> pb.CheckVoiceResponse:
    return await stub.CheckVoice(pb.CheckVoiceRequest(audio=piece) for piece in pieces)


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


async def test_sentences_are_spoken_in_pieces_whose_times_count_from_the_start_of_the_reply(
    stub: "Stub", voice: FakeVoice
) -> None:
    texts = ["I am sorry.", "Tell me. Please."]
    first, *parts = await speak(stub, header(), *reference(), *map(sentence, texts))
    assert first.ready.fit_s > 0
    kinds = [part.WhichOneof("part") for part in parts]
    assert kinds == ["chunk", "chunk", "sentence_end", "chunk", "chunk", "chunk", "chunk", "sentence_end"]
    ends = [part.sentence_end for part in parts if part.HasField("sentence_end")]
    assert [end.sentence for end in ends] == texts
    assert [end.duration_s for end in ends] == [0.5, 1.0]
    assert dict(ends[0].applied) == {"rate": 1.5}
    chunks = [part.chunk for part in parts if part.HasField("chunk")]
    assert {chunk.sample_rate_hz for chunk in chunks} == {16_000}
    samples = np.frombuffer(b"".join(chunk.samples for chunk in chunks), "<i2")
    assert len(samples) == 1.5 * 16_000
    assert samples.max() == pytest.approx(8000, rel=0.01)
    sounds = [sound for chunk in chunks for sound in chunk.phonemes]
    assert [(sound.symbol, sound.viseme) for sound in sounds] == [("m", "PP"), ("a", "aa")] * 3
    assert [sound.start_s for sound in sounds] == pytest.approx([0.0, 0.2, 0.5, 0.7, 1.0, 1.2])
    spoken_s = 0.0
    for chunk in chunks:  # each sound comes with the piece in which it begins
        end_s = spoken_s + len(chunk.samples) / 2 / 16_000
        assert all(spoken_s - 1e-9 <= sound.start_s < end_s for sound in chunk.phonemes)
        spoken_s = end_s
    assert voice.spoken == [(text, Delivery("friendly", 0.5)) for text in texts]


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


async def stand_in_line(stub: "Stub", count: int) -> None:
    """Waits until so many calls wait for the model."""
    async with asyncio.timeout(20):
        while REGISTRY.get_sample_value("e3rg_queue_length", {"stage": "tts", "model": "fake"}) != count:
            await stub.GetModel(pb.GetModelRequest())


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


async def test_callers_take_turns_text_by_text(wheel: Wheel) -> None:
    voice = FakeVoice()
    voice.before = gate = Gate("speak")
    async with serving_tts(voice, wheel) as served:
        stub = cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel))
        one, other = stub.Speak(timeout=20), stub.Speak(timeout=20)
        for call in (one, other):
            for part in FIRST:
                await call.write(part)
            assert (await read(call)).HasField("ready")
        for text in ("One.", "Two.", "Three."):
            await one.write(sentence(text))
        await gate.reached()
        await other.write(sentence("And me."))
        await stand_in_line(stub, 1)
        gate.open()
        for call in (one, other):
            await call.done_writing()
        await asyncio.gather(rest(one), rest(other))
    assert voice.asked == [["One."], ["And me."], ["Two."], ["Three."]]


async def test_sentences_that_wait_are_spoken_in_one_go_and_end_one_by_one(stub: "Stub", voice: FakeVoice) -> None:
    voice.texts_max = 8
    voice.before = gate = Gate("speak")
    call = stub.Speak(timeout=20)
    for part in (*FIRST, sentence("One.")):
        await call.write(part)
    await gate.reached()
    for number in range(10):
        await call.write(sentence(f"{number}. And."))
    await call.done_writing()
    gate.open()
    parts = await rest(call)
    ends = [part.sentence_end for part in parts if part.HasField("sentence_end")]
    assert [end.sentence for end in ends] == ["One.", *(f"{number}. And." for number in range(10))]
    assert [end.duration_s for end in ends] == [0.5] + [1.0] * 10
    assert [text for asked in voice.asked for text in asked] == [end.sentence for end in ends]
    assert voice.asked[0] == ["One."]
    assert max(map(len, voice.asked)) <= 8


async def test_a_sentence_is_heard_before_the_next_is_written(stub: "Stub") -> None:
    call = stub.Speak(timeout=20)
    for part in (header(), *reference()):
        await call.write(part)
    assert (await read(call)).HasField("ready")
    for text in ("First.", "Second."):
        await call.write(sentence(text))
        kinds = [(await read(call)).WhichOneof("part") for _ in range(3)]
        assert kinds == ["chunk", "chunk", "sentence_end"]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_a_piece_of_a_long_sentence_is_sent_while_the_rest_is_still_spoken(
    stub: "Stub", voice: FakeVoice
) -> None:
    voice.before = gate = Gate("speak", after=1)
    call = stub.Speak(iter([header(), *reference(), sentence("One. Two.")]), timeout=20)
    assert [(await read(call)).WhichOneof("part") for _ in range(3)] == ["ready", "chunk", "chunk"]
    await gate.reached()
    gate.open()
    assert [part.WhichOneof("part") for part in await rest(call)] == ["chunk", "chunk", "sentence_end"]


async def test_no_piece_is_larger_than_a_message_may_be(stub: "Stub", voice: FakeVoice) -> None:
    voice.sentence_s = 45.0  # 1.4 MB
    parts = await speak(stub, header(), *reference(), sentence("A long one."))
    sizes = [len(part.chunk.samples) for part in parts if part.HasField("chunk")]
    assert sum(sizes) == 45 * 16_000 * 2
    assert max(sizes) <= MIB


FIRST = [header(), *reference()]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([sentence("Hello."), *FIRST], "header: missing; send it first"),
        ([*reference(), header()], "header: missing"),
        ([header(label="meh"), *reference()], "header.emotion.label: 'meh'; use one of: neutral"),
        ([header(label=""), *reference()], "header.emotion.label: ''; use one of"),
        ([header(intensity=1.5), *reference()], "header.emotion.intensity: 1.5; send 0 to 1"),
        ([header(intensity=math.nan), *reference()], "header.emotion.intensity: nan; send 0 to 1"),
        ([header(style="operatic"), *reference()], "header.style: 'operatic'; use one of: default, friendly"),
        ([header(style=""), *reference()], "header.style: ''; use one of"),
        ([header(digest="0" * 64), *reference()], "header.voices.digest: '000"),
        ([header(size_bytes=0)], "header.voices.size_bytes: 0; send at least 1 byte each"),
        (
            [header(size_bytes=(16 << 20) + 1)],
            "header.voices.size_bytes: 16777217; send at least 1 byte each and at most 16777216 together",
        ),
        ([header(size_bytes=1 << 60)], "header.voices.size_bytes: 1152921504606846976; send at least 1"),
        ([lending([])], "header.voices: 0 recordings; send 1 to 8"),
        ([lending([VOICE] * 9)], "header.voices: 9 recordings; send 1 to 8"),
        ([lending([VOICE, b""])], "header.voices.size_bytes: 38444 + 0; send at least 1 byte each"),
        ([lending([VOICE], fitted_size_bytes=MIB + 1)], "header.fitted_size_bytes: 1048577; send at most 1048576"),
        ([lending([VOICE], fitted_size_bytes=5), *reference()], "fitted: 0 of 5 bytes came"),
        ([header(size_bytes=10), *reference()], "voice: more than 10 bytes"),
        ([header(), reference()[0], sentence("x")][::2], "voice: 0 of 38444 bytes came; send the whole file"),
        ([header(), pb.SpeakRequest(voice=VOICE[:10])], "voice: 10 of 38444 bytes came"),
        ([header(), pb.SpeakRequest(voice=bytes(MIB + 1))], "voice: a message holds 1048577 bytes"),
        ([header(content=b"no wav"), *reference(b"no wav")], "voice: not a PCM WAV file"),
        ([*FIRST, header()], "part: header is out of order; only sentences follow the voice"),
        ([*FIRST, sentence("Hi."), *reference()], "part: voice is out of order"),
        ([*FIRST, pb.SpeakRequest()], "part: None is out of order"),
        ([*FIRST, sentence("")], "sentence: empty; send something to say"),
        ([*FIRST, sentence(" \n")], "sentence: empty"),
        ([*FIRST, sentence("...")], "sentence: '...' holds no sound"),
        ([*FIRST, sentence("x" * 2001)], "sentence: 2001 characters; send at most 2000"),
    ],
)
async def test_what_cannot_be_spoken_is_refused_with_field_value_and_remedy(
    stub: "Stub", parts: list[pb.SpeakRequest], text: str
) -> None:
    with refused(INVALID, text):
        await speak(stub, *parts)
    assert await speak(stub, *FIRST, sentence("x" * 1999 + "."))  # it still works


@pytest.mark.parametrize(("digest", "named"), [("0" * 64, "000000000000"), ("", "not named")])
async def test_a_caller_with_another_wheel_is_refused(stub: "Stub", digest: str, named: str) -> None:
    text = f"header.emotion.ontology_hash: the caller's emotion wheel is {named}, this service's is {HASH[:12]}"
    with refused(grpc.StatusCode.FAILED_PRECONDITION, text):
        await speak(stub, header(ontology_hash=digest), *reference())


async def test_the_sentences_before_a_wrong_one_are_spoken(stub: "Stub") -> None:
    call = stub.Speak(iter([*FIRST, sentence("Good."), sentence("")]), timeout=20)
    assert [(await read(call)).WhichOneof("part") for _ in range(4)] == ["ready", "chunk", "chunk", "sentence_end"]
    with refused(INVALID, "sentence: empty"):
        await call.read()


async def test_speech_that_nobody_wants_any_more_stops(stub: "Stub", voice: FakeVoice, calls: CallLog) -> None:
    voice.before = gate = Gate("speak", after=1)
    call = stub.Speak(iter([*FIRST, sentence("One. " * 100)]))
    await gate.reached()
    call.cancel()
    assert [call.status for call in await calls.ended("Speak")] == ["CANCELLED"]
    gate.open()
    await voice.stopped.happened()
    assert gate.came == 2


# Errors of every RPC


def _rpcs(stub: "Stub") -> Iterator[Awaitable[object]]:
    yield check(stub, wav(0.5))
    yield speak(stub, *FIRST, sentence("Hello."))


async def test_a_model_that_fails_is_an_internal_error_without_details(
    stub: "Stub", voice: FakeVoice, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (BackendFailed("secret"), RuntimeError("secret")):
        voice.before = fail(error)
        for call in _rpcs(stub):
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await call
            assert failure.value.code() is grpc.StatusCode.INTERNAL
            assert failure.value.details() == "internal error; the log of the service has the details"
    assert caplog.text.count("call failed") == 4


async def test_a_model_that_loads_or_drains_is_unavailable(stub: "Stub", voice: FakeVoice) -> None:
    voice.before = fail(NotReady("the model is being closed; retry"))
    for call in _rpcs(stub):
        with refused(grpc.StatusCode.UNAVAILABLE, "the model is being closed; retry"):
            await call


async def test_a_full_line_refuses_and_says_when_to_come_again(stub: "Stub", voice: FakeVoice) -> None:
    voice.before = gate = Gate("prepare")
    working = asyncio.create_task(speak(stub, *FIRST))
    await gate.reached()
    for call in _rpcs(stub):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert int(dict(failure.value.trailing_metadata() or ())["retry-after-ms"]) > 0
    gate.open()
    assert len(await working) == 1


async def test_a_reply_that_has_begun_is_spoken_to_its_end_when_the_line_is_full(
    stub: "Stub", voice: FakeVoice
) -> None:
    spoken: Speaking = stub.Speak(timeout=PATIENCE_S)
    for part in (*FIRST, sentence("First.")):
        await spoken.write(part)
    async for answer in spoken:
        if answer.HasField("sentence_end"):
            break
    voice.before = gate = Gate("speak")
    other = asyncio.create_task(speak(stub, *FIRST, sentence("Hello.")))
    await gate.reached()
    await spoken.write(sentence("Second."))
    await spoken.done_writing()
    reading = asyncio.ensure_future(anext(aiter(spoken)))
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
        await stub.CheckVoice(iter([pb.CheckVoiceRequest(audio=VOICE)]))
    gate.open()
    assert (await reading).HasField("chunk")
    assert await other


async def test_a_call_is_given_up_at_its_deadline_and_the_model_is_free_again(
    stub: "Stub", voice: FakeVoice, calls: CallLog
) -> None:
    voice.before = gate = Gate("speak")
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        async for _ in stub.Speak(iter([*FIRST, sentence("Hello.")]), timeout=0.2):
            pass
    await calls.ended("Speak")
    gate.open()
    await voice.stopped.happened()
    assert await speak(stub, *FIRST, sentence("Hello."))
