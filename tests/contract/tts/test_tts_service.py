"""What `tts.proto` promises of a voice that speaks, over a real channel."""

import asyncio
from typing import TYPE_CHECKING, cast

import grpc
import numpy as np
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from emotions import Wheel
from services.tts.domain import Delivery
from tests.fake_voice import FakeVoice
from tests.fakes import PATIENCE_S, Gate
from tests.model_services import serving_tts
from tests.serving import CallLog, refused
from tests.tts_service import (
    FIRST,
    HASH,
    MIB,
    VOICE,
    Speaking,
    header,
    read,
    reference,
    rest,
    sentence,
    speak,
    stand_in_line,
)

if TYPE_CHECKING:
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub as Stub


# GetModel


async def test_a_voice_says_what_it_is_and_what_it_has(stub: "Stub", voice: FakeVoice) -> None:
    model = await stub.GetModel(pb.GetModelRequest())
    assert model.card == common.ModelCard(backend="fake", model="fake voice", digest="5" * 64, ontology_hash=HASH)
    assert (tuple(model.styles), tuple(model.languages), model.sample_rate_hz) == (voice.styles, ("en",), 16_000)


# Speak


async def test_sentences_are_spoken_in_pieces_whose_times_count_from_the_start_of_the_reply(
    stub: "Stub", voice: FakeVoice
) -> None:
    texts = ["I am sorry.", "Tell me. Please."]
    first, *parts = await speak(stub, header(), *reference(), *map(sentence, texts))
    model = await stub.GetModel(pb.GetModelRequest())
    assert first.ready.fit_s > 0
    assert (first.ready.card, first.ready.sample_rate_hz) == (model.card, model.sample_rate_hz)
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


async def test_speech_that_nobody_wants_any_more_stops(stub: "Stub", voice: FakeVoice, calls: CallLog) -> None:
    voice.before = gate = Gate("speak", after=1)
    call = stub.Speak(iter([*FIRST, sentence("One. " * 100)]))
    await gate.reached()
    call.cancel()
    assert [call.status for call in await calls.ended("Speak")] == ["CANCELLED"]
    gate.open()
    await voice.stopped.happened()
    assert gate.came == 2


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
