"""The lips of a portrait: what the mouth does with what is said."""

import math

import numpy as np
import pytest

from perception.face import FaceReader
from services.video.backends.portrait import PortraitBackend
from services.video.domain import Speech, VisemeSpan
from services.video.portrait.acting import SCORE
from services.video.portrait.drawing import Artist, Pose
from services.video.portrait.lips import Lips, Loudness
from services.video.portrait.rig import PortraitRig
from tests.portraits import FPS, RATE_HZ, animate, face_reader, read, renderer, rigged, speech


@pytest.fixture(scope="module")
def backend() -> PortraitBackend:
    return renderer()


@pytest.fixture(scope="module")
def reader() -> FaceReader:
    return face_reader()


@pytest.fixture(scope="module")
def rigs() -> dict[str, PortraitRig]:
    return rigged()


def test_the_mouth_opens_with_the_vowels_and_closes_on_bilabials(
    backend: PortraitBackend, reader: FaceReader, rigs: dict[str, PortraitRig]
) -> None:
    said = speech([("sil", 0.2), ("aa", 0.2), ("PP", 0.08), ("aa", 0.2), ("PP", 0.08), ("O", 0.2), ("sil", 0.2)])
    gaps = [read(reader, frame).gap for frame in animate(backend, rigs["anna"], said)]

    def at(time_s: float) -> float:
        return gaps[int(time_s * FPS)]

    rest = at(0.04)
    for closure_s in (0.44, 0.72):
        assert at(closure_s) < rest + 0.02
    for vowel_s in (0.32, 0.60, 0.88):
        assert at(vowel_s) > rest + 0.07


def test_the_opening_follows_the_loudness(
    backend: PortraitBackend, reader: FaceReader, rigs: dict[str, PortraitRig]
) -> None:
    said = speech([("sil", 0.16), ("aa", 0.2), ("PP", 0.1), ("E", 0.16), ("FF", 0.1), ("O", 0.2), ("PP", 0.1)])
    frames = animate(backend, rigs["marcus"], said, "happy", 0.6)
    gaps = [read(reader, frame).gap for frame in frames]
    parts = np.array_split(said.samples.astype(float), len(frames))

    loudness = [math.sqrt(float(np.mean(part**2))) for part in parts]

    assert np.corrcoef(gaps, loudness)[0, 1] > 0.7


def test_louder_speech_opens_the_same_vowel_wider(
    backend: PortraitBackend, reader: FaceReader, rigs: dict[str, PortraitRig]
) -> None:
    loud = speech([("aa", 0.4), ("aa", 0.4)])
    fading = loud.samples.copy()
    fading[len(fading) // 2 :] //= 8
    heard = animate(backend, rigs["anna"], Speech(fading, RATE_HZ, loud.visemes))

    assert read(reader, heard[8]).gap > read(reader, heard[14]).gap + 0.03


@pytest.mark.parametrize("name", ["ingrid", "kenji"])
def test_lips_meet_on_a_bilabial_in_every_emotion(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig], name: str
) -> None:
    said = speech([("sil", 0.2), ("aa", 0.3), ("PP", 0.12), ("aa", 0.2)])
    for face_class in ("happy", "surprised", "disgusted"):
        frames = animate(backend, rigs[name], said, face_class)
        closed, open_ = read(reader, frames[14]).gap, read(reader, frames[8]).gap
        assert closed < 0.02, face_class
        assert open_ > closed + 0.07, face_class


@pytest.mark.parametrize(("narrow", "wide"), [("U", "I"), ("O", "E")])
def test_rounded_vowels_are_narrower_than_spread_ones(
    reader: FaceReader, rigs: dict[str, PortraitRig], narrow: str, wide: str
) -> None:
    widths = {}
    for viseme in (narrow, wide):
        weights = {name: value for name, value in SCORE["visemes"][viseme].items() if name != "tongue"}
        widths[viseme] = read(reader, Artist(rigs["anna"]).draw(Pose(weights))).width

    assert widths[narrow] < widths[wide] - 0.04


def test_a_closure_is_reached_in_full_even_when_it_is_shorter_than_a_frame() -> None:
    lips = Lips(SCORE["visemes"], SCORE["dominance"], FPS)
    for span in (VisemeSpan("aa", 0.0, 0.29), VisemeSpan("PP", 0.29, 0.03), VisemeSpan("aa", 0.32, 0.3)):
        lips.add(span)

    shapes = [lips.at(frame) for frame in range(12)]

    closed = [index for index, shape in enumerate(shapes) if shape.closure == 1.0]
    assert closed == [7]
    assert shapes[7].controls["press"] == pytest.approx(SCORE["visemes"]["PP"]["press"])
    assert shapes[7].controls["jaw"] == pytest.approx(0.0)
    assert shapes[4].controls["jaw"] > 0.6


def test_loudness_is_relative_to_the_loudest_moment_so_far() -> None:
    loudness = Loudness(FPS)
    loudness.add(np.full(960, 3000, np.int16), RATE_HZ)
    loudness.add(np.full(1920, 1500, np.int16), RATE_HZ)

    assert loudness.at(0) == pytest.approx(1.0)
    assert loudness.at(1) == pytest.approx(0.5, abs=0.01)
    assert loudness.at(9) == 0.0
    assert loudness.duration_s == pytest.approx(0.12)
