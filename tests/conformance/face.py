"""What holds of every back-end of video: the tests, for a module of each back-end to take up.

A back-end whose real weights cannot be had is tested with random ones (`trained = False`): then nothing is asked of how
it looks, only that what is asked for changes the picture.
"""

import io
import itertools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import av
import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from services.common.errors import InvalidRequest
from services.video.domain import (
    Backend,
    Expression,
    Frame,
    Performance,
    Portrait,
    Progress,
    Rig,
    Speech,
    VisemeSpan,
)
from tests.conformance import ends
from tests.conformance.filming import (
    DURATION_S,
    MIB,
    NAMES,
    NEUTRAL,
    RATE_HZ,
    WHEEL,
    Frames,
    asked,
    cut,
    film,
    frames_of,
    picture,
    portrait,
    speech,
)
from tests.conformance.kept_face import KeptFacePromises
from tests.model_services import serving_video
from tests.samples import png
from tests.serving import refused

if TYPE_CHECKING:
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub as Stub

SIGNS = ("progress", "chunk")
"""What comes when rendering has begun."""

Show = Callable[..., Frames]


class Watched(ends.Watched[Frame | Progress]):
    """A back-end, of which a test sees how many frames it draws."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(lambda item: not isinstance(item, Progress))
        self._backend = backend
        self._performance: Performance

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def perform(self, rig: Rig, expression: Expression, seed: int, quality: str) -> Performance:
        self._performance = self._backend.perform(rig, expression, seed, quality)
        return self

    def feed(self, speech: Speech) -> Iterator[Frame | Progress]:
        return self.watch(self._performance.feed(speech))

    def finish(self) -> Iterator[Frame | Progress]:
        return self.watch(self._performance.finish())


class FacePromises(KeptFacePromises):
    """The tests. A back-end's own class is called `Test…` and gives `create`."""

    trained = True

    @classmethod
    def create(cls) -> Backend:
        """Loads the back-end."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> Iterator[Backend]:
        backend = cls.create()
        yield backend
        backend.close()

    @pytest.fixture(scope="class")
    @classmethod
    def rigs(cls, backend: Backend) -> dict[str, Rig]:
        return {name: backend.prepare(picture(portrait(name))) for name in NAMES}

    @pytest.fixture(scope="class")
    @classmethod
    def show(cls, backend: Backend, rigs: dict[str, Rig]) -> Show:
        """Animates the same speech once for each way of showing it."""

        @cache
        def show(name: str = "anna", expression: Expression = NEUTRAL, seed: int = 3) -> Frames:
            performance = backend.perform(rigs[name], expression, seed, backend.qualities[-1])
            return frames_of(performance, iter([speech()]))

        return show

    @pytest.fixture
    async def stub(self, backend: Backend) -> AsyncIterator["Stub"]:
        async with serving_video(backend, WHEEL) as served:
            yield cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))

    # What it says of itself

    async def test_its_card_names_what_it_has(self, stub: "Stub", backend: Backend) -> None:
        model = await stub.GetModel(pb.GetModelRequest())
        assert model.card.model
        assert len(bytes.fromhex(model.card.digest)) == 32
        assert set(model.face_classes) <= set(WHEEL.classes)
        assert "neutral" in model.face_classes
        assert model.qualities
        assert model.fps >= 25
        assert model.size_px >= 256
        assert model.size_px % 2 == 0
        assert 0 <= model.segment_first_s <= model.segment_min_s <= model.segment_max_s
        assert model.backlog_s == 0

    def test_more_speech_costs_more_and_a_lower_tier_costs_no_more(self, backend: Backend) -> None:
        costs = [[backend.cost_s(duration_s, quality) for duration_s in (1, 4, 8)] for quality in backend.qualities]
        for cost in costs:
            assert cost == sorted(cost)
            assert cost[0] >= 0
        assert [cost[2] for cost in costs] == sorted((cost[2] for cost in costs), reverse=True)
        assert (costs[0][2] > 0) == (backend.segments is not None)

    # Frames and times

    async def test_the_film_covers_the_speech_in_messages_of_allowed_size(self, stub: "Stub", backend: Backend) -> None:
        ready, chunks = await film(stub, asked(speech()))
        assert ready.card == (await stub.GetModel(pb.GetModelRequest())).card
        assert ready.quality in backend.qualities
        assert "avc1" in ready.mime_type
        assert max(map(len, chunks)) <= MIB
        times = _times(b"".join(chunks), backend.size_px)
        assert times == pytest.approx([number / backend.fps for number in range(math.ceil(DURATION_S * backend.fps))])
        with av.open(io.BytesIO(b"".join(chunks)), "r") as container:
            heard = sum(frame.samples for frame in container.decode(container.streams.audio[0]))
            assert heard / 48_000 == pytest.approx(len(times) / backend.fps, abs=2 * 1024 / 48_000)

    async def test_a_later_segment_goes_on_where_the_one_before_ended(self, stub: "Stub", backend: Backend) -> None:
        _, first = await film(stub, asked(speech(1.0)))
        _, second = await film(stub, asked(speech(1.0), first_frame=backend.fps))
        assert b"moov" not in b"".join(second)
        times = _times(b"".join(first + second), backend.size_px)
        assert times == pytest.approx([number / backend.fps for number in range(2 * backend.fps)])

    def test_frames_are_square_rgb_and_as_many_as_the_speech_is_long(self, show: Show, backend: Backend) -> None:
        frames = show()
        assert frames.shape == (math.ceil(DURATION_S * backend.fps), backend.size_px, backend.size_px, 3)
        assert frames.dtype == np.uint8

    def test_speech_in_pieces_gives_the_frames_of_the_whole(
        self, backend: Backend, rigs: dict[str, Rig], show: Show
    ) -> None:
        performance = backend.perform(rigs["anna"], NEUTRAL, 3, backend.qualities[-1])
        apart = np.abs(show().astype(np.int16) - frames_of(performance, cut(speech(), 7_000)))
        # Frames right before a cut have heard a little less of what comes.
        assert apart.mean(axis=(1, 2, 3)).max() < 0.5

    def test_a_seed_fixes_the_frames_and_another_changes_them(
        self, backend: Backend, rigs: dict[str, Rig], show: Show
    ) -> None:
        performance = backend.perform(rigs["anna"], NEUTRAL, 3, backend.qualities[-1])
        assert np.array_equal(show(), frames_of(performance, iter([speech()])))
        assert not np.array_equal(show(), show("anna", NEUTRAL, 4))

    async def test_speech_longer_than_a_segment_is_refused(self, stub: "Stub", backend: Backend) -> None:
        if not backend.segments:
            call = stub.Animate(iter(asked(speech(9.0))), timeout=300)
            await ends.read_until(call, *SIGNS)
            call.cancel()
            return
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "duration_s"):
            await film(stub, asked(speech(backend.segments.max_s + 1)))

    # Emotion

    def test_every_class_is_seen_and_more_of_it_is_seen_more(self, backend: Backend, show: Show) -> None:
        for name in set(backend.classes) - {"neutral"} if self.trained else {"happy"}:
            none, half, full = (
                np.abs(show("anna", Expression(name, intensity)).astype(np.int16) - show()).mean()
                for intensity in (0.0, 0.5, 1.0)
            )
            assert none <= 0.2 * full, name
            if self.trained:
                assert none < half < full, name
            else:
                assert min(half, full) > 0, name

    def test_classes_differ_from_each_other_by_more_than_chance(self, backend: Backend, show: Show) -> None:
        seen = {name: show("anna", Expression(name, 1.0)) for name in backend.classes}
        apart = [_apart(one, other) for one, other in itertools.combinations(seen.values(), 2)]
        assert min(apart) > 0
        if self.trained:
            # Another seed changes no more than when the face blinks and how the head sways.
            chance = max(_apart(seen[name], show("anna", Expression(name, 1.0), 4)) for name in ("neutral", "happy"))
            assert min(apart) > 1.5 * chance
            assert np.mean(apart) > 4 * chance

    # Identity

    def test_people_look_like_their_portraits_in_every_class(self, backend: Backend, show: Show) -> None:
        assert not np.array_equal(show("anna"), show("marcus"))
        if not self.trained:
            return
        own = {name: _face(picture(portrait(name)).image) for name in NAMES}
        shown = [("anna", "marcus", show("anna", Expression(name, 1.0))) for name in backend.classes]
        for name, other, frames in (*shown, ("marcus", "anna", show("marcus"))):
            alike, unlike = (np.corrcoef(_face(frames.mean(axis=0)), own[one])[0, 1] for one in (name, other))
            assert alike > 0.8
            assert alike - unlike > 0.4

    def test_the_mouth_moves_with_speech_and_rests_in_silence(
        self, backend: Backend, rigs: dict[str, Rig], show: Show
    ) -> None:
        quiet = Speech(np.zeros(round(DURATION_S * RATE_HZ), np.int16), RATE_HZ, (VisemeSpan("sil", 0.0, DURATION_S),))
        performance = backend.perform(rigs["anna"], NEUTRAL, 3, backend.qualities[-1])
        silent = frames_of(performance, iter([quiet]))
        assert not np.array_equal(show(), silent)
        if self.trained:
            assert _mouth_motion(show()) > 2 * _mouth_motion(silent)

    # Bad input

    @pytest.mark.parametrize(
        ("parts", "text"),
        [
            (asked(speech(0.2), content=png(512, 512)), "portrait: "),
            (asked(speech(0.2), content=png(8, 8)), "portrait: "),
            (asked(speech(0.2), content=b"not a picture"), "portrait: "),
            (asked(speech(0.2), face_class="smug"), "header.face_class: 'smug'; use one of: "),
            (asked(speech(0.2), quality="perfect"), "header.quality: 'perfect'; use one of: "),
        ],
        ids=["no face", "too small", "no picture", "unknown class", "unknown quality"],
    )
    async def test_bad_input_is_refused_with_its_field_and_the_face_goes_on(
        self, stub: "Stub", parts: list[pb.AnimateRequest], text: str
    ) -> None:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
            await film(stub, parts)
        assert (await film(stub, asked(speech(0.2))))[1]

    def test_two_faces_are_no_portrait(self, backend: Backend) -> None:
        two = np.concatenate([picture(portrait(name)).image for name in NAMES], axis=1)
        with pytest.raises(InvalidRequest, match="portrait: "):
            backend.prepare(Portrait("two", two))

    def test_a_rig_of_another_back_end_is_an_error(self, backend: Backend) -> None:
        with pytest.raises(TypeError):
            backend.perform(object(), NEUTRAL, 0, backend.qualities[0])

    # Ends

    async def test_a_film_that_nobody_wants_stops_and_the_next_is_made(self, backend: Backend) -> None:
        watched = Watched(backend)
        async with serving_video(cast("Backend", watched), WHEEL) as served:
            stub = cast("Stub", video_pb2_grpc.VideoServiceStub(served.channel))
            duration_s = backend.segments.max_s if backend.segments else 20.0
            call = stub.Animate(iter(asked(speech(duration_s))), timeout=300)
            await watched.begun()
            call.cancel()
            await watched.let_go()
            assert watched.count < duration_s * backend.fps / 2
            assert (await film(stub, asked(speech(0.2))))[1]
            assert (await stub.GetModel(pb.GetModelRequest())).backlog_s == 0

    async def test_a_service_that_is_stopped_ends_its_film(self, backend: Backend) -> None:
        async with ends.leaving(serving_video(backend, WHEEL, grace_s=120)) as (channel, stop):
            call = cast("Stub", video_pb2_grpc.VideoServiceStub(channel)).Animate(iter(asked(speech())), timeout=300)
            content = (await ends.read_until(call, *SIGNS)).chunk
            stop.set()
            while (answer := await call.read()) is not grpc.aio.EOF:
                content += cast("pb.AnimateResponse", answer).chunk
        assert len(_times(content, backend.size_px)) == math.ceil(DURATION_S * backend.fps)


def _times(content: bytes, size_px: int) -> list[float]:
    """When each picture of a film is shown, in seconds."""
    with av.open(io.BytesIO(content), "r") as container:
        frames = list(container.decode(container.streams.video[0]))
    assert {(frame.width, frame.height) for frame in frames} == {(size_px, size_px)}
    return [float("nan") if frame.time is None else frame.time for frame in frames]


def _apart(one: Frames, other: Frames) -> float:
    """How far two films are from each other, in grey levels: root mean square over 64 x 64 blocks of their means.

    A mean over time, in blocks, for a blink is short and a sway moves little: what stays counts.
    """
    return float(np.sqrt(np.mean((_blocks(one.mean(axis=0), 64) - _blocks(other.mean(axis=0), 64)) ** 2)))


def _face(image: NDArray[Any]) -> NDArray[np.float64]:
    """The middle of a framed portrait, where the face is, as 16 x 16 grey levels in a row."""
    edge = len(image) // 5
    return _blocks(image[edge:-edge, edge:-edge], 16).ravel()


def _blocks(image: NDArray[Any], count: int) -> NDArray[np.float64]:
    """The picture as `count` x `count` grey levels."""
    size = len(image) // count * count
    grey = image[:size, :size].mean(axis=2)
    return np.asarray(grey.reshape(count, size // count, count, size // count).mean(axis=(1, 3)), np.float64)


def _mouth_motion(frames: Frames) -> float:
    """Mean change from frame to frame in the part of the picture where a framed face has its mouth."""
    size = frames.shape[1]
    mouth = frames[:, size * 11 // 20 : size * 4 // 5, size * 3 // 10 : size * 7 // 10].astype(np.int16)
    return float(np.abs(np.diff(mouth, axis=0)).mean())
