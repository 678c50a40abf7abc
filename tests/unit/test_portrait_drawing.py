from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from services.video.portrait import glasses, openings
from services.video.portrait.drawing import Artist, Pose
from services.video.portrait.fields import GRID
from services.video.portrait.retouch import Retouch
from services.video.portrait.rig import PortraitRig, build
from services.video.portrait.warping import TEXTURE_SCALE, Moved, Warp, Window, sample
from tests.portraits import rigged

SIZE_PX = 512
NAMES = ("anna", "kenji", "marcus")


@pytest.fixture(scope="module")
def rigs() -> dict[str, PortraitRig]:
    return rigged()


def noise(*shape: int) -> NDArray[np.uint8]:
    """Smooth, as skin is."""
    rough = np.random.default_rng(len(shape) * shape[0]).integers(0, 256, (7, 7, shape[-1])).astype(np.uint8)
    return np.asarray(cv2.resize(rough, shape[1::-1], interpolation=cv2.INTER_LINEAR), np.uint8)


def waves(size_px: int) -> NDArray[np.float32]:
    """A displacement of a few cells."""
    rough = np.random.default_rng(3).uniform(-1, 1, (6, 6, 2)).astype(np.float32)
    return np.asarray(cv2.resize(rough, (GRID, GRID), interpolation=cv2.INTER_CUBIC), np.float32) * 1.5


# Warping


@pytest.mark.parametrize("window", [Window(100, 77, 130, 90), Window(0, 400, 31, 112), Window(505, 3, 7, 9)])
def test_the_places_of_a_window_are_those_of_the_whole_frame(window: Window) -> None:
    moved = waves(SIZE_PX)
    whole = Warp(SIZE_PX, Window(0, 0, SIZE_PX, SIZE_PX)).places(Moved(moved))

    part = Warp(SIZE_PX, window).places(Moved(moved))

    assert np.abs(part - whole[window.slices]).max() < 0.02


def left_over_px(displacement: NDArray[np.float32]) -> NDArray[np.float64]:
    """How far, for each cell, what it shows is moved past it or not up to it."""
    places = Warp(SIZE_PX, Window(0, 0, SIZE_PX, SIZE_PX)).places(Moved(displacement))
    cell = SIZE_PX // GRID
    # The middle of a cell lies between four pixels.
    middles = np.asarray(cv2.resize(places, (GRID, GRID), interpolation=cv2.INTER_AREA))
    shown = ((middles - (TEXTURE_SCALE - 1) / 2) / TEXTURE_SCALE + 0.5) / cell - 0.5
    own = np.stack(np.meshgrid(np.arange(GRID), np.arange(GRID)), axis=-1)
    beside = np.abs(shown + sample(displacement, shown.astype(np.float32)) - own)
    return np.asarray(beside.max(axis=-1) * cell, np.float64)


def test_a_displacement_is_inverted() -> None:
    assert left_over_px(waves(SIZE_PX))[4:-4, 4:-4].max() < 0.5


def test_skin_that_is_stretched_to_thrice_its_length_does_not_tear() -> None:
    """As between a raised brow and a lid that closes."""
    rows = np.arange(GRID, dtype=np.float32)[:, None]
    displacement = np.zeros((GRID, GRID, 2), np.float32)
    displacement[..., 1] = 3 * np.tanh((rows - GRID / 2) / 1.5)

    assert left_over_px(displacement)[8:-8, 8:-8].max() < 1.5


# Openings


def test_an_opening_shows_the_upper_side_over_the_lower_over_what_is_behind() -> None:
    frame, lower, behind = noise(60, 80, 4), noise(30, 40, 4), noise(60, 80, 4)
    rows = np.arange(30)[:, None]
    frame[20:50, 30:70, 3] = np.clip((10 - rows) * 60, 0, 255)
    lower[..., 3] = np.clip((rows - 18) * 60, 0, 255)
    before = frame.astype(float)
    window = Window(30, 20, 40, 30)
    no_shadow = openings.Shadow(2.0, 0.0, np.zeros(4, np.float32))

    openings.fill(frame, window, lower, no_shadow, lambda part: behind[part.slices].astype(np.float32))

    over, under = before[window.slices][..., 3:] / 255, lower[..., 3:] / 255.0
    below = lower * under + behind[window.slices] * (1 - under)
    expected = before[window.slices] * over + below * (1 - over)
    assert np.abs(frame[window.slices].astype(float) - expected)[..., :3].max() <= 2
    before[window.slices] = frame[window.slices]
    assert np.array_equal(frame, before)


def test_what_is_behind_an_opening_is_darkest_under_its_upper_edge() -> None:
    frame, lower = np.zeros((60, 60, 4), np.uint8), np.zeros((60, 60, 4), np.uint8)
    frame[:20, :, 3] = lower[40:, :, 3] = 255
    shadow = openings.Shadow(3.0, 2.0, np.full(4, 0.6, np.float32))

    def white(part: Window) -> NDArray[np.float32]:
        return np.full((part.height, part.width, 4), 200, np.float32)

    openings.fill(frame, Window(0, 0, 60, 60), lower, shadow, white)

    top, middle, bottom = (int(frame[row, 30, 0]) for row in (20, 31, 39))
    assert top < 140 < bottom <= middle == 200


def test_nothing_is_drawn_behind_a_closed_opening() -> None:
    frame, lower = noise(20, 20, 4), noise(20, 20, 4)
    frame[..., 3] = np.where(np.arange(20)[:, None] < 10, 255, 0)
    lower[..., 3] = 255

    def unseen(part: Window) -> NDArray[np.float32]:
        raise AssertionError(part)

    openings.fill(frame, Window(0, 0, 20, 20), lower, openings.Shadow(2.0, 0.0, np.zeros(4, np.float32)), unseen)

    assert np.array_equal(frame[10:, :, :3], lower[10:, :, :3])


# Retouching


def test_a_retouch_is_laid_on_by_its_strength_and_keeps_the_pictures_opacity() -> None:
    picture = noise(16, 16, 4)
    paint = np.dstack([np.full((8, 8, 3), 90, np.uint8), np.full((8, 8), 255, np.uint8)])
    own = np.stack(np.meshgrid(np.arange(16), np.arange(16)), axis=-1).astype(np.float32)
    half, full = picture.copy(), picture.copy()

    Retouch(paint, 4, 4).lay(half, own, 0.5)
    Retouch(paint, 4, 4).lay(full, own, 1.0)

    assert np.abs(full[4:12, 4:12, :3].astype(int) - 90).max() <= 1
    assert np.abs(half[4:12, 4:12, :3] - (picture[4:12, 4:12, :3] + 90.0) / 2).max() <= 2
    for drawn in (half, full):
        assert np.array_equal(drawn[..., 3], picture[..., 3])
        assert np.array_equal(drawn[13:], picture[13:])


@pytest.mark.parametrize("name", NAMES)
def test_a_closed_eye_shows_skin_with_one_line_of_lashes(rigs: dict[str, PortraitRig], name: str) -> None:
    rig = rigs[name]
    closed = Artist(rig).draw(Pose({"blink_l": 1.0, "blink_r": 1.0}))

    for eye in rig.anatomy.eyes:
        x = eye.centre[0]
        edge = float(eye.lower.at(np.array([x]))[0])
        column = [closed[round(py), round(px)].mean() for px, py in (rig.anatomy.to_px(x, edge + d) for d in _LID_MM)]
        line = int(np.argmin(column))
        assert abs(_LID_MM[line]) <= 1.5
        lid = np.array(column)[_LID_MM < -2.0]
        # Lashes that stand on the lid would alternate with it.
        assert np.abs(np.diff(lid)).max() < 0.25 * (lid.mean() - column[line])


_LID_MM = np.arange(-7.0, 3.01, 0.5)
"""From the closed lid down to the cheek, from the edge of the lower lid."""


@pytest.mark.parametrize("name", NAMES)
def test_an_open_mouth_has_no_dark_line_around_it(rigs: dict[str, PortraitRig], name: str) -> None:
    rig = rigs[name]
    drawn = Artist(rig).draw(Pose({"jaw": 0.7, "au25": 0.3}, tongue=0.1)).astype(float).mean(axis=2)

    x, y = rig.anatomy.to_px(*rig.anatomy.mouth)
    column = drawn[round(y) : round(y + 30 * rig.anatomy.px_per_mm), round(x)]
    inside = int(np.argmin(column[: round(8 * rig.anatomy.px_per_mm)]))
    lip = inside + int(np.argmax(column[inside : inside + round(12 * rig.anatomy.px_per_mm)]))
    # From the dark to the lip it only grows lighter.
    fall = np.maximum.accumulate(column[inside:lip]) - column[inside:lip]
    assert fall.max() < 12


# Glasses


def with_glasses(rig: PortraitRig) -> NDArray[np.uint8]:
    """The portrait with round, dark rims and a bridge drawn over it."""
    image = np.ascontiguousarray(rig.upper[::2, ::2, :3])
    unit = rig.anatomy.px_per_mm
    centres = [tuple(round(v) for v in rig.anatomy.to_px(*eye.centre)) for eye in rig.anatomy.eyes]
    for centre in centres:
        cv2.circle(image, centre, round(23 * unit), (30, 25, 25), round(2 * unit), cv2.LINE_AA)
    (left, y), (right, _) = centres
    reach = round(22 * unit)
    cv2.line(image, (left + reach, y), (right - reach, y), (30, 25, 25), round(2 * unit), cv2.LINE_AA)
    return image


@pytest.mark.parametrize("name", NAMES)
def test_glasses_are_found_and_bare_faces_have_none(rigs: dict[str, PortraitRig], name: str) -> None:
    rig = rigs[name]
    assert rig.glasses is None

    image = with_glasses(rig)
    rim = glasses.rims(image, rig.anatomy)

    assert rim is not None
    drawn = np.abs(image.astype(int) - rig.upper[::2, ::2, :3]).max(axis=2) > 60
    assert np.mean(rim[drawn] == 255) > 0.9
    assert np.mean(drawn[rim == 255]) > 0.7


def test_rims_stay_straight_while_the_brows_behind_them_move(rigs: dict[str, PortraitRig]) -> None:
    bare = rigs["marcus"]
    rig = build(replace(bare.framed, image=with_glasses(bare)))
    assert rig.glasses is not None
    x, y = rig.anatomy.to_px(*rig.anatomy.eyes[0].centre)
    radius = 23 * rig.anatomy.px_per_mm

    def on_rim(pose: Pose) -> NDArray[np.float64]:
        """Brightness along the upper half of one rim, and beside it."""
        frame = Artist(rig).draw(pose).mean(axis=2)
        angles = np.deg2rad(np.arange(200, 341, 10))
        return np.array([frame[round(y + radius * np.sin(a)), round(x + radius * np.cos(a))] for a in angles])

    assert on_rim(Pose({})).max() < 70
    assert on_rim(Pose({"au1": 1.4, "au2": 1.2})).max() < 70
    assert on_rim(Pose({"au4": 1.5})).max() < 70


def test_glasses_move_with_the_head(rigs: dict[str, PortraitRig]) -> None:
    bare = rigs["anna"]
    rig = build(replace(bare.framed, image=with_glasses(bare)))
    artist = Artist(rig)
    still, moved = (artist.draw(Pose({"shift_x": shift})) for shift in (0.0, 4.0))

    step = round(4.0 * rig.anatomy.px_per_mm)
    x, y = (round(v) for v in rig.anatomy.to_px(0.0, rig.anatomy.eyes[0].centre[1]))
    rows, columns = slice(y - 1, y + 2), slice(x - 10, x + 10)
    shifted = slice(columns.start + step, columns.stop + step)
    assert still[rows, columns].max() < 60
    assert moved[rows, shifted].max() < 60
