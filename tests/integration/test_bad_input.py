"""Bad input gets an error that names field, value and remedy, and the services answer the next turn."""

import io
import struct
import wave
from collections.abc import Callable, Iterator

import av
import grpc
import numpy as np
import pytest

from client import Client, ClientError
from client.files import Content
from client.identities import Files
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from local.deployment import Deployment
from local.message import IDENTITIES, Spoken
from services.common.images import decode_image, encode_jpeg
from services.common.media import float_of_pcm
from tests.integration.conftest import Turn, gather

Take = Callable[..., Turn]
RATE_HZ = 16_000
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def wav(samples: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]", rate_hz: int = RATE_HZ) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sink:
        sink.setnchannels(samples.shape[1] if samples.ndim == 2 else 1)
        sink.setsampwidth(2)
        sink.setframerate(rate_hz)
        sink.writeframes((samples * 32767).astype("<i2").tobytes())
    return file.getvalue()


@pytest.fixture(autouse=True)
def services_stay_up(deployment: Deployment) -> Iterator[None]:
    before = {name: part.process and part.process.pid for name, part in deployment.components.items()}
    yield
    for name, part in deployment.components.items():
        assert part.process
        assert part.process.poll() is None, f"{name} died"
        assert part.process.pid == before[name]


@pytest.fixture(scope="module")
def hello(user_says: Callable[..., Spoken]) -> Spoken:
    return user_says("I feel happy because the sun is shining today.", "anna", "happy")


@pytest.mark.parametrize(
    ("header", "media", "status", "words"),
    [
        ({"text": ""}, {}, INVALID, ["text", "empty"]),
        ({"text": "  \n "}, {}, INVALID, ["text", "empty"]),
        ({"text": "x" * 4001}, {}, INVALID, ["text", "4001", "4000"]),
        ({"text": "hi", "identity": ""}, {}, INVALID, ["identity"]),
        ({"text": "hi", "identity": "nobody"}, {}, grpc.StatusCode.NOT_FOUND, ["nobody"]),
        ({"text": "hi", "identity": "../anna"}, {}, INVALID, ["identity", "../anna"]),
        ({"text": "hi", "conversation": "a/b"}, {}, INVALID, ["conversation", "a/b"]),
        ({"text": "hi", "reply_emotion": "hangry"}, {}, INVALID, ["reply_emotion", "hangry", "joyful"]),
        ({"text": "hi", "reply_intensity": 0.5}, {}, INVALID, ["reply_intensity"]),
        ({"text": "hi", "reply_emotion": "sad", "reply_intensity": 1.5}, {}, INVALID, ["reply_intensity", "1.5"]),
        ({"text": "hi", "policy": "cold"}, {}, INVALID, ["policy", "cold", "empathic"]),
        ({}, {"audio": b"not a sound at all, just text" * 10}, INVALID, ["audio"]),
        ({}, {"audio": wav(np.zeros(RATE_HZ, np.float32))}, INVALID, ["audio"]),
        ({}, {"audio": wav(np.zeros(RATE_HZ, np.float32))[:30]}, INVALID, ["audio"]),
        ({}, {"video": b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + b"\x07" * 4000}, INVALID, ["video"]),
        ({}, {"video": struct.pack(">I4s", 0xFFFFFFFF, b"mdat") + b"\0" * 100}, INVALID, ["video"]),
    ],
)
def test_is_refused(
    take: Take, header: dict[str, object], media: dict[str, bytes], status: grpc.StatusCode, words: list[str]
) -> None:
    with pytest.raises(ClientError) as caught:
        take(**({"identity": "anna", "output": pb.OUTPUT_TEXT} | header | media))
    assert caught.value.status is status, caught.value
    for word in words:
        assert word in caught.value.message


def test_bytes_that_are_not_utf8_are_refused(deployment: Deployment) -> None:
    with grpc.insecure_channel(deployment.address) as channel:
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/e3rg.orchestrator.v1.OrchestratorService/Respond"
        )
        # field 1 (header) of RespondRequest, in it field 1 (text) with a byte that UTF-8 never has
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([b"\x0a\x03\x0a\x01\xff"]), timeout=10))
    assert caught.value.code() in {INVALID, grpc.StatusCode.INTERNAL}


def test_a_huge_declared_size_is_refused_before_anything_is_sent(deployment: Deployment) -> None:
    header = pb.RespondHeader(identity="anna", audio_size_bytes=1 << 60)
    with grpc.insecure_channel(deployment.address) as channel:
        stub = orchestrator_pb2_grpc.OrchestratorServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            list(stub.Respond(iter([pb.RespondRequest(header=header)]), timeout=10))
    assert caught.value.code() is INVALID
    assert str(1 << 60) in str(caught.value.details())


def test_fewer_bytes_than_declared_are_refused(deployment: Deployment) -> None:
    parts = [
        pb.RespondRequest(header=pb.RespondHeader(identity="anna", audio_size_bytes=1000)),
        pb.RespondRequest(audio=b"\0" * 10),
    ]
    with grpc.insecure_channel(deployment.address) as channel, pytest.raises(grpc.RpcError) as caught:
        list(orchestrator_pb2_grpc.OrchestratorServiceStub(channel).Respond(iter(parts), timeout=10))
    assert caught.value.code() is INVALID
    assert "10 of 1000 bytes" in str(caught.value.details())


@pytest.mark.parametrize("rate_hz", [8_000, 96_000])
def test_other_sample_rates_and_stereo_are_handled_and_noted(take: Take, hello: Spoken, rate_hz: int) -> None:
    samples = float_of_pcm(hello.pcm)
    times = np.arange(0, len(samples), hello.sample_rate_hz / rate_hz)
    resampled = np.interp(times, np.arange(len(samples)), samples).astype(np.float32)
    turn = take(audio=wav(np.stack([resampled, resampled], axis=1), rate_hz), identity="anna", output=pb.OUTPUT_TEXT)
    assert "happy" in turn.understood.text.lower()
    assert any(str(rate_hz) in note for note in turn.understood.notes)
    assert any("channels" in note for note in turn.understood.notes)


def test_a_truncated_wav_is_refused_or_noted(take: Take, hello: Spoken) -> None:
    cut = hello.wav[: len(hello.wav) // 2]
    try:
        turn = take(audio=cut, identity="anna", output=pb.OUTPUT_TEXT)
    except ClientError as error:
        assert error.status is INVALID
        assert "audio" in error.message
    else:
        assert turn.understood.notes


def test_a_video_without_sound_needs_text(take: Take, user_films: Callable[..., bytes]) -> None:
    silent = _without_sound(user_films("We won the final, I can hardly believe it!", "kenji", "joyful"))
    with pytest.raises(ClientError) as caught:
        take(video=silent, identity="anna", output=pb.OUTPUT_TEXT)
    assert caught.value.status is INVALID
    assert "no sound" in caught.value.message
    turn = take(video=silent, text="Look at us!", identity="anna", output=pb.OUTPUT_TEXT)
    assert {vote.voter for vote in turn.understood.record.votes if vote.status == 1} >= {"face", "text"}


def test_a_video_without_a_face_makes_the_face_voter_abstain(take: Take, hello: Spoken) -> None:
    turn = take(video=_blank_video(hello.wav), text="", identity="anna", output=pb.OUTPUT_TEXT)
    face = next(vote for vote in turn.understood.record.votes if vote.voter == "face")
    assert face.status == 2
    assert "face" in face.reason


@pytest.mark.parametrize(
    ("portrait", "words"),
    [
        (b"no picture", ["portrait", "PNG"]),
        ("noise", ["portrait", "face"]),
        ("two", ["portrait", "2 faces"]),
    ],
)
def test_a_portrait_without_one_usable_face_is_refused(client: Client, portrait: bytes | str, words: list[str]) -> None:
    content = portrait if isinstance(portrait, bytes) else _picture(portrait)
    before = {identity.id for identity in client.identities.all()}
    with pytest.raises(ClientError) as caught:
        client.identities.add(_new_identity(), _files(content))
    assert caught.value.status is INVALID
    for word in words:
        assert word in caught.value.message.lower() or word in caught.value.message
    assert {identity.id for identity in client.identities.all()} == before


def test_an_identity_can_be_added_used_and_erased(client: Client) -> None:
    files = _files(IDENTITIES / "ingrid" / "portrait.png")
    client.identities.add(_new_identity(), files)
    try:
        turn = gather(client.respond(pb.RespondHeader(text="Good morning!", identity="newcomer")))
        assert turn.mp4
        with pytest.raises(ClientError) as caught:
            client.identities.add(_new_identity(), files)
        assert caught.value.status is grpc.StatusCode.ALREADY_EXISTS
    finally:
        audit = client.erasure.identity("newcomer", "a test")
    assert {count.kind: count.objects for count in audit.counts}["references"] == len(files)
    with pytest.raises(ClientError) as caught:
        client.identities.get("newcomer")
    assert caught.value.status is grpc.StatusCode.NOT_FOUND


def _new_identity() -> identities.AddIdentityHeader:
    return identities.AddIdentityHeader(
        id="newcomer",
        profile=common.Profile(name="New", age="elderly", gender="female", timbre="mid", language="en"),
        grants=[
            identities.Grant(use=use, granted_by="a test", granted_on="2026-11-21")
            for use in ("animate_face", "clone_voice", "infer_emotion", "keep_turns")
        ],
    )


def _files(portrait: Content) -> Files:
    return [
        (identities.REFERENCE_KIND_PORTRAIT, portrait),
        (identities.REFERENCE_KIND_VOICE, IDENTITIES / "anna" / "voice.wav"),
    ]


def _picture(kind: str) -> bytes:
    if kind == "noise":
        image = np.random.default_rng(0).integers(0, 255, (512, 512, 3)).astype(np.uint8)
    else:
        pair = [
            decode_image((IDENTITIES / name / "portrait.png").read_bytes(), "portrait") for name in ("anna", "kenji")
        ]
        image = np.hstack(pair)
    return encode_jpeg(image)


def _without_sound(mp4: bytes) -> bytes:
    sink = io.BytesIO()
    with av.open(io.BytesIO(mp4), mode="r") as source, av.open(sink, "w", format="mp4") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    return sink.getvalue()


def _blank_video(speech_wav: bytes) -> bytes:
    sink = io.BytesIO()
    with av.open(io.BytesIO(speech_wav), mode="r") as source, av.open(sink, "w", format="mp4") as target:
        video = target.add_stream("libx264", rate=25)
        video.width = video.height = 256
        video.pix_fmt = "yuv420p"
        audio = target.add_stream("aac", rate=source.streams.audio[0].rate, layout="mono")
        for _ in range(50):
            frame = av.VideoFrame.from_ndarray(np.full((256, 256, 3), 90, np.uint8), format="rgb24")
            target.mux(video.encode(frame))
        for sound in source.decode(audio=0):
            target.mux(audio.encode(sound))
        target.mux(video.encode(None))
        target.mux(audio.encode(None))
    return sink.getvalue()
