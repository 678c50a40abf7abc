"""What a studio remembers of portraits."""

import weakref

import numpy as np
import pytest
from numpy.typing import NDArray

from services.video.domain import PACKED_BYTES_MAX, RIG_KEEP_S, Portrait, Rig, Studio
from tests.fake_faces import FakeFace


def test_a_portrait_is_not_looked_into_again_while_its_rig_is_kept() -> None:
    studio, looked = Studio(FakeFace(), rigs_max=1), []

    def image() -> NDArray[np.uint8]:
        looked.append("at it")
        return np.ones((8, 8, 3), np.uint8)

    rig = studio.rig("a", image).rig
    assert studio.rig("a", image).rig is rig
    assert len(looked) == 1
    studio.rig("b", image)
    studio.rig("a", image)
    assert len(looked) == 3


def white() -> NDArray[np.uint8]:
    return np.ones((8, 8, 3), np.uint8)


def unread() -> NDArray[np.uint8]:
    raise AssertionError("the picture was decoded")


def test_a_rigged_face_is_handed_out_to_the_first_that_does_not_bring_it() -> None:
    one, other = FakeFace(), FakeFace()
    studio = Studio(one, rigs_max=1)
    studio.check_portrait("a", white)
    first = studio.rig("a", unread)
    assert first.packed.endswith(one.packed)
    assert studio.rig("a", unread).packed == b""

    elsewhere = Studio(other, rigs_max=1)
    brought = elsewhere.rig("a", unread, first.packed)
    assert (brought.rig_s, brought.packed, other.prepared, other.restored) == (0, b"", [], [one.packed])


def test_a_rigged_face_that_was_brought_is_shown_to_nobody_else() -> None:
    face = FakeFace()
    packed = Studio(FakeFace(), rigs_max=1).rig("a", white).packed
    studio = Studio(face, rigs_max=2)
    brought = studio.rig("a", unread, packed).rig
    own = studio.rig("a", white).rig
    assert (own is brought, len(face.prepared)) == (False, 1)
    assert studio.rig("a", unread, packed).rig is brought


def test_a_face_that_was_checked_here_is_not_handed_out_to_who_brings_it() -> None:
    packed = Studio(FakeFace(), rigs_max=1).rig("a", white).packed
    studio = Studio(FakeFace(), rigs_max=1)
    studio.check_portrait("a", white)
    assert studio.rig("a", unread, packed).packed == b""


def test_what_cannot_be_read_is_rigged_again_and_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    face = FakeFace()
    packed = Studio(FakeFace(), rigs_max=1).rig("a", white).packed
    found = Studio(face, rigs_max=1).rig("a", white, packed[:-1] + b"?")
    assert (found.packed, len(face.prepared)) == (packed, 1)
    assert "rigged again: it is damaged" in caplog.text


def test_another_way_of_rigging_makes_what_was_kept_stale() -> None:
    packed, face = Studio(FakeFace(), rigs_max=1).rig("a", white).packed, FakeFace()
    face.rigging = 2
    assert Studio(face, rigs_max=1).rig("a", white, packed).packed not in (packed, b"")
    assert (len(face.prepared), face.restored) == (1, [])


@pytest.mark.parametrize("content", [b"", bytes(PACKED_BYTES_MAX)], ids=["nothing", "too much"])
def test_what_is_not_worth_keeping_or_too_large_is_not_handed_out(content: bytes) -> None:
    face = FakeFace()
    face.packed = content
    assert Studio(face, rigs_max=1).rig("a", white).packed == b""


class FreshFace(FakeFace):
    """Makes of each portrait an object of its own."""

    def prepare(self, portrait: Portrait) -> Rig:
        return set()


def test_a_rig_is_gone_so_long_after_its_last_use_also_when_nobody_films() -> None:
    now_s = 0.0
    studio = Studio(FreshFace(), 4, lambda: now_s)
    studio.rig("a", white)
    rig = weakref.ref(studio.rig("a", unread).rig)
    now_s = RIG_KEEP_S - 1
    studio.drop_unused()
    studio.rig("a", unread)
    now_s += RIG_KEEP_S - 1
    studio.drop_unused()
    assert rig() is not None
    now_s += 1
    studio.drop_unused()
    assert rig() is None
