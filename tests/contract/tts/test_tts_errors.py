"""Which errors `tts.proto` promises, over a real channel."""

import asyncio
import math
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.tts.v1 import tts_pb2 as pb
from services.common.errors import BackendFailed, NotReady
from tests.fake_voice import FakeVoice
from tests.fakes import Gate, fail
from tests.samples import wav
from tests.serving import CallLog, refused
from tests.tts_service import FIRST, HASH, INVALID, MIB, VOICE, check, header, lending, read, reference, sentence, speak

if TYPE_CHECKING:
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub as Stub


# Speak


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
