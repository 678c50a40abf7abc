"""What a portrait does by itself: it blinks, and moves its head a little."""

from itertools import pairwise

import pytest

from perception.face import FaceReader
from services.video.domain import Expression
from services.video.portrait.acting import Actor
from services.video.portrait.drawing import Artist, Pose
from services.video.portrait.idle import IdleMotion
from services.video.portrait.rig import PortraitRig
from tests.portraits import FPS, face_reader, mute, read, rigged


@pytest.fixture(scope="module")
def reader() -> FaceReader:
    return face_reader()


@pytest.fixture(scope="module")
def rigs() -> dict[str, PortraitRig]:
    return rigged()


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
