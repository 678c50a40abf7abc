"""Every promise of `video.proto`, over a real channel."""

import asyncio
import gc
import hashlib
import io
import math
import struct
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TYPE_CHECKING, cast

import av
import grpc
import numpy as np
import pytest

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from services.common.errors import BackendFailed, NotReady
from services.video.domain import Expression, VisemeSpan
from tests.contract.test_video_films import check_film
from tests.fake_faces import FakeFace, FakePainter
from tests.fakes import Gate, fail
from tests.model_services import serving_video
from tests.samples import film as small_film
from tests.samples import jpeg, pcm, png
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub as Stub

HASH = emotions.load().digest
PORTRAIT = png()
FILM = small_film()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
Filming = grpc.aio.StreamStreamCall[pb.AnimateRequest, pb.AnimateResponse]


@pytest.fixture
def face() -> FakeFace:
    return FakeFace()


@pytest.fixture
async def stub(face: FakeFace, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_video(face, wheel, waiting_max=0) as served:
        yield cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))


def header(
    label: str = "caring",
    intensity: float = 0.5,
    ontology_hash: str = HASH,
    face_class: str = "happy",
    content: bytes = PORTRAIT,
    digest: str = "",
    size_bytes: int = -1,
    rate_hz: int = 16_000,
    seed: int = 0,
    rigged_size_bytes: int = 0,
) -> pb.AnimateRequest:
    return pb.AnimateRequest(
        header=pb.AnimateHeader(
            emotion=common.Emotion(label=label, intensity=intensity, ontology_hash=ontology_hash),
            face_class=face_class,
            portrait_digest=digest or hashlib.sha256(content).hexdigest(),
            sample_rate_hz=rate_hz,
            seed=seed,
            portrait_size_bytes=len(content) if size_bytes < 0 else size_bytes,
            rigged_size_bytes=rigged_size_bytes,
        )
    )


def portrait(content: bytes = PORTRAIT) -> list[pb.AnimateRequest]:
    return [pb.AnimateRequest(portrait=content[at : at + MIB]) for at in range(0, len(content), MIB)]


def speech(samples: bytes, *sounds: common.Phoneme) -> pb.AnimateRequest:
    return pb.AnimateRequest(speech=pb.SpeechChunk(samples=samples, phonemes=sounds))


async def animate(stub: "Stub", *parts: pb.AnimateRequest) -> list[pb.AnimateResponse]:
    return [part async for part in stub.Animate(iter(parts), timeout=20)]


async def read(call: Filming) -> pb.AnimateResponse:
    return cast("pb.AnimateResponse", await call.read())


async def rest(call: Filming) -> list[pb.AnimateResponse]:
    parts = []
    while (part := await call.read()) is not grpc.aio.EOF:
        parts.append(cast("pb.AnimateResponse", part))
    return parts


def boxes(content: bytes) -> list[str]:
    """The names of an MP4's outermost boxes; fails when the last is not whole."""
    names, at = [], 0
    while at < len(content):
        size, name = struct.unpack_from(">I4s", content, at)
        names.append(name.decode())
        at += size
    assert at == len(content)
    return names


# GetModel


async def test_a_face_says_what_it_is_and_what_it_has(stub: "Stub", face: FakeFace) -> None:
    model = await stub.GetModel(pb.GetModelRequest())
    assert model.card == common.ModelCard(backend="fake", model="fake face", digest="f" * 64, ontology_hash=HASH)
    assert (tuple(model.face_classes), model.fps, model.size_px) == (face.classes, 25, 64)


# CheckPortrait


async def check(stub: "Stub", *pieces: bytes) -> pb.CheckPortraitResponse:
    return await stub.CheckPortrait(pb.CheckPortraitRequest(image=piece) for piece in pieces)


@pytest.mark.parametrize("content", [png(40, 30), jpeg(40, 30)])
async def test_a_picture_that_can_be_a_face_is_told_its_size(stub: "Stub", content: bytes) -> None:
    size = await check(stub, content[:50], content[50:])
    assert (size.width_px, size.height_px) == (40, 30)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([], "portrait: 0 bytes that are no JPEG or PNG; send one of these"),
        ([b"GIF89a"], "portrait: 6 bytes that are no JPEG or PNG"),
        ([png()[:-30]], "portrait: the image is damaged"),
        ([png(8, 4097)], "portrait: the image is 8x4097 px; send at most 4096 px a side"),
        ([png(colour=(0, 0, 0))], "portrait: no face in it; send a photograph of one face"),
        ([bytes(MIB + 1)], "portrait: a message holds 1048577 bytes; send at most 1048576"),
        ([bytes(MIB)] * 16 + [b"x"], "portrait: more than 16777216 bytes"),
    ],
)
async def test_what_cannot_be_a_face_is_refused_with_the_reason(stub: "Stub", pieces: list[bytes], text: str) -> None:
    with refused(INVALID, text):
        await check(stub, *pieces)


# Animate


@pytest.mark.parametrize(("seconds", "rate_hz"), [(1.0, 16_000), (0.93, 24_000), (0.01, 8_000), (2.5, 48_000)])
async def test_the_film_plays_and_covers_the_audio_to_the_end(stub: "Stub", seconds: float, rate_hz: int) -> None:
    sound = pcm(seconds, rate_hz)
    step = round(0.4 * rate_hz) * 2
    parts = [speech(sound[at : at + step]) for at in range(0, len(sound), step)]
    first, *film_parts = await animate(stub, header(rate_hz=rate_hz), *portrait(), *parts)
    assert first.ready.rig_s > 0
    assert first.ready.card == (await stub.GetModel(pb.GetModelRequest())).card
    assert first.ready.mime_type.startswith('video/mp4; codecs="avc1.')
    chunks = [part.chunk for part in film_parts if not part.rigged]
    assert all(0 < len(chunk) <= MIB for chunk in chunks)
    assert boxes(chunks[0]) == ["ftyp", "moov"]
    *fragments, index = [boxes(chunk) for chunk in chunks[1:]]
    assert fragments
    assert all(fragment == ["moof", "mdat"] for fragment in fragments)
    assert index == ["mfra"]
    with av.open(io.BytesIO(b"".join(chunks)), mode="r") as film:
        kinds = {(stream.type, stream.codec_context.name) for stream in film.streams}
        assert kinds == {("video", "h264"), ("audio", "aac")}
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
        assert len(frames) == math.ceil(round(seconds * 25, 6))
        assert frames[0].shape == (64, 64, 3)
        assert np.abs(frames[0].astype(int).mean(axis=(0, 1)) - (200, 1, 30)).max() < 12
        film.seek(0)
        heard = sum(frame.samples for frame in film.decode(audio=0)) / film.streams.audio[0].rate
    assert len(frames) / 25 == pytest.approx(heard, abs=0.08)


async def test_video_is_sent_before_the_speech_has_ended(stub: "Stub") -> None:
    call = stub.Animate(timeout=20)
    for part in (header(), *portrait()):
        await call.write(part)
    assert [(await read(call)).WhichOneof("part") for _ in range(2)] == ["ready", "rigged"]
    await call.write(speech(pcm(1.0)))
    received = [await read(call), await read(call)]
    assert [boxes(part.chunk)[-1] for part in received] == ["moov", "mdat"]
    await call.done_writing()
    assert await rest(call)


async def test_the_face_gets_what_it_shall_show_and_what_is_said(stub: "Stub", face: FakeFace) -> None:
    sounds = [common.Phoneme(symbol="m", viseme="PP", start_s=0.1, duration_s=0.2)]
    await animate(stub, header(seed=7), *portrait(), speech(pcm(0.4), *sounds), speech(pcm(0.2)))
    assert face.shown == [(Expression("happy", 0.5), 7)]
    assert [span for fed in face.fed for span in fed.visemes] == [VisemeSpan("PP", 0.1, 0.2)]
    assert [len(fed.samples) for fed in face.fed] == [6400, 3200]
    assert {fed.sample_rate_hz for fed in face.fed} == {16_000}
    np.testing.assert_array_equal(face.fed[0].samples, np.frombuffer(pcm(0.4), "<i2"))


async def test_a_portrait_is_rigged_once(stub: "Stub", face: FakeFace) -> None:
    cut = [pb.AnimateRequest(portrait=PORTRAIT[:50]), pb.AnimateRequest(portrait=PORTRAIT[50:])]
    assert (await animate(stub, header(), *cut))[0].ready.rig_s > 0
    assert (await animate(stub, header(), *portrait()))[0].ready.rig_s == 0
    (rigged,) = face.prepared
    assert (rigged.digest, rigged.image.shape) == (hashlib.sha256(PORTRAIT).hexdigest(), (64, 64, 3))


FIRST = [header(), *portrait()]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([speech(pcm(0.1)), *FIRST], "header: missing"),
        ([*portrait(), header()], "header: missing"),
        ([header(label="meh"), *portrait()], "header.emotion.label: 'meh'; use one of: neutral"),
        ([header(intensity=-0.5), *portrait()], "header.emotion.intensity: -0.5; send 0 to 1"),
        ([header(intensity=math.nan), *portrait()], "header.emotion.intensity: nan; send 0 to 1"),
        ([header(face_class="smug"), *portrait()], "header.face_class: 'smug'; use one of: neutral, happy, sad"),
        ([header(face_class=""), *portrait()], "header.face_class: ''; use one of"),
        ([header(digest="0" * 64), *portrait()], "header.portrait_digest: '000"),
        ([header(rate_hz=0), *portrait()], "header.sample_rate_hz: 0; send 8000 to 48000"),
        ([header(rate_hz=96_000), *portrait()], "header.sample_rate_hz: 96000; send 8000 to 48000"),
        ([header(size_bytes=0)], "header.portrait_size_bytes: 0; send 1 to 16777216"),
        ([header(size_bytes=1 << 60)], "header.portrait_size_bytes: 1152921504606846976; send 1 to"),
        ([header(size_bytes=10), *portrait()], "portrait: more than 10 bytes"),
        ([header(rigged_size_bytes=1 << 25)], "header.rigged_size_bytes: 33554432; send 0 to 16777216"),
        (
            [header(rigged_size_bytes=5), *portrait()],
            "rigged: 0 of 5 bytes came; send the whole file",
        ),
        ([header(), pb.AnimateRequest(rigged=b"x"), *portrait()], f"portrait: 0 of {len(PORTRAIT)} bytes came"),
        ([*FIRST, pb.AnimateRequest(rigged=b"x")], "part: rigged is out of order; only speech follows the portrait"),
        ([header(), speech(pcm(0.1))], f"portrait: 0 of {len(PORTRAIT)} bytes came; send the whole file"),
        ([header(), pb.AnimateRequest(portrait=PORTRAIT[:9])], f"portrait: 9 of {len(PORTRAIT)} bytes came"),
        ([header(), pb.AnimateRequest(portrait=bytes(MIB + 1))], "portrait: a message holds 1048577 bytes"),
        ([header(content=b"no png"), *portrait(b"no png")], "portrait: 6 bytes that are no JPEG or PNG"),
        ([header(content=png(colour=(0, 0, 0))), *portrait(png(colour=(0, 0, 0)))], "portrait: no face in it"),
        ([*FIRST, header()], "part: header is out of order; only speech follows the portrait"),
        ([*FIRST, speech(pcm(0.1)), *portrait()], "part: portrait is out of order"),
        ([*FIRST, pb.AnimateRequest()], "part: None is out of order"),
        ([*FIRST, speech(b"odd")], "speech.samples: 3 bytes; PCM s16le has two bytes a sample"),
        ([*FIRST, speech(bytes(MIB + 2))], "speech.samples: 1048578 bytes; send at most 1048576"),
    ],
)
async def test_what_cannot_be_animated_is_refused_with_field_value_and_remedy(
    stub: "Stub", parts: list[pb.AnimateRequest], text: str
) -> None:
    with refused(INVALID, text):
        await animate(stub, *parts)
    assert len(await animate(stub, *FIRST, speech(pcm(0.1)))) > 1  # it still works


@pytest.mark.parametrize(("digest", "named"), [("0" * 64, "000000000000"), ("", "not named")])
async def test_a_caller_with_another_wheel_is_refused(stub: "Stub", digest: str, named: str) -> None:
    text = f"header.emotion.ontology_hash: the caller's emotion wheel is {named}, this service's is {HASH[:12]}"
    with refused(grpc.StatusCode.FAILED_PRECONDITION, text):
        await animate(stub, header(ontology_hash=digest), *portrait())


async def test_a_film_that_nobody_wants_any_more_stops(stub: "Stub", face: FakeFace, calls: CallLog) -> None:
    face.before = gate = Gate("feed", after=1)
    call = stub.Animate(iter([*FIRST, speech(pcm(10))]))
    await gate.reached()
    call.cancel()
    assert [call.status for call in await calls.ended("Animate")] == ["CANCELLED"]
    gate.open()
    await face.stopped.happened()
    assert gate.came < 250


@pytest.mark.parametrize(("face", "held"), [(FakeFace(), "feed"), (FakePainter(), "frame")])
async def test_the_encoders_of_a_film_that_nobody_wants_any_more_are_freed(
    face: FakeFace, held: str, wheel: Wheel, calls: CallLog
) -> None:
    gc.collect()
    gc.disable()  # which would free them too, some time
    try:
        async with serving_video(face, wheel) as served:
            stub = cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))
            face.before = gate = Gate(held, after=1)
            first = header()
            first.header.duration_s = 0.8
            call = stub.Animate(iter([first, *portrait(), speech(pcm(0.8))]))
            await gate.reached()
            call.cancel()
            await calls.ended("Animate")
            gate.open()
            await check(stub, PORTRAIT)  # the model's thread is through with the film
            assert not [thing for thing in gc.get_objects() if isinstance(thing, av.container.OutputContainer)]
    finally:
        gc.enable()


# Errors of every RPC


def _rpcs(stub: "Stub") -> Iterator[Awaitable[object]]:
    yield check(stub, png(20, 20))
    yield check_film(stub, FILM)
    yield animate(stub, *FIRST, speech(pcm(0.1)))


async def test_a_model_that_fails_is_an_internal_error_without_details(
    stub: "Stub", face: FakeFace, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (BackendFailed("secret"), RuntimeError("secret")):
        face.before = fail(error)
        for call in _rpcs(stub):
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await call
            assert failure.value.code() is grpc.StatusCode.INTERNAL
            assert failure.value.details() == "internal error; the log of the service has the details"
    assert caplog.text.count("call failed") == 6


async def test_a_model_that_loads_or_drains_is_unavailable(stub: "Stub", face: FakeFace) -> None:
    face.before = fail(NotReady("the model is being closed; retry"))
    for call in _rpcs(stub):
        with refused(grpc.StatusCode.UNAVAILABLE, "the model is being closed; retry"):
            await call


async def test_a_full_line_refuses_and_says_when_to_come_again(stub: "Stub", face: FakeFace) -> None:
    face.before = gate = Gate("prepare")
    working = asyncio.create_task(animate(stub, *FIRST, speech(pcm(0.1))))
    await gate.reached()
    for call in _rpcs(stub):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert int(dict(failure.value.trailing_metadata() or ())["retry-after-ms"]) > 0
    gate.open()
    assert len(await working) > 1


async def test_a_call_is_given_up_at_its_deadline_and_the_model_is_free_again(
    stub: "Stub", face: FakeFace, calls: CallLog
) -> None:
    face.before = gate = Gate("feed")
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        async for _ in stub.Animate(iter([*FIRST, speech(pcm(1))]), timeout=0.2):
            pass
    await calls.ended("Animate")
    gate.open()
    await face.stopped.happened()
    assert len(await animate(stub, *FIRST, speech(pcm(0.1)))) > 1
