"""What holds of every back-end of video: what it hands out of a portrait, and what it says of films of a person."""

import hashlib
from typing import TYPE_CHECKING, cast

import grpc
import numpy as np
import pytest

from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from services.common.media import chunks
from services.video.domain import (
    Backend,
    Portrait,
    Rig,
    Studio,
)
from tests.model_services import serving_video
from tests.samples import moving
from tests.serving import refused

if TYPE_CHECKING:
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub as Stub

from tests.conformance.filming import MIB, NAMES, WHEEL, asked, picture, portrait, speech


async def rig(stub: "Stub", parts: list[pb.AnimateRequest]) -> tuple[bytes, bytes]:
    """Films; returns the rigged face that came, in messages of allowed size and before the film, and the film."""
    answers = [answer async for answer in stub.Animate(iter(parts), timeout=300)]
    kinds = [kind for kind in (answer.WhichOneof("part") for answer in answers) if kind != "progress"]
    rigged = [answer.rigged for answer in answers if answer.WhichOneof("part") == "rigged"]
    assert kinds[: 1 + len(rigged)] == ["ready", *["rigged"] * len(rigged)]
    assert all(0 < len(piece) <= MIB for piece in rigged)
    return b"".join(rigged), b"".join(answer.chunk for answer in answers)


class Counted:
    """A back-end, of which a test sees how many portraits it rigs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.prepared = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def prepare(self, portrait: Portrait) -> Rig:
        self.prepared += 1
        return self._backend.prepare(portrait)


class KeptFacePromises:
    """The tests; a part of `FacePromises`, which gives `backend` and `stub`."""

    @pytest.fixture(scope="class")
    @classmethod
    def packed(cls, backend: Backend) -> dict[str, bytes]:
        """The rigged faces as bytes."""
        studio = Studio(backend, rigs_max=len(NAMES))

        def packed(one: Portrait) -> bytes:
            return studio.rig(one.digest, lambda: one.image).packed

        return {name: packed(picture(portrait(name))) for name in NAMES}

    # What is kept of a portrait

    async def test_a_rigged_face_is_handed_out_once_and_gives_the_same_film_elsewhere(self, backend: Backend) -> None:
        async with serving_video(backend, WHEEL) as one, serving_video(backend, WHEEL) as other:
            stubs = [cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel)) for served in (one, other)]
            rigged, first = await rig(stubs[0], asked(speech(0.4)))
            assert 0 < len(rigged) <= 16 * MIB
            assert await rig(stubs[0], asked(speech(0.4))) == (b"", first)
            rigs = Counted(backend)
            async with serving_video(cast("Backend", rigs), WHEEL) as third:
                stub = cast("Stub", video_pb2_grpc.VideoServiceStub(third.channel))
                assert await rig(stub, asked(speech(0.4), rigged=rigged)) == (b"", first)
            assert rigs.prepared == 0
            assert await rig(stubs[1], asked(speech(0.4))) == (rigged, first)

    @pytest.mark.parametrize(
        "other", ["portrait", "model", "garbage", "damaged", "cut off", "key only", "well sealed garbage"]
    )
    async def test_a_rigged_face_of_something_else_is_not_used(
        self, backend: Backend, packed: dict[str, bytes], other: str
    ) -> None:
        rigged = packed["anna"]
        middle = len(rigged) // 2
        sent = {
            "portrait": packed["marcus"],
            "model": bytes(32) + rigged[32:],
            "garbage": b"x" * 100,
            "damaged": rigged[:middle] + bytes(200) + rigged[middle + 200 :],
            "cut off": rigged[:middle],
            "key only": rigged[:32],
            "well sealed garbage": rigged[:32] + hashlib.sha256(b"x" * 100).digest() + b"x" * 100,
        }[other]
        rigs = Counted(backend)
        async with serving_video(cast("Backend", rigs), WHEEL) as served:
            stub = cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))
            found, _ = await rig(stub, asked(speech(0.2), rigged=sent))
        assert found == rigged
        assert rigs.prepared == 1

    # Films of a person

    async def test_a_film_of_one_face_can_be_a_reference_and_one_without_cannot(self, stub: "Stub") -> None:
        async def check(content: bytes) -> pb.CheckFilmResponse:
            header = pb.CheckFilmRequest(header=pb.CheckFilmHeader(size_bytes=len(content)))
            pieces = [pb.CheckFilmRequest(content=piece) for piece in chunks(content)]
            return await stub.CheckFilm(iter([header, *pieces]), timeout=60)

        face = picture(portrait("anna")).image
        found = await check(moving([face] * 9 + [np.zeros_like(face)], fps=5))
        assert found.duration_s == pytest.approx(2)
        assert found.face_share == pytest.approx(0.9)
        two = np.concatenate([face, picture(portrait("marcus")).image], axis=1)
        text = "film: exactly one usable face in 0 of the 4 pictures looked at (several faces in 4); send a film in "
        with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
            await check(moving([two] * 4))
