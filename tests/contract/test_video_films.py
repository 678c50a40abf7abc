"""Whether a film can be a reference: what CheckFilm promises, over a real channel."""

import io
import random
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, cast

import av
import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from services.common.errors import TooLarge
from services.common.media import chunks
from services.video.footage import LOOKS, inspect
from tests.fake_faces import FakeFace
from tests.fakes import Gate
from tests.model_services import serving_video
from tests.samples import film, moving, pcm, wav
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub as Stub

Picture = NDArray[np.uint8]
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
FACE: Picture = np.full((64, 64, 3), 160, np.uint8)
NOBODY: Picture = np.zeros((64, 64, 3), np.uint8)
FAST = {"preset": "ultrafast"}
NOISE: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, (20, 64, 64, 3), np.uint8)
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov"}
INDEX_IN_FRONT = {"moov_size": "10000"}
SMALL = moving([FACE] * 40)


class Judge(FakeFace):
    """Holds what is dark for nobody, and what is dim for somebody who is turned away."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []
        """How bright the pictures were."""

    def flaw(self, image: Picture) -> str:
        self.before("flaw")
        self.seen.append(float(image.mean()))
        return "no face" if self.seen[-1] < 40 else "turned away" if self.seen[-1] < 90 else ""


@pytest.fixture
def face() -> Judge:
    return Judge()


@pytest.fixture
async def stub(face: Judge, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_video(face, wheel) as served:
        yield cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))


def header(size_bytes: int) -> pb.CheckFilmRequest:
    return pb.CheckFilmRequest(header=pb.CheckFilmHeader(size_bytes=size_bytes))


def pieces(content: bytes) -> list[pb.CheckFilmRequest]:
    return [pb.CheckFilmRequest(content=piece) for piece in chunks(content)]


async def check_film(stub: "Stub", content: bytes) -> pb.CheckFilmResponse:
    return await stub.CheckFilm(iter([header(len(content)), *pieces(content)]), timeout=20)


@pytest.mark.parametrize(
    ("content", "duration_s"),
    [
        (moving([FACE] * 30), 3.0),
        (moving([FACE] * 30, kind="webm", codec="libvpx"), 3.0),
        (moving([FACE] * 30, kind="webm", codec="libvpx-vp9"), 3.0),
        (moving([FACE] * 30, kind="webm", codec="libvpx", parts={"live": "1"}), 3.0),
        (moving([FACE] * 30, parts=FRAGMENTED), 3.0),
        (film(1.0), 1.0),
        (moving([FACE] * 60, fps=1), 60.0),
        (moving([FACE]), 0.1),
    ],
    ids=[
        "mp4",
        "webm",
        "vp9",
        "webm as it is recorded",
        "mp4 as it is recorded",
        "with sound",
        "the longest",
        "one picture",
    ],
)
async def test_a_film_of_one_face_can_be_a_reference(stub: "Stub", content: bytes, duration_s: float) -> None:
    found = await check_film(stub, content)
    # The last picture of a WebM may say nothing of how long it is shown.
    assert found.duration_s == pytest.approx(duration_s, abs=0.11)
    assert found.face_share == 1.0


async def test_most_of_a_film_shows_one_face_or_it_is_refused_with_figures_and_reasons(stub: "Stub") -> None:
    assert (await check_film(stub, moving([*[NOBODY] * 4, *[FACE] * 20]))).face_share == pytest.approx(20 / 24)
    away = np.full_like(FACE, 70)
    text = (
        "film: exactly one usable face in 19 of the 24 pictures looked at (turned away in 3, no face in 2); send a "
        "film in which at least 80% show one person who looks at the camera, well lit"
    )
    with refused(INVALID, text):
        await check_film(stub, moving([NOBODY, NOBODY, *[FACE] * 19, away, away, away]))


@pytest.mark.parametrize("keys", ["1", "7", "250"])
async def test_pictures_are_looked_at_over_the_whole_length_in_order(stub: "Stub", face: Judge, keys: str) -> None:
    shades = range(95, 235)
    await check_film(stub, moving([np.full_like(FACE, shade) for shade in shades], fps=20, options={"g": keys}))
    assert len(face.seen) == LOOKS
    assert face.seen == sorted(face.seen)
    assert face.seen[0] == pytest.approx(shades[0], abs=4)
    assert face.seen[-1] > shades[0] + len(shades) * (LOOKS - 2) / LOOKS
    assert max(np.diff(face.seen)) < 2 * len(shades) / LOOKS


def truncated(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


def claiming(content: bytes, box: bytes, count: int) -> bytes:
    """An MP4 whose table of samples says that there are `count`."""
    at = content.index(box) + 12
    return content[:at] + struct.pack(">I", count) + content[at + 4 :]


def only_sound() -> bytes:
    file = io.BytesIO()
    with av.open(file, mode="w", format="mp4") as container:
        audio = container.add_stream("aac", rate=16_000, layout="mono")
        heard = av.AudioFrame.from_ndarray(np.frombuffer(pcm(1.0), "<i2")[None], format="s16", layout="mono")
        heard.sample_rate = 16_000
        container.mux(audio.encode(heard))
        container.mux(audio.encode(None))
    return file.getvalue()


def webm(**parts: str) -> bytes:
    return moving([FACE] * 20, kind="webm", codec="libvpx", parts=parts)


def endless(content: bytes) -> bytes:
    """An MP4 that does not say how large its pictures are together."""
    at = content.index(b"mdat") - 4
    return content[:at] + bytes(4) + content[at + 4 :]


INCOMPLETE = "film: it is incomplete, "
WIDE: Picture = np.zeros((64, 4098, 3), np.uint8)
BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "text": (
        lambda: b"just some text, no film",
        "film: 23 bytes beginning with b'just some te' are no media file",
    ),
    "a wav": (wav, "film: the file is WAV; send MP4/MOV or WebM/Matroska"),
    "only sound": (only_sound, "film: it has no moving pictures; send a film that shows the face"),
    "no end": (lambda: truncated(moving(list(NOISE))), INCOMPLETE),
    "no end, its index in front": (lambda: truncated(moving(list(NOISE), parts=INDEX_IN_FRONT)), INCOMPLETE),
    "no end, webm": (lambda: truncated(webm()), INCOMPLETE),
    "no end, webm as it is recorded": (lambda: truncated(webm(live="1")), INCOMPLETE),
    "no end, fragments": (lambda: truncated(moving([FACE] * 20, parts=FRAGMENTED)), INCOMPLETE),
    "no end, of no declared size": (
        lambda: truncated(endless(moving(list(NOISE), parts=INDEX_IN_FRONT))),
        "film: it is damaged or incomplete: a picture lacks its end; send it again",
    ),
    "a head only": (lambda: webm()[:200], INCOMPLETE),
    "noise": (lambda: b"\x00\x00\x00\x18ftypisom" + pcm(1.0), "film: "),
    "too long": (lambda: moving([FACE] * 62, fps=1), "film: it lasts 61.0 s; send at most 60 s"),
    "too wide": (
        lambda: moving([WIDE], options=FAST),
        "film: its pictures are 4098x64 px; send at most 4096 px",
    ),
    "too many": (lambda: moving([FACE] * 7202, fps=200, options=FAST), "film: it has more than 7200 pictures; send 30"),
    "claims": (lambda: claiming(moving([FACE] * 20), b"stsz", 1 << 31), "film: its tracks declare 2147483648 samples"),
    "old codec": (lambda: moving([FACE] * 5, codec="mpeg4"), "film: its pictures are coded as mpeg4; use one of: h264"),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_no_film_is_refused_with_the_reason_and_the_service_goes_on(stub: "Stub", name: str) -> None:
    make, text = BAD[name]
    with refused(INVALID, text):
        await check_film(stub, make())
    assert (await check_film(stub, SMALL)).face_share == 1


@pytest.mark.parametrize("seed", range(8))
async def test_a_film_with_damage_somewhere_is_found_usable_or_refused(stub: "Stub", seed: int) -> None:
    content = bytearray(webm() if seed % 2 else moving([FACE] * 20))
    dice = random.Random(seed)
    for _ in range(20):
        content[dice.randrange(len(content))] = dice.randrange(256)
    try:
        assert (await check_film(stub, bytes(content))).face_share >= 0.8
    except grpc.aio.AioRpcError as failure:
        assert failure.code() is INVALID, failure.details()


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        (pieces(b"film"), "header: missing; send it first"),
        ([header(0)], "header.size_bytes: 0; send 1 to 67108864"),
        ([header(10)], "film: 0 of 10 bytes came; send the whole file"),
        ([header(10), *pieces(b"x" * 9)], "film: 9 of 10 bytes came; send the whole file"),
        ([header(10), *pieces(b"x" * 11)], "film: more than 10 bytes"),
        ([header(10), header(10)], "film: 0 of 10 bytes came"),
        ([header(4), *pieces(b"film"), *pieces(b"s")], "part: content is out of order; the film is whole"),
        ([header(2 * MIB), pb.CheckFilmRequest(content=bytes(MIB + 1))], "film: a message holds 1048577 bytes"),
    ],
)
async def test_a_film_that_is_sent_wrongly_is_refused(
    stub: "Stub", parts: Sequence[pb.CheckFilmRequest], text: str
) -> None:
    with refused(INVALID, text):
        await stub.CheckFilm(iter(parts), timeout=20)


async def test_a_film_that_is_too_large_is_refused_before_it_is_sent(stub: "Stub") -> None:
    call = stub.CheckFilm(timeout=20)
    await call.write(header(64 * MIB + 1))
    with refused(INVALID, "header.size_bytes: 67108865; send 1 to 67108864"):
        await call


async def test_looking_at_a_film_that_nobody_asks_for_any_more_stops(stub: "Stub", face: Judge, calls: CallLog) -> None:
    face.before = gate = Gate("flaw", after=1)
    call = stub.CheckFilm(iter([header(len(SMALL)), *pieces(SMALL)]))
    await gate.reached()
    call.cancel()
    await calls.ended("CheckFilm")
    gate.open()
    assert (await check_film(stub, SMALL)).face_share == 1  # the model's thread is through with the other
    assert len(face.seen) < 2 * LOOKS


def test_only_what_is_looked_at_is_decoded() -> None:
    content = moving([FACE] * 240, options={"g": "5", **FAST})
    *pictures, found = inspect(content, lambda _: "")
    assert found
    assert LOOKS <= len(pictures) <= 5 * LOOKS


def test_more_pixels_or_time_than_allowed_are_not_spent() -> None:
    with pytest.raises(TooLarge, match=r"^film: 40 of its pictures of 64x64 px would have to be decoded to look at 24"):
        list(inspect(SMALL, lambda _: "", pixels_max=64 * 64 * 30))
    with pytest.raises(TooLarge, match=r"^film: it could not be decoded in 0 s; send a smaller one"):
        list(inspect(SMALL, lambda _: "", decode_s_max=0))
