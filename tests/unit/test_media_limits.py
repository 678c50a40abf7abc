"""No file takes more memory or time than the limits allow, whatever it declares and however it is damaged."""

import io
import random
import struct
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream

from services.common.errors import InvalidRequest, TooLarge
from services.understanding import media
from tests.clips import clip, fragmented, peak_mib_of_reading, pictures_of, problem_of, tone, wav, wav_of


def test_sound_over_the_limit_is_refused_whatever_the_header_says() -> None:
    long = wav_of(1, 1, 4_000, bytes(2 * 4_000 * 61), declared_bytes=0xFFFFFFFF, bits=16)
    with pytest.raises(TooLarge, match="audio: the sound is longer than 60 s; send at most 60 s"):
        media.read_audio(long)
    with pytest.raises(TooLarge, match=r"audio: the sound is longer than 0\.4 s"):
        media.read_audio(wav(tone(0.5)), media.Limits(duration_s_max=0.4))


def test_a_file_over_the_size_limit_is_refused_unopened() -> None:
    with pytest.raises(TooLarge, match=r"audio: the file has 2.0 MiB; send at most 1 MiB"):
        media.read_audio(bytes(2**21), media.Limits(content_bytes_max=2**20))
    with pytest.raises(TooLarge, match=r"video: the file has 32.0 MiB; send at most 32 MiB"):
        media.read_video(bytes(32 * 2**20 + 1))


def test_absurd_channels_and_rates_are_refused() -> None:
    assert "has 64 channels; send at most 8" in problem_of(
        media.read_audio, wav_of(1, 64, 16_000, bytes(12_800), bits=16)
    )
    rates = problem_of(media.read_audio, wav_of(1, 1, 2_000_000_000, bytes(12_800), bits=16))
    assert "has 2000000000 samples per second; send 4000 to 384000" in rates


@pytest.mark.parametrize("declared", [(20_000, 20_000), (12_000, 12_000), (65_535, 16)])
def test_pictures_declared_absurdly_large_are_refused_before_memory_is_taken(
    declared: tuple[int, int], tmp_path: Path
) -> None:
    content = clip("avi", "mjpeg", None, count=4)
    for at in range(len(content)):
        # The frame header of every JPEG, and the size in the stream's bitmap header.
        if content[at : at + 2] == b"\xff\xc0":
            content = content[: at + 5] + struct.pack(">HH", declared[1], declared[0]) + content[at + 9 :]
        elif content[at : at + 4] == b"strf":
            content = content[: at + 12] + struct.pack("<ii", *declared) + content[at + 20 :]
    problem = problem_of(media.read_video, content)
    assert "size of the pictures is missing or absurd" in problem or f"{declared[0]}x{declared[1]} px" in problem
    assert "send at most 4096 px a side" in problem
    assert peak_mib_of_reading(content, tmp_path) < 64


def test_a_picture_that_is_larger_than_the_clip_says_is_left_out(tmp_path: Path) -> None:
    content = pictures_of((96, 128), (96, 128), (96, 128), (5000, 5000))
    found = media.read_video(content)
    assert [frame.image.shape for frame in found.frames] == [(96, 128, 3)] * 3
    assert "video: damaged pictures that were left out: 1" in found.notes
    assert peak_mib_of_reading(content, tmp_path) < 32


def test_a_huge_first_picture_is_not_decoded_to_learn_what_the_clip_holds(tmp_path: Path) -> None:
    content = pictures_of((7000, 7000), (96, 128))
    assert peak_mib_of_reading(content, tmp_path) < 32


@pytest.mark.parametrize("box", [b"stsz", b"trun"])
def test_an_mp4_that_declares_a_billion_samples_is_refused_before_memory_is_taken(box: bytes, tmp_path: Path) -> None:
    content = bytearray(fragmented() if box == b"trun" else clip(sound=None))
    at = content.index(box) + (4 if box == b"trun" else 8) + 4
    if box == b"stsz":
        content[at - 4 : at] = struct.pack(">I", 1)
    content[at : at + 4] = struct.pack(">I", 1_000_000_000)
    with pytest.raises(TooLarge, match=r"video: its tracks declare 10000000\d\d samples; .* has 100000 "):
        media.read_video(bytes(content))
    assert peak_mib_of_reading(bytes(content), tmp_path) < 64


def test_boxes_nested_without_end_are_refused() -> None:
    depth = 50_000
    nested = b"".join(struct.pack(">I4s", 8 * (depth - level), b"moov") for level in range(depth))
    assert "damaged or incomplete" in problem_of(media.read_video, clip()[:32] + nested)


def test_a_file_of_very_many_streams_is_refused() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as output:
        streams = [output.add_stream("pcm_s16le", rate=16_000) for _ in range(40)]
        for stream in streams:
            assert isinstance(stream, AudioStream)
            stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1600), np.int16), "s16", "mono")
        frame.rate = 16_000
        for stream in streams:
            output.mux(stream.encode(frame))
    # Older libraries stop at the limit of streams by themselves, and then the file counts as damaged.
    with pytest.raises(InvalidRequest, match=r"video: .*([0-9]+ streams; send at most 16|damaged or incomplete)"):
        media.read_video(buffer.getvalue())


def test_a_clip_that_lasts_too_long_or_has_too_many_pictures_is_refused() -> None:
    with pytest.raises(TooLarge, match=r"video: the pictures last 61.0 s; send at most 60 s"):
        media.read_video(clip(sound=None, count=62, fps=1, width=32, height=32))
    with pytest.raises(TooLarge, match=r"video: the clip has more than 60 pictures; send 30 per second or fewer"):
        media.read_video(clip(sound=None, count=62, fps=200), media.Limits(duration_s_max=0.5))


def test_a_clip_of_more_pixels_than_can_be_decoded_in_time_is_sampled_after_its_key_pictures() -> None:
    limits = media.Limits(decode_pixels_max=60 * 128 * 96)
    found = media.read_video(clip(sound=None, count=160, g="40", sc_threshold="0"), limits)
    assert len(found.frames) > 10
    assert {int(frame.time_s * 25) // 40 for frame in found.frames} == {0, 1, 2, 3}
    assert all(round(frame.time_s * 25) % 40 < 15 for frame in found.frames)
    assert "160 pictures of 128x96 px are too many to decode in time" in found.notes[-1]
    assert found.notes[-1].endswith("used the first 15 after each of 4 key pictures")


def test_a_clip_of_very_many_key_pictures_is_sampled_over_its_whole_length() -> None:
    limits = media.Limits(decode_pixels_max=20 * 128 * 96)
    found = media.read_video(clip("avi", "mjpeg", None, count=100), limits)
    assert found.frames[-1].time_s > 3.5
    assert "used the first 1 after each of 20 key pictures" in found.notes[-1]


def test_decoding_stops_when_its_time_is_up() -> None:
    with pytest.raises(TooLarge, match="video: the file could not be decoded in 0 s; send a shorter or smaller clip"):
        media.read_video(clip(), media.Limits(decode_s_max=0))


def test_no_damage_does_more_than_an_invalid_request() -> None:
    files = [clip(count=8, width=64, height=64), clip("webm", "libvpx", "libopus", count=8, width=64, height=64)]
    files += [wav(tone(0.2), tone(0.2), rate_hz=8_000), clip("ogg", None, "libopus", count=8)]
    dice = random.Random(11)
    refused = 0
    for turn in range(200):
        content = bytearray(files[turn % len(files)])
        for _ in range(dice.randrange(1, 20)):
            at = dice.randrange(min(len(content), 2_000))
            content[at : at + 4] = dice.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4), dice.randbytes(4)])
        try:
            media.read_video(bytes(content[: dice.randrange(1, len(content) + 1)]))
        except InvalidRequest:
            refused += 1
    assert refused > 50
