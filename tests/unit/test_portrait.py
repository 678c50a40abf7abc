import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import emotions
from perception.face import Face, FaceReader
from services.common.errors import InvalidRequest
from services.video import framing
from services.video.backends.portrait import LOOK_AHEAD_S, PortraitBackend, Settings
from services.video.domain import Expression, Portrait, Rig, Speech, VisemeSpan
from services.video.portrait.acting import SCORE, Actor
from services.video.portrait.drawing import Artist, Pose
from services.video.portrait.fields import CONTROLS, GRID
from services.video.portrait.idle import IdleMotion
from services.video.portrait.lips import Lips, Loudness
from services.video.portrait.rig import PortraitRig
from services.video.portrait.shading import MAPS

ROOT = Path(__file__).parents[2]
NAMES = ("anna", "ingrid", "kenji", "marcus")
RATE_HZ = 24_000
FPS = 25


def picture(name: str) -> NDArray[np.uint8]:
    image = cv2.imread(str(ROOT / "services" / "memory" / "identities" / name / "portrait.png"))
    assert image is not None
    return np.ascontiguousarray(image[:, :, ::-1], np.uint8)


@pytest.fixture(scope="module")
def backend() -> PortraitBackend:
    return PortraitBackend(Settings(models_dir=ROOT / ".models"))


@pytest.fixture(scope="module")
def reader() -> FaceReader:
    return FaceReader(ROOT / ".models")


@pytest.fixture(scope="module")
def rigs(backend: PortraitBackend) -> dict[str, PortraitRig]:
    return {name: backend.prepare(Portrait(name, picture(name))) for name in NAMES}


def speech(spans: list[tuple[str, float]]) -> Speech:
    """Speech whose vowels are loud and whose stops are nearly silent."""
    start_s, visemes, sound = 0.0, [], []
    for viseme, duration_s in spans:
        visemes.append(VisemeSpan(viseme, start_s, duration_s))
        start_s += duration_s
        level = {"sil": 0, "PP": 200, "FF": 700}.get(viseme, 7000)
        time = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
        sound.append(level * np.sin(2 * np.pi * 150 * time))
    return Speech(np.concatenate(sound).astype(np.int16), RATE_HZ, tuple(visemes))


def mute() -> tuple[Lips, Loudness]:
    return Lips(SCORE["visemes"], SCORE["dominance"], FPS), Loudness(FPS)


def silence(duration_s: float) -> Speech:
    return Speech(np.zeros(round(duration_s * RATE_HZ), np.int16), RATE_HZ, (VisemeSpan("sil", 0.0, duration_s),))


def animate(
    backend: PortraitBackend, rig: Rig, said: Speech, face_class: str = "neutral", intensity: float = 1.0, seed: int = 1
) -> list[NDArray[np.uint8]]:
    performance = backend.perform(rig, Expression(face_class, intensity), seed, backend.qualities[0])
    return [*performance.feed(said), *performance.finish()]


@dataclass(frozen=True)
class Measures:
    """What landmarks say of a face, in iris distances."""

    gap: float  # between the inner lips
    corners: float  # how high the corners of the mouth are above its middle
    inner_brows: float  # above the eye line
    brows: float
    width: float  # of the mouth
    lids: float  # opening of the eyes
    upper_lip: float  # below the eye line


def measure(face: Face) -> Measures:
    points = face.landmarks[:, :2].astype(float)
    right, left = points[468], points[473]
    apart = float(np.linalg.norm(left - right))
    across = (left - right) / apart
    down = np.array([-across[1], across[0]])
    height = {i: float((points[i] - points[168]) @ down) / apart for i in range(468)}
    brows = [height[i] for i in (70, 63, 105, 66, 107, 300, 293, 334, 296, 336)]
    eyes = (height[33] + height[133] + height[263] + height[362]) / 4
    return Measures(
        gap=height[14] - height[13],
        corners=(height[0] + height[17]) / 2 - (height[61] + height[291]) / 2,
        inner_brows=eyes - (height[107] + height[55] + height[336] + height[285]) / 4,
        brows=eyes - float(np.mean(brows)),
        width=float(np.linalg.norm(points[291] - points[61])) / apart,
        lids=(height[145] - height[159] + height[374] - height[386]) / 2,
        upper_lip=height[0] - eyes,
    )


def read(reader: FaceReader, frame: NDArray[np.uint8]) -> Measures:
    (face,) = reader.read(frame)
    return measure(face)


def resting(
    reader: FaceReader, backend: PortraitBackend, rig: Rig, face_class: str, intensity: float = 1.0
) -> Measures:
    """The settled expression of a silent face, at a moment without a blink."""
    frames = animate(backend, rig, silence(0.8), face_class, intensity)
    best = [read(reader, frame) for frame in frames[-6::5]]
    return max(best, key=lambda found: found.lids)


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


# Lips


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


# Emotion


@pytest.mark.parametrize("name", ["ingrid", "marcus"])
def test_emotions_move_the_landmarks_the_right_way(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig], name: str
) -> None:
    shown = {c: resting(reader, backend, rigs[name], c) for c in ("neutral", "happy", "sad", "angry", "surprised")}
    calm = shown["neutral"]

    assert shown["happy"].corners > calm.corners + 0.03
    assert shown["happy"].width > calm.width + 0.03
    assert shown["sad"].corners < calm.corners - 0.02
    assert shown["sad"].inner_brows > calm.inner_brows + 0.01
    assert shown["angry"].inner_brows < calm.inner_brows - 0.02
    assert shown["surprised"].brows > calm.brows + 0.03
    assert shown["surprised"].lids > calm.lids
    assert shown["surprised"].gap > calm.gap + 0.03


@pytest.mark.parametrize("name", ["anna", "marcus"])
def test_fear_draws_the_brows_up_and_together_and_surprise_arches_them(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig], name: str
) -> None:
    shown = {c: resting(reader, backend, rigs[name], c) for c in ("surprised", "fear")}

    slant = {c: found.inner_brows - found.brows for c, found in shown.items()}
    assert slant["fear"] > slant["surprised"] + 0.005
    assert shown["fear"].width > shown["surprised"].width + 0.05
    assert shown["surprised"].gap > shown["fear"].gap + 0.02


@pytest.mark.parametrize("name", ["ingrid", "marcus"])
def test_anger_narrows_eyes_and_lips_and_disgust_raises_the_upper_lip(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig], name: str
) -> None:
    shown = {c: resting(reader, backend, rigs[name], c) for c in ("neutral", "angry", "disgusted")}
    calm = shown["neutral"]

    assert shown["angry"].lids < 0.85 * calm.lids
    assert shown["angry"].width < calm.width - 0.05
    assert shown["disgusted"].upper_lip < calm.upper_lip - 0.09
    assert shown["disgusted"].lids < 0.85 * calm.lids
    assert shown["disgusted"].inner_brows > shown["angry"].inner_brows + 0.01


def test_who_is_angry_or_disgusted_speaks_through_the_teeth() -> None:
    drops = {}
    for face_class in ("neutral", "angry", "disgusted", "fear"):
        lips, loudness = mute()
        lips.add(VisemeSpan("aa", 0.0, 4.0))
        actor = Actor(Expression(face_class, 1.0), lips, loudness, rest={}, seed=1, fps=FPS)
        drops[face_class] = [actor.pose(frame).weights["jaw"] for frame in range(3 * FPS)][-1]

    assert drops["angry"] == pytest.approx(0.5 * drops["neutral"], rel=0.02)
    assert drops["disgusted"] == pytest.approx(0.65 * drops["neutral"], rel=0.02)
    assert drops["fear"] >= drops["neutral"]


def test_contempt_is_one_sided(reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig]) -> None:
    def sides(face_class: str) -> tuple[float, float]:
        (face,) = reader.read(animate(backend, rigs["anna"], silence(0.8), face_class)[-1])
        points = face.landmarks[:, :2]
        axis = points[263] - points[33]
        up = np.array([axis[1], -axis[0]]) / float(np.linalg.norm(axis)) ** 2
        return float((points[291] - points[61]) @ up), float((points[334] - points[105]) @ up)

    corner, brow = sides("contempt")
    calm_corner, calm_brow = sides("neutral")
    assert corner > calm_corner + 0.03
    assert brow > calm_brow + 0.01


@pytest.mark.parametrize("face_class", ["neutral", "sad"])
def test_a_portrait_that_smiles_a_little_does_not_smile_at_rest(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig], face_class: str
) -> None:
    assert rigs["ingrid"].rest["au12_l"] < -0.2
    assert rigs["kenji"].rest["au12_l"] == 0.0

    shown = resting(reader, backend, rigs["ingrid"], face_class, 0.5)

    assert shown.corners < read(reader, picture("ingrid")).corners - 0.01


@pytest.mark.parametrize("face_class", emotions.load().classes)
def test_every_class_but_neutral_is_visible(
    backend: PortraitBackend, rigs: dict[str, PortraitRig], face_class: str
) -> None:
    plain, shown = (animate(backend, rigs["kenji"], silence(0.6), c)[-1] for c in ("neutral", face_class))
    changed = float(np.abs(plain.astype(int) - shown)[120:420, 120:400].mean())

    assert (changed > 1.5) == (face_class != "neutral")


def test_intensity_scales_the_expression(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig]
) -> None:
    corners = [resting(reader, backend, rigs["anna"], "happy", level).corners for level in (0.0, 0.5, 1.0)]

    assert corners[0] + 0.015 < corners[1] < corners[2] - 0.01


def test_the_emotion_stays_visible_while_speaking(
    reader: FaceReader, backend: PortraitBackend, rigs: dict[str, PortraitRig]
) -> None:
    said = speech([("DD", 0.1), ("E", 0.15), ("nn", 0.1), ("aa", 0.15)] * 2)
    corners, brows = {}, {}
    for face_class in ("happy", "sad"):
        found = [read(reader, frame) for frame in animate(backend, rigs["anna"], said, face_class)[8::2]]
        corners[face_class] = float(np.median([one.corners for one in found]))
        brows[face_class] = float(np.median([one.inner_brows for one in found]))

    assert corners["happy"] > corners["sad"] + 0.05
    assert brows["sad"] > brows["happy"] + 0.01


def test_an_expression_deepens_folds_where_the_skin_folds(rigs: dict[str, PortraitRig]) -> None:
    actor = Actor(Expression("angry", 1.0), *mute(), rest={}, seed=1, fps=FPS)
    poses = [actor.pose(frame) for frame in range(25)]
    assert 0.05 < poses[0].folds["furrow"] < poses[-1].folds["furrow"]

    rig = rigs["kenji"]
    artist = Artist(rig)
    plain = artist.draw(Pose({})).astype(int)
    brow, eye = rig.anatomy.points[107], rig.anatomy.eyes[1]
    places = {"furrow": (4.0, float(brow[1])), "sockets": (eye.centre[0], float(eye.upper.y.min()) - 3)}
    for fold, place in places.items():
        darker = plain - artist.draw(Pose({}, folds={fold: 1.0})).astype(int)
        x, y = (int(value) for value in rig.anatomy.to_px(*place))
        assert darker[y - 6 : y + 7, x - 2 : x + 3].mean() > 4, fold
        assert np.abs(darker[300:]).max() <= 2, fold


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


# Idle motion


def test_it_blinks_as_often_as_people_do_and_closes_the_eyes(reader: FaceReader, rigs: dict[str, PortraitRig]) -> None:
    idle = IdleMotion(seed=3, blinks=1.0, motion=1.0, fps=FPS)
    closures = [idle.at(frame).blink for frame in range(60 * FPS)]
    assert 8 <= sum(1 for closure in closures if closure == 1.0) <= 30

    artist = Artist(rigs["marcus"])
    closed = read(reader, artist.draw(Pose({"blink_l": 1.0, "blink_r": 1.0}))).lids
    assert closed < 0.6 * read(reader, artist.draw(Pose({}))).lids


@pytest.mark.parametrize("face_class", ["surprised", "angry"])
def test_a_blink_closes_wide_and_narrowed_eyes_alike(
    reader: FaceReader, rigs: dict[str, PortraitRig], face_class: str
) -> None:
    actor = Actor(Expression(face_class, 1.0), *mute(), rest={}, seed=3, fps=FPS)
    poses = [actor.pose(frame) for frame in range(20 * FPS)][FPS:]
    blink = next(pose for pose in poses if pose.weights["blink_l"] == 1.0)
    artist = Artist(rigs["marcus"])

    calm = read(reader, artist.draw(Pose({}))).lids
    closed = read(reader, artist.draw(blink)).lids

    assert closed < 0.6 * calm


def test_a_performance_blinks_and_a_frightened_one_more_often() -> None:
    blinks = {}
    for face_class in ("neutral", "fear"):
        actor = Actor(Expression(face_class, 1.0), *mute(), rest={}, seed=3, fps=FPS)
        closures = [actor.pose(frame).weights["blink_l"] for frame in range(120 * FPS)]
        blinks[face_class] = closures.count(1.0)

    assert 20 <= blinks["neutral"] <= 55
    assert blinks["fear"] > 1.2 * blinks["neutral"]


def test_the_head_moves_a_little_and_never_far() -> None:
    idle = IdleMotion(seed=5, blinks=1.0, motion=1.25, fps=FPS)
    yaw = [idle.at(frame).head["yaw"] for frame in range(20 * FPS)]

    assert yaw[0] == 0.0
    assert max(yaw) - min(yaw) > 0.5
    assert max(abs(value) for value in yaw) <= 3.0
    assert max(abs(b - a) for a, b in pairwise(yaw)) < 0.15


# Portraits


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (np.full((512, 512, 3), 120, np.uint8), "no face was found"),
        (np.hstack([picture("anna"), picture("marcus")]), "2 faces were found"),
        (cv2.copyMakeBorder(cv2.resize(picture("kenji"), (150, 150)), 300, 300, 300, 300, 0), "too small"),
        (picture("anna")[130:400, 120:390], "fills the picture"),
        (picture("anna")[:100, :100], "100x100 px"),
        (picture("anna")[:, :, :1], "in colour"),
        (np.ascontiguousarray(np.rot90(picture("anna"))), "no face was found|tilted"),
    ],
)
def test_a_portrait_that_cannot_be_used_is_refused_with_the_reason_and_the_remedy(
    backend: PortraitBackend, image: NDArray[np.uint8], problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem) as caught:
        backend.prepare(Portrait("x", image))

    assert caught.value.field == "portrait"
    assert "send" in str(caught.value) or "turn" in str(caught.value)


class _Turning(FaceReader):
    """Sees every face turned about an axis of space."""

    def __init__(self, axis: int, degrees: float) -> None:
        super().__init__(ROOT / ".models")
        vector = np.zeros(3)
        vector[axis] = math.radians(degrees)
        self._turn = np.asarray(cv2.Rodrigues(vector)[0])

    def read(self, image: NDArray[np.uint8]) -> list[Face]:
        faces = super().read(image)
        return [Face(f.box, f.presence, (f.landmarks @ self._turn.T).astype(np.float32), f.blendshapes) for f in faces]


@pytest.mark.parametrize(
    ("axis", "degrees", "problem"), [(1, 35, "turned away"), (0, -35, "turned away"), (2, 35, "tilted")]
)
def test_a_face_that_looks_elsewhere_is_refused(axis: int, degrees: float, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        framing.frame(picture("anna"), _Turning(axis, degrees), 512)


def test_open_mouths_and_closed_eyes_are_refused(backend: PortraitBackend, rigs: dict[str, PortraitRig]) -> None:
    artist = Artist(rigs["marcus"])
    gaping = artist.draw(Pose({"jaw": 0.9, "au25": 0.5}))
    with pytest.raises(InvalidRequest, match="mouth is open"):
        backend.prepare(Portrait("x", gaping))


def test_who_is_filmed_may_speak_and_blink_but_not_turn_away_or_bring_somebody(
    reader: FaceReader, rigs: dict[str, PortraitRig]
) -> None:
    artist = Artist(rigs["marcus"])
    for pose in (Pose({"jaw": 0.9, "au25": 0.5}), Pose({"blink_l": 1.0, "blink_r": 1.0})):
        assert framing.flaw_of(artist.draw(pose), reader) == ""
    assert framing.flaw_of(picture("anna"), _Turning(1, 40)) == "turned away"
    small = np.asarray(cv2.resize(picture("anna"), (160, 160), interpolation=cv2.INTER_AREA), np.uint8)
    assert framing.flaw_of(small, reader) == "too small"
    assert framing.flaw_of(np.hstack([picture("anna"), picture("kenji")]), reader) == "several faces"
    assert framing.flaw_of(np.zeros((64, 64, 3), np.uint8), reader) == "no face"


@pytest.mark.parametrize("side_px", [256, 1080])
def test_any_size_of_portrait_is_framed_alike(backend: PortraitBackend, reader: FaceReader, side_px: int) -> None:
    image = np.asarray(cv2.resize(picture("ingrid"), (side_px, side_px), interpolation=cv2.INTER_AREA), np.uint8)
    wide = cv2.copyMakeBorder(image, side_px // 8, 0, side_px // 2, 0, cv2.BORDER_REPLICATE)

    framed = framing.frame(np.asarray(wide, np.uint8), reader, 512)

    assert framed.image.shape == (512, 512, 3)
    apart = float(np.linalg.norm(framed.landmarks[468, :2] - framed.landmarks[473, :2]))
    assert 0.16 < apart / 512 < 0.22
    assert 200 < framed.landmarks[168, 0] < 312


def test_a_small_face_in_the_background_is_not_a_second_person(backend: PortraitBackend) -> None:
    image = np.asarray(cv2.resize(picture("anna"), (1024, 1024)), np.uint8)
    image[20:220, 800:1000] = cv2.resize(picture("kenji"), (200, 200), interpolation=cv2.INTER_AREA)

    assert isinstance(backend.prepare(Portrait("x", image)), PortraitRig)


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
