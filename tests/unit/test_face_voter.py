"""The face voter, with its real models. Expressions are drawn by the project's own renderer: a circular test of taste,
not evidence about people; it proves that every link from pixels to vote works and points the right way."""

import dataclasses
import re
import time
from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import emotions
from perception.face import Face, FaceReader
from services.common.images import decode_image
from services.mllm.backends import face as face_backend
from services.mllm.backends.face import ExpressionNetwork, FaceBackend, robust_mean
from services.mllm.domain import Frame, Level, Message, Modality, Prediction
from services.mllm.expression.actions import UNITS, read_actions
from services.mllm.expression.classes import NETWORK_CLASSES, classes_of
from services.video.backends.portrait import PortraitBackend
from services.video.backends.portrait import Settings as PortraitSettings
from services.video.domain import Expression, Portrait, Speech

Image = NDArray[np.uint8]

ROOT = Path(__file__).parents[2]
MODELS = ROOT / ".models"
IDENTITIES = ("amara", "anna", "ingrid", "kenji", "leila", "marcus", "walter")


def portrait(name: str) -> Image:
    path = ROOT / "services/memory/identities" / name / "portrait.png"
    return decode_image(path.read_bytes(), "portrait")


def message(*images: Image) -> Message:
    return Message(frames=tuple(Frame(index / 10, image) for index, image in enumerate(images)))


def blank(height: int = 480, width: int = 640) -> Image:
    return np.full((height, width, 3), 120, np.uint8)


def top(vote: Prediction) -> str:
    return max(vote.distribution, key=lambda name: vote.distribution[name])


def neutral_of(vote: Prediction) -> float:
    """The probability of neutral, which must be the first: of a clear vote for it, or named by an abstention."""
    if not vote.abstained:
        assert top(vote) == "neutral"
        return vote.distribution["neutral"]
    named = re.fullmatch(r"no clear expression: neutral (0\.\d\d), \w+ 0\.\d\d", vote.abstained)
    assert named, vote.abstained
    return float(named[1])


def at_most(vote: Prediction, name: str) -> float:
    """The probability of an emotion; when the vote abstains, that of the strongest emotion, which is no less."""
    return float(vote.abstained.split()[-1]) if vote.abstained else vote.distribution[name]


def draw(renderer: PortraitBackend, anna: Image, name: str, intensity: float) -> list[Image]:
    """Frames of Anna, silent, once the expression is complete."""
    rig, expression = renderer.prepare(Portrait("anna", anna)), Expression(name, intensity)
    performance = renderer.perform(rig, expression, seed=1, quality=renderer.qualities[0])
    silence = Speech(np.zeros(16_000 * 9 // 5, np.int16), 16_000, ())
    return [*performance.feed(silence), *performance.finish()][30::5]


@pytest.fixture(scope="module")
def voter() -> FaceBackend:
    return FaceBackend(FaceReader(MODELS), ExpressionNetwork(MODELS))


@pytest.fixture(scope="module")
def anna() -> Image:
    return portrait("anna")


@pytest.fixture(scope="module")
def anna_face(anna: Image) -> Face:
    return FaceReader(MODELS).read(anna)[0]


@pytest.fixture(scope="module")
def renderer() -> PortraitBackend:
    return PortraitBackend(PortraitSettings(models_dir=MODELS))


@pytest.fixture(scope="module")
def drawn(renderer: PortraitBackend, anna: Image) -> Mapping[str, list[Image]]:
    """Anna showing each class at full strength."""
    names = ("neutral", "happy", "surprised", "sad", "angry", "contempt")
    return {name: draw(renderer, anna, name, 1.0) for name in names}


def test_says_what_it_is(voter: FaceBackend) -> None:
    assert voter.card.level is Level.CLASS
    assert voter.card.perceives == {Modality.VIDEO}
    assert len(bytes.fromhex(voter.card.digest)) == 32


@pytest.mark.parametrize("name", IDENTITIES)
def test_a_face_at_rest_is_neutral_and_not_too_surely(voter: FaceBackend, name: str) -> None:
    vote = voter.predict(message(portrait(name)))
    assert neutral_of(vote) < 0.8
    assert vote.evidence["frames_with_face"] == "1 of 1"
    assert vote.saw == {Modality.VIDEO}
    assert vote.parse == "classified"


def test_a_clearly_neutral_face_votes_neutral(voter: FaceBackend, anna: Image) -> None:
    vote = voter.predict(message(anna))
    assert vote.abstained == ""
    assert top(vote) == "neutral"
    assert set(vote.distribution) == set(emotions.load().classes)
    assert sum(vote.distribution.values()) == pytest.approx(1)
    assert min(vote.distribution.values()) > 0.001


def test_a_faint_frown_is_neither_anger_nor_neutral_but_stays_in_the_evidence(
    voter: FaceBackend, renderer: PortraitBackend, anna: Image
) -> None:
    vote = voter.predict(message(*draw(renderer, anna, "angry", 0.3)))
    assert vote.abstained.startswith("no clear expression: neutral 0.4")
    assert ", angry 0." in vote.abstained
    assert vote.distribution == {}
    assert vote.saw == {Modality.VIDEO}
    assert "AU4" in vote.evidence["strongest_actions"]


@pytest.mark.parametrize("name", ["happy", "surprised", "sad", "angry", "contempt"])
def test_an_expression_is_recognised(voter: FaceBackend, drawn: Mapping[str, list[Image]], name: str) -> None:
    vote, at_rest = (voter.predict(message(*drawn[key])) for key in (name, "neutral"))
    assert neutral_of(at_rest) < 0.8
    assert vote.distribution[name] > 2 * at_most(at_rest, name)
    assert top(vote) == name
    shown = {"happy": "AU12", "surprised": "AU1+2", "sad": "AU15", "angry": "AU4", "contempt": "AU12/14 on one side"}
    assert shown[name] in vote.evidence["strongest_actions"]


def test_a_smile_half_the_time_is_still_a_smile(voter: FaceBackend, drawn: Mapping[str, list[Image]]) -> None:
    vote = voter.predict(message(*drawn["happy"][:3], *drawn["neutral"][:3]))
    assert vote.distribution["happy"] > 0.25


def test_frames_without_a_face_are_left_out_and_counted(voter: FaceBackend, drawn: Mapping[str, list[Image]]) -> None:
    sure = voter.predict(message(*drawn["happy"][:3]))
    vote = voter.predict(message(blank(), *drawn["happy"][:3], blank()))
    assert vote.evidence["frames_with_face"] == "3 of 5"
    assert top(vote) == "happy"
    assert vote.distribution["happy"] < sure.distribution["happy"], "seen less, it should be less sure"


def test_abstains_when_there_are_no_frames(voter: FaceBackend) -> None:
    vote = voter.predict(Message(text="I am fine."))
    assert vote.abstained == "the message has no video frames"
    assert vote.distribution == {}
    assert vote.saw == frozenset()


def test_abstains_when_no_frame_has_a_face(voter: FaceBackend) -> None:
    noise = np.random.default_rng(5).integers(0, 256, (480, 640, 3), np.uint8)
    vote = voter.predict(message(blank(), noise, blank(4, 4)))
    assert vote.abstained == "no face in any of 3 frames"
    assert vote.distribution == {}
    assert vote.saw == {Modality.VIDEO}


def test_abstains_when_the_face_is_too_small_to_read(voter: FaceBackend, anna: Image) -> None:
    far = blank(240, 320)
    far[100:164, 120:184] = cv2.resize(anna, (64, 64), interpolation=cv2.INTER_AREA)
    vote = voter.predict(message(far))
    assert vote.abstained == "no face is 40 px wide and turned to the camera in any of 1 frames"


def test_of_two_faces_the_larger_is_read_and_the_evidence_says_so(
    voter: FaceBackend, anna: Image, drawn: Mapping[str, list[Image]]
) -> None:
    pair = blank(512, 820)
    pair[:, :512] = drawn["happy"][0]
    pair[100:400, 516:816] = cv2.resize(anna, (300, 300), interpolation=cv2.INTER_AREA)
    vote = voter.predict(message(pair))
    assert top(vote) == "happy"
    assert vote.evidence["faces"] == "up to 2 in a frame; the largest was read"


def test_of_many_frames_sixteen_are_read_within_the_time_of_a_turn(voter: FaceBackend, anna: Image) -> None:
    frame = blank()
    frame[:, 80:560] = cv2.resize(anna, (480, 480), interpolation=cv2.INTER_AREA)
    started_s = time.process_time()
    vote = voter.predict(message(*[frame] * 40))
    assert time.process_time() - started_s < 1.2
    assert vote.evidence["frames_with_face"] == "16 of 16"


def test_create_loads_from_the_model_folder_and_needs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("E3RG_MLLM_MODELS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"face_landmarker\.task"):
        face_backend.create()
    monkeypatch.setenv("E3RG_MLLM_MODELS_DIR", str(MODELS))
    assert face_backend.create().card.model


def moved(face: Face, height: float, *numbers: int) -> Face:
    """`face` with landmarks raised by `height` distances between the eyes."""
    landmarks = face.landmarks.copy()
    eyes_px = np.linalg.norm(landmarks[[33, 133], :2].mean(axis=0) - landmarks[[263, 362], :2].mean(axis=0))
    landmarks[list(numbers), 1] -= height * eyes_px
    return dataclasses.replace(face, landmarks=landmarks)


@pytest.mark.parametrize(
    ("action", "height", "numbers"),
    [
        ("smile", 0.1, (61, 291)),
        ("mouth_frown", -0.08, (61, 291)),
        ("brow_raise", 0.08, (105, 334, 70, 300, 107, 336)),
        ("brow_lower", -0.08, (107, 336)),
        ("nose_wrinkle", 0.06, (0,)),
    ],
)
def test_an_action_is_seen_in_the_landmarks(
    anna_face: Face, action: str, height: float, numbers: tuple[int, ...]
) -> None:
    before, after = read_actions(anna_face), read_actions(moved(anna_face, height, *numbers))
    assert set(after.strength) == set(UNITS)
    assert after.strength[action] > before.strength[action] + 0.3


def test_one_raised_corner_is_one_sided_only_when_the_blendshapes_agree(anna_face: Face) -> None:
    left = moved(anna_face, 0.09, 291)
    smirk = {**anna_face.blendshapes, "mouthSmileLeft": 0.6, "mouthSmileRight": 0.1}
    other = {**anna_face.blendshapes, "mouthSmileLeft": 0.1, "mouthSmileRight": 0.6}
    assert read_actions(dataclasses.replace(left, blendshapes=smirk)).strength["one_sided_mouth"] > 0.5
    assert read_actions(dataclasses.replace(left, blendshapes=other)).strength["one_sided_mouth"] == 0


def test_a_tilted_head_changes_nothing_and_a_turned_one_counts_less(anna_face: Face) -> None:
    upright = read_actions(anna_face)
    cosine, sine = np.cos(0.4), np.sin(0.4)
    tilted = anna_face.landmarks.copy()
    tilted[:, :2] = tilted[:, :2] @ np.array([[cosine, sine], [-sine, cosine]], np.float32)
    assert read_actions(dataclasses.replace(anna_face, landmarks=tilted)).strength == pytest.approx(
        upright.strength, abs=1e-3
    )
    turned = anna_face.landmarks.copy()
    turned[1, 0] = 0.8 * turned[234, 0] + 0.2 * turned[454, 0]
    assert upright.frontal > 0.95
    assert read_actions(dataclasses.replace(anna_face, landmarks=turned)).frontal < 0.3


UNDECIDED = dict.fromkeys(NETWORK_CLASSES, 1 / len(NETWORK_CLASSES))


@pytest.mark.parametrize(
    ("prototype", "expected"),
    [
        ({}, "neutral"),
        ({"smile": 0.8}, "happy"),
        ({"brow_raise": 0.8, "eye_wide": 0.5, "jaw_drop": 0.5}, "surprised"),
        ({"brow_lower": 0.7, "lip_press": 0.5}, "angry"),
        ({"brow_raise": 0.6, "inner_brow_raise": 0.6, "eye_wide": 0.7, "lip_stretch": 0.8}, "fear"),
        ({"mouth_frown": 0.6, "inner_brow_raise": 0.5}, "sad"),
        ({"nose_wrinkle": 0.7, "mouth_frown": 0.3}, "disgusted"),
        ({"one_sided_mouth": 0.7, "smile": 0.2}, "contempt"),
    ],
)
def test_the_prototype_of_a_class_is_that_class(prototype: dict[str, float], expected: str) -> None:
    vote = classes_of(dict.fromkeys(UNITS, 0.0) | prototype, UNDECIDED, 1.0)
    assert max(vote, key=lambda name: vote[name]) == expected
    assert sum(vote.values()) == pytest.approx(1)


def test_an_open_jaw_alone_is_speech_and_no_surprise() -> None:
    vote = classes_of(dict.fromkeys(UNITS, 0.0) | {"jaw_drop": 1.0}, UNDECIDED, 1.0)
    assert vote["neutral"] > vote["surprised"]


def test_the_network_moves_the_vote_where_the_actions_are_silent() -> None:
    sad = {**dict.fromkeys(NETWORK_CLASSES, 0.02), "sad": 0.88}
    still = dict.fromkeys(UNITS, 0.0)
    assert classes_of(still, sad, 1.0)["sad"] > 1.5 * classes_of(still, UNDECIDED, 1.0)["sad"]


def test_less_reliable_is_less_sure() -> None:
    smiling = dict.fromkeys(UNITS, 0.0) | {"smile": 0.8}
    chances = [classes_of(smiling, UNDECIDED, reliability)["happy"] for reliability in (1.0, 0.5, 0.0)]
    assert chances[0] > chances[1] > chances[2] == pytest.approx(1 / 8)


def test_a_robust_mean_forgets_one_wild_frame() -> None:
    values = np.array([0.2] * 15 + [1.0])
    assert robust_mean(values, np.ones(16)) == pytest.approx(0.2)
    assert robust_mean(np.array([0.4]), np.ones(1)) == pytest.approx(0.4)
    assert robust_mean(np.array([0.0, 1.0]), np.array([0.01, 0.99])) == pytest.approx(1.0)
