"""Films give sound and upright pictures, and what is unusual is noted; a damaged one is refused with the remedy."""

import random
import struct

import numpy as np
import pytest

from services.understanding import media
from tests.clips import clip, fragmented, pitch_of, problem_of, red, sound_of


@pytest.mark.parametrize(
    ("kind", "picture", "sound"),
    [
        ("mp4", "libx264", "aac"),
        ("mov", "libx264", "pcm_s16le"),
        ("webm", "libvpx", "libopus"),
        ("webm", "libvpx-vp9", "libopus"),
        ("avi", "mjpeg", "pcm_s16le"),
    ],
)
def test_a_video_gives_sound_and_frames_spread_over_it(kind: str, picture: str, sound: str) -> None:
    found = media.read_video(clip(kind, picture, sound, count=50))
    assert pitch_of(sound_of(found)) == pytest.approx(220, abs=3)
    assert len(found.frames) == 16
    times = np.array([frame.time_s for frame in found.frames])
    assert times[0] == pytest.approx(2 / 32, abs=0.06)
    assert times[-1] == pytest.approx(2 - 2 / 32, abs=0.06)
    assert np.diff(times) == pytest.approx(2 / 16, abs=0.045)
    image = found.frames[0].image
    assert image.dtype == np.uint8
    assert image.shape == (96, 128, 3)
    # Red where red was painted: channels are RGB; brighter later: the frames are those of their times.
    assert red(image[20, 30])
    brightness = [float(frame.image[80:, 80:].mean()) for frame in found.frames]
    assert brightness == pytest.approx([40 + 160 * time_s / 2 for time_s in times], abs=8)


def test_a_video_of_fewer_pictures_gives_them_all() -> None:
    assert len(media.read_video(clip(count=5, sound=None)).frames) == 5


def test_large_pictures_are_scaled_down_and_small_ones_are_not_enlarged() -> None:
    found = media.read_video(clip(sound=None, width=1280, height=720, count=3), media.Limits(frames_max=2))
    assert [frame.image.shape for frame in found.frames] == [(360, 640, 3)] * 2
    assert media.read_video(clip(sound=None, count=3)).frames[0].image.shape == (96, 128, 3)


@pytest.mark.parametrize(("degrees", "corner"), [(90, (20, 80)), (180, (80, 110)), (270, (110, 20))])
def test_a_video_held_on_its_side_is_turned_upright(degrees: int, corner: tuple[int, int]) -> None:
    content = bytearray(clip(sound=None, count=3))
    cosine, sine = round(np.cos(np.radians(degrees))), round(np.sin(np.radians(degrees)))
    # The display matrix of the track header, 16.16 fixed point (ISO/IEC 14496-12, 8.3.2): clockwise by `degrees`.
    at = content.index(b"tkhd") + 4 + 40
    content[at : at + 20] = struct.pack(">5i", *(value * 65536 for value in (cosine, sine, 0, -sine, cosine)))
    image = media.read_video(bytes(content)).frames[0].image
    assert image.shape == ((128, 96, 3) if degrees != 180 else (96, 128, 3))
    assert red(image[corner]), "the red corner is not where the turn puts it"


def test_a_video_without_a_sound_track_is_read_and_noted() -> None:
    found = media.read_video(clip(sound=None))
    assert found.audio is None
    assert len(found.frames) == 16
    assert found.notes == ("video: the file has no sound track",)


def test_a_video_with_a_silent_sound_track_keeps_its_pictures() -> None:
    found = media.read_video(clip(samples=np.zeros(48_000)))
    assert found.audio is None
    assert found.frames
    assert found.notes == (
        "video: the sound was not used: the sound is silent, its peak is minus infinity dB of full scale and must be "
        "above -60 dB",
    )


def test_a_video_without_pictures_is_treated_as_sound() -> None:
    found = media.read_video(clip(picture=None))
    assert found.frames == ()
    assert pitch_of(sound_of(found)) == pytest.approx(220, abs=3)
    assert found.notes[0] == "video: the file has no pictures; its sound was used"
    silent = problem_of(media.read_video, clip(picture=None, samples=np.zeros(48_000)))
    assert "no pictures, and the sound is silent" in silent


def test_a_video_sent_as_sound_gives_its_sound_and_says_so() -> None:
    found = media.read_audio(clip())
    assert sound_of(found).size
    assert "audio: the file's pictures were not used; send it as video for that" in found.notes
    assert "no sound track" in problem_of(media.read_audio, clip(sound=None))


def test_an_mp4_that_is_cut_or_only_a_header_is_refused() -> None:
    whole = clip()
    for size in (40, len(whole) // 2):
        problem = problem_of(media.read_video, whole[:size])
        assert f"the mp4 file of {size} bytes is damaged or incomplete" in problem
        assert problem.endswith("send it again")


def test_an_mp4_whose_pictures_are_rubbish_is_refused() -> None:
    content = bytearray(clip(sound=None))
    start = content.index(b"mdat") + 4
    stop = content.index(b"moov") - 4
    content[start:stop] = random.Random(3).randbytes(stop - start)
    assert "none of the 30 pictures could be decoded; send the clip again" in problem_of(
        media.read_video, bytes(content)
    )


def test_a_few_damaged_pictures_are_survived() -> None:
    content = bytearray(clip(sound=None, width=320, height=240))
    middle = content.index(b"mdat") + (content.index(b"moov") - content.index(b"mdat")) // 2
    content[middle : middle + 40] = random.Random(3).randbytes(40)
    assert media.read_video(bytes(content)).frames


def test_titles_in_another_encoding_do_no_harm() -> None:
    content = clip().replace(b"Lavf", b"\xff\xfe\xfd\xfc")
    assert media.read_video(content).frames


def test_a_fragmented_mp4_is_read() -> None:
    assert len(media.read_video(fragmented()).frames) == 16
