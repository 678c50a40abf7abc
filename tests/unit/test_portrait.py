"""The portrait renderer as a whole: frames as the speech comes, of a face that stays the identity's."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import emotions
from perception.face import FaceReader
from services.common.errors import InvalidRequest
from services.video.backends.portrait import LOOK_AHEAD_S, PortraitBackend
from services.video.domain import Expression, Speech, VisemeSpan
from services.video.portrait.acting import SCORE
from services.video.portrait.drawing import Artist, Pose
from services.video.portrait.fields import CONTROLS, GRID
from services.video.portrait.rig import PortraitRig
from services.video.portrait.shading import MAPS
from tests.portraits import FPS, NAMES, RATE_HZ, animate, face_reader, picture, renderer, rigged, silence, speech


@pytest.fixture(scope="module")
def backend() -> PortraitBackend:
    return renderer()


@pytest.fixture(scope="module")
def reader() -> FaceReader:
    return face_reader()


@pytest.fixture(scope="module")
def rigs() -> dict[str, PortraitRig]:
    return rigged()


# The port


def test_the_backend_shows_every_class_of_the_wheel(backend: PortraitBackend) -> None:
    assert set(backend.classes) == set(emotions.load().classes)
    assert set(SCORE["temper"]) == set(backend.classes)
    assert (backend.fps, backend.size_px) == (25, 512)
    assert len(backend.digest) == 64


@pytest.mark.parametrize("duration_s", [0.04, 0.5, 1.01, 0.3999])
def test_the_frames_cover_all_the_audio(
    backend: PortraitBackend, rigs: dict[str, PortraitRig], duration_s: float
) -> None:
    frames = animate(backend, rigs["anna"], silence(duration_s))

    samples = round(duration_s * RATE_HZ)
    assert len(frames) == math.ceil(samples * FPS / RATE_HZ)
    assert all(frame.shape == (512, 512, 3) and frame.dtype == np.uint8 for frame in frames)


def test_frames_come_while_the_speech_is_still_fed(backend: PortraitBackend, rigs: dict[str, PortraitRig]) -> None:
    said = speech([("aa", 0.3), ("PP", 0.1), ("I", 0.2), ("sil", 0.2)])
    performance = backend.perform(rigs["anna"], Expression("neutral", 0.0), 1, "full")

    seen, fed = 0, 0
    step = RATE_HZ // 10
    for start in range(0, len(said.samples), step):
        spans = tuple(s for s in said.visemes if start <= round(s.start_s * RATE_HZ) < start + step)
        part = Speech(said.samples[start : start + step], RATE_HZ, spans)
        fed += len(part.samples)
        seen += sum(1 for _ in performance.feed(part))
        assert seen >= math.floor((fed / RATE_HZ - 0.120) * FPS)
    assert LOOK_AHEAD_S <= 0.120


def test_how_the_speech_is_cut_does_not_change_the_frames(
    backend: PortraitBackend, rigs: dict[str, PortraitRig]
) -> None:
    said = speech([("aa", 0.2), ("PP", 0.08), ("O", 0.2), ("sil", 0.12)])
    whole = animate(backend, rigs["kenji"], said, "happy")

    performance = backend.perform(rigs["kenji"], Expression("happy", 1.0), 1, "full")
    pieces = []
    for start in range(0, len(said.samples), 2_000):
        # A tts names the visemes with the stretch in which they begin.
        spans = tuple(s for s in said.visemes if start <= round(s.start_s * RATE_HZ) < start + 2_000)
        pieces += list(performance.feed(Speech(said.samples[start : start + 2_000], RATE_HZ, spans)))
    pieces += list(performance.finish())

    assert len(pieces) == len(whole)
    # Frames right after a cut have heard a little less of what comes.
    assert np.mean([np.abs(a.astype(int) - b).mean() for a, b in zip(whole, pieces, strict=True)]) < 0.5


def test_the_same_seed_gives_the_same_frames_and_another_does_not(
    backend: PortraitBackend, rigs: dict[str, PortraitRig]
) -> None:
    said = silence(0.6)
    first, again, other = (animate(backend, rigs["anna"], said, seed=seed)[-1] for seed in (1, 1, 2))

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_change_of_rate_within_a_reply_is_refused(backend: PortraitBackend, rigs: dict[str, PortraitRig]) -> None:
    performance = backend.perform(rigs["anna"], Expression("neutral", 0.0), 1, "full")
    performance.feed(silence(0.1))

    with pytest.raises(InvalidRequest, match="sample_rate_hz"):
        performance.feed(Speech(np.zeros(10, np.int16), 16_000, ()))


def test_an_unknown_viseme_is_named(backend: PortraitBackend, rigs: dict[str, PortraitRig]) -> None:
    performance = backend.perform(rigs["anna"], Expression("neutral", 0.0), 1, "full")

    with pytest.raises(InvalidRequest, match="'ZZ'"):
        performance.feed(Speech(np.zeros(10, np.int16), RATE_HZ, (VisemeSpan("ZZ", 0.0, 0.1),)))


# Identity


@pytest.mark.parametrize("name", NAMES)
def test_the_face_stays_the_identitys(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig], name: str
) -> None:
    def proportions(image: NDArray[np.uint8]) -> NDArray[np.float64]:
        (face,) = reader.read(image)
        points = face.landmarks[:, :2].astype(float)
        pairs = ((33, 133), (263, 362), (133, 362), (168, 4), (48, 278), (234, 454), (168, 2))
        lengths = [float(np.linalg.norm(points[a] - points[b])) for a, b in pairs]
        return np.array(lengths) / float(np.linalg.norm(points[468] - points[473]))

    own = proportions(picture(name))
    frames = animate(backend, rigs[name], speech([("aa", 0.2), ("PP", 0.1), ("U", 0.2), ("I", 0.2)]), "happy", 0.7)
    shown = np.median([proportions(frame) for frame in frames[::3]], axis=0)

    assert np.abs(shown / own - 1).max() < 0.06


def test_a_resting_face_is_the_portrait(rigs: dict[str, PortraitRig]) -> None:
    for name in NAMES:
        drawn = Artist(rigs[name]).draw(Pose({}))
        assert np.abs(drawn.astype(int) - picture(name)).mean() < 2.5, name


@pytest.mark.parametrize("control", CONTROLS)
def test_no_control_folds_the_picture_over(rigs: dict[str, PortraitRig], control: str) -> None:
    index = CONTROLS.index(control)
    for side in (rigs["anna"].fields.upper, rigs["anna"].fields.lower):
        field = side[index].reshape(GRID, GRID, 2) * (GRID / 512)
        for axis in (0, 1):
            # Where the slope reaches -1, neighbouring pixels change places.
            assert np.diff(field[..., axis], axis=1 - axis).min() > -0.9


# Tables


def test_the_tables_name_only_controls_and_maps_that_exist() -> None:
    extra = {"tongue", "gaze_y"}
    for table in (SCORE["emotions"], SCORE["visemes"]):
        for weights in table.values():
            assert set(weights) <= {*CONTROLS, *extra}
    for control, maps in SCORE["shading"].items():
        assert control in CONTROLS
        assert set(maps) <= set(MAPS)
    names = {"sil", "PP", "FF", "TH", "DD", "kk", "CH", "SS", "nn", "RR", "aa", "E", "I", "O", "U"}
    assert set(SCORE["visemes"]) == names
