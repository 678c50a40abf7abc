"""Playback of a reply while it arrives."""

import numpy as np
import pytest

from benchmarks.load.playback import InvalidVideo, Player, VideoTimes
from services.video.encoding import FragmentedMp4
from tests.media_files import FRAGMENTED
from tests.samples import film


def played(*arrivals: tuple[float, float]) -> tuple[int, float]:
    player = Player()
    for at_s, media_s in arrivals:
        player.arrive(at_s, media_s)
    return player.stalls, round(player.stalled_s, 9)


def test_a_reply_whose_chunks_come_before_they_are_shown_does_not_stall() -> None:
    assert played((7.0, 0.0), (7.4, 0.5), (8.0, 1.0), (8.0, 1.5)) == (0, 0.0)


def test_a_chunk_after_its_media_time_stalls_until_it_comes() -> None:
    assert played((7.0, 0.0), (8.25, 1.0), (8.5, 2.0)) == (1, 0.25)


def test_after_a_stall_everything_is_shown_later() -> None:
    # The third comes 1.5 s after its time from the begin, but only 0.5 s after its time with the first stall.
    assert played((0.0, 0.0), (2.0, 1.0), (3.5, 2.0), (5.4, 4.0)) == (2, 1.5)


def segment(first_frame: int, frames: int) -> list[bytes]:
    """The chunks of a part of a film, 25 pictures a second with their sound."""
    file = FragmentedMp4(64, 25, 16_000, first_frame)
    pictures = [np.full((64, 64, 3), 10 * number % 256, np.uint8) for number in range(frames)]
    return [*file.add(pictures, np.zeros(640 * frames, np.int16)), *file.finish()]


def test_times_are_those_of_the_pictures_over_all_segments_of_a_film() -> None:
    times = VideoTimes()
    starts = [start for chunk in [*segment(0, 50), *segment(50, 30)] for start in times.add(chunk)]
    assert starts[0] == 0
    assert starts == sorted(starts)
    assert 2.0 in [pytest.approx(start) for start in starts]
    assert times.end_s == pytest.approx(3.2)


def test_a_fragment_counts_when_all_its_bytes_are_there() -> None:
    content = b"".join(segment(0, 50))
    whole, split = VideoTimes(), VideoTimes()
    starts = whole.add(content)
    assert [start for at in range(0, len(content), 70) for start in split.add(content[at : at + 70])] == starts
    cut = VideoTimes()
    assert cut.add(content[: content.rindex(b"mdat") + 8]) == starts[:-1]
    assert cut.end_s == pytest.approx(starts[-1])


def test_other_muxers_films_are_read_too() -> None:
    times = VideoTimes()
    assert times.add(film(seconds=3.0, sound=False, parts=FRAGMENTED))[0] == 0
    assert times.end_s == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\0\0\0\3free", "a box has 3 bytes"),
        (b"\0\0\0\x08moov", "no video track in it"),
        (segment(25, 5)[0], "a fragment comes before the init segment"),
    ],
)
def test_what_is_no_film_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(InvalidVideo, match=told):
        VideoTimes().add(content)
