"""Every bad file that a user may send is refused with field, value and remedy, or handled and noted."""

import io
import random
import struct
import subprocess
import sys
import wave
import zlib
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.video.stream import VideoStream
from numpy.typing import NDArray

from services.common.errors import InvalidRequest, TooLarge
from services.common.images import decode_image, encode_jpeg
from services.understanding import media

Samples = NDArray[np.float64]


def tone(duration_s: float = 0.5, rate_hz: int = 16_000, pitch_hz: float = 220.0, peak: float = 0.3) -> Samples:
    return peak * np.sin(2 * np.pi * pitch_hz * np.arange(round(duration_s * rate_hz)) / rate_hz)


def wav(*channels: Samples, rate_hz: int = 16_000, bits: int = 16) -> bytes:
    """A PCM file; 24 bits are packed by hand, as `wave` takes bytes only."""
    values = np.stack(channels, axis=1)
    whole = np.round(values * (2 ** (bits - 1) - 1)).astype("<i4")
    packed = whole.view(np.uint8).reshape(*whole.shape, 4)[..., : bits // 8]
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(len(channels))
        file.setsampwidth(bits // 8)
        file.setframerate(rate_hz)
        file.writeframes(packed.tobytes())
    return buffer.getvalue()


def wav_of(
    codec: int, channels: int, rate_hz: int, data: bytes, *, declared_bytes: int | None = None, bits: int = 32
) -> bytes:
    """A RIFF file whose header says whatever is asked for."""
    block = channels * bits // 8 & 0xFFFF
    form = struct.pack("<HHIIHH", codec, channels, rate_hz, rate_hz * block & 0xFFFFFFFF, block, bits)
    size = len(data) if declared_bytes is None else declared_bytes
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", len(body) & 0xFFFFFFFF) + body


def clip(
    kind: str = "mp4",
    picture: str | None = "libx264",
    sound: str | None = "aac",
    *,
    width: int = 128,
    height: int = 96,
    count: int = 30,
    fps: int = 25,
    samples: Samples | None = None,
    **options: str,
) -> bytes:
    """A film whose pictures get brighter from left-top to the end, with a tone."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=kind) as output:
        video = output.add_stream(picture, rate=fps) if picture else None
        audio = output.add_stream(sound, rate=48_000) if sound else None
        if video is not None:
            assert isinstance(video, VideoStream)
            video.width, video.height = width, height
            video.pix_fmt = "yuvj420p" if picture == "mjpeg" else "yuv420p"
            video.options = {"preset": "ultrafast", **options} if picture == "libx264" else {**options}
            for index in range(count):
                image = np.full((height, width, 3), 40 + index * 160 // count, np.uint8)
                image[: height // 2, : width // 2] = (250, 20, 20)
                output.mux(video.encode(av.VideoFrame.from_ndarray(image, "rgb24").reformat(format=video.pix_fmt)))
            output.mux(video.encode(None))
        if audio is not None:
            assert isinstance(audio, AudioStream)
            values = tone(count / fps, 48_000) if samples is None else samples
            frame = av.AudioFrame.from_ndarray(values.astype(np.float32)[None], "fltp", "mono")
            frame.rate = 48_000
            for piece in av.AudioResampler(format=audio.format, layout=audio.layout, rate=48_000).resample(frame):
                output.mux(audio.encode(piece))
            output.mux(audio.encode(None))
    return buffer.getvalue()


def problem_of(read: Callable[[bytes], media.Media], content: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read(content)
    assert caught.value.field == ("audio" if read is media.read_audio else "video")
    return str(caught.value)


def pitch_of(samples: NDArray[np.float32]) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.fft.rfftfreq(len(samples), 1 / media.RATE_HZ)[spectrum.argmax()])


def peak_mib_of_reading(content: bytes, folder: Path) -> float:
    """Memory that a process of its own takes, at its peak, beyond what it had before it read `content` as video."""
    (folder / "file").write_bytes(content)
    program = """
import pathlib, sys
from services.common.errors import InvalidRequest
from services.understanding import media
def peak_kib():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
before = peak_kib()
try:
    media.read_video(pathlib.Path(sys.argv[1]).read_bytes())
except InvalidRequest:
    pass
print((peak_kib() - before) / 1024)
"""
    command = [sys.executable, "-c", program, str(folder / "file")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return float(done.stdout)


def red(pixel: NDArray[np.uint8]) -> bool:
    return bool(pixel[0] > 180 and pixel[2] < 90)


def sound_of(found: media.Media) -> NDArray[np.float32]:
    assert found.audio is not None
    samples = found.audio.samples
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert np.abs(samples).max() <= 1
    return samples


def test_plain_speech_quality_passes_unaltered() -> None:
    found = media.read_audio(wav(tone()))
    assert found.notes == ()
    assert found.frames == ()
    assert np.abs(sound_of(found) - tone()).max() < 2 / 32768
    assert found.audio is not None
    assert found.audio.duration_s == pytest.approx(0.5)


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 44_100, 96_000])
def test_other_rates_are_resampled_and_noted(rate_hz: int) -> None:
    found = media.read_audio(wav(tone(rate_hz=rate_hz), rate_hz=rate_hz))
    assert len(sound_of(found)) == pytest.approx(8_000, abs=20)
    assert pitch_of(sound_of(found)) == pytest.approx(220, abs=3)
    assert found.notes == (f"audio: sound resampled from {rate_hz} to 16000 samples per second",)


def test_stereo_is_mixed_down_and_noted() -> None:
    found = media.read_audio(wav(tone(peak=0.4), np.zeros(8_000)))
    assert np.abs(sound_of(found)).max() == pytest.approx(0.2, abs=0.01)
    assert found.notes == ("audio: mixed 2 channels down to 1",)


def test_channels_in_opposite_phase_do_not_cancel_to_silence() -> None:
    found = media.read_audio(wav(tone(peak=0.1), -tone(peak=0.1)))
    assert np.abs(sound_of(found)).max() == pytest.approx(0.1, abs=0.01)
    assert found.notes == ("audio: the 2 channels cancel each other; used the loudest one",)


def test_24_bit_and_float_files_are_read() -> None:
    assert np.abs(sound_of(media.read_audio(wav(tone(), bits=24))) - tone()).max() < 1e-5
    floats = wav_of(3, 1, 16_000, tone().astype("<f4").tobytes())
    assert np.abs(sound_of(media.read_audio(floats)) - tone()).max() < 1e-5


def test_floats_beyond_full_scale_are_scaled_down_and_noted() -> None:
    found = media.read_audio(wav_of(3, 1, 16_000, tone(peak=8.0).astype("<f4").tobytes()))
    assert np.abs(sound_of(found)).max() == pytest.approx(1.0)
    assert found.notes == ("audio: sound scaled down from a peak of 8 to 1",)


def test_floats_that_are_not_numbers_are_refused() -> None:
    values = tone().astype("<f4")
    values[77] = np.nan
    assert "not numbers" in problem_of(media.read_audio, wav_of(3, 1, 16_000, values.tobytes()))


@pytest.mark.parametrize(
    ("kind", "codec"), [("ogg", "libopus"), ("flac", "flac"), ("mp3", "libmp3lame"), ("adts", "aac"), ("mp4", "aac")]
)
def test_compressed_sound_is_read(kind: str, codec: str) -> None:
    samples = sound_of(media.read_audio(clip(kind, None, codec)))
    assert len(samples) / media.RATE_HZ == pytest.approx(1.2, abs=0.1)
    assert pitch_of(samples) == pytest.approx(220, abs=3)


@pytest.mark.parametrize("read", [media.read_audio, media.read_video])
def test_an_empty_file_is_refused(read: Callable[[bytes], media.Media]) -> None:
    assert "the file is empty (0 bytes); send WAV" in problem_of(read, b"")


@pytest.mark.parametrize("read", [media.read_audio, media.read_video])
@pytest.mark.parametrize(
    "content",
    [
        b"Dear avatar, this is a letter and not a recording.",
        random.Random(7).randbytes(5_000),
        b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n",
        b"ffconcat version 1.0\nfile /etc/passwd\n",
        b"RIFF",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
    ],
)
def test_what_is_no_media_file_is_refused_and_shown(read: Callable[[bytes], media.Media], content: bytes) -> None:
    problem = problem_of(read, content)
    assert f"{len(content)} bytes beginning with {content[:12]!r} are no media file known here" in problem
    assert "send WAV, FLAC" in problem


def test_a_truncated_wav_is_used_as_far_as_it_goes_and_noted() -> None:
    whole = wav(tone(1.0))
    found = media.read_audio(whole[: 44 + 12_000])
    assert len(sound_of(found)) == pytest.approx(6_000, abs=30)
    assert found.notes == ("audio: the file is truncated, its last 20000 bytes are missing; what is there was used",)


def test_a_wav_cut_before_its_samples_is_refused() -> None:
    whole = wav(tone())
    assert "the sound is 0.00 s long, it must have 0.1 s" in problem_of(media.read_audio, whole[:44])
    assert "wav file of 20 bytes is damaged or incomplete" in problem_of(media.read_audio, whole[:20])


def test_a_wav_that_declares_four_gigabytes_is_read_within_its_own_size() -> None:
    content = wav_of(3, 1, 16_000, tone().astype("<f4").tobytes(), declared_bytes=0xFFFFFF00)
    found = media.read_audio(content)
    assert len(sound_of(found)) == pytest.approx(8_000, abs=20)
    assert found.notes[0].startswith("audio: the file is truncated, its last 4294")


def test_a_wav_written_by_a_stream_needs_no_length() -> None:
    content = wav_of(3, 1, 16_000, tone().astype("<f4").tobytes(), declared_bytes=0xFFFFFFFF)
    assert media.read_audio(content).notes == ()


@pytest.mark.parametrize("samples", [np.zeros(8_000), np.full(8_000, 0.25), tone(peak=0.0009)])
def test_silence_is_refused_even_with_an_offset(samples: Samples) -> None:
    problem = problem_of(media.read_audio, wav(samples))
    assert problem.startswith("audio: no sound: the sound is silent, its peak is ")
    assert "must be above -60 dB" in problem
    assert problem.endswith("check the microphone and record it again")


def test_quiet_speech_is_not_silence() -> None:
    assert media.read_audio(wav(tone(peak=0.002))).audio is not None


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


def test_rare_codecs_are_refused() -> None:
    problem = problem_of(media.read_audio, clip("matroska", None, "ac3"))
    assert "coded as ac3; use one of: pcm, adpcm_ima_wav, adpcm_ms, aac, opus" in problem


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


def pictures_of(*sizes: tuple[int, int]) -> bytes:
    """A film of grey JPEG pictures whose header tells the size of small ones."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="avi") as output:
        stream = output.add_stream("mjpeg", rate=25)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuvj420p"
        for index, size in enumerate(sizes):
            packet = av.Packet(cv2.imencode(".jpg", np.full(size, 99, np.uint8))[1].tobytes())
            packet.stream, packet.pts, packet.dts, packet.is_keyframe = stream, index, index, True
            output.mux(packet)
    return buffer.getvalue()


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


def fragmented() -> bytes:
    buffer = io.BytesIO()
    with (
        av.open(io.BytesIO(clip(sound=None)), "r") as source,
        av.open(buffer, "w", format="mp4", options={"movflags": "frag_keyframe+empty_moov"}) as output,
    ):
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    return buffer.getvalue()


def test_a_fragmented_mp4_is_read() -> None:
    assert len(media.read_video(fragmented()).frames) == 16


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


def test_an_image_survives_its_way_over_the_wire() -> None:
    image = np.zeros((48, 64, 3), np.uint8)
    image[:, 32:] = (220, 40, 90)
    content = encode_jpeg(image)
    assert content.startswith(b"\xff\xd8")
    assert np.abs(decode_image(content, "frame").astype(int) - image)[:, 40:].max() < 6


def test_a_png_and_a_grey_image_decode_to_rgb() -> None:
    grey = np.full((10, 12), 77, np.uint8)
    content = cv2.imencode(".png", grey)[1].tobytes()
    assert np.array_equal(decode_image(content, "portrait"), np.full((10, 12, 3), 77))


@pytest.mark.parametrize(
    "content", [b"", b"not an image", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a" + bytes(50)]
)
def test_what_is_no_image_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"portrait: .*JPEG or PNG"):
        decode_image(content, "portrait")


def test_a_damaged_image_is_refused() -> None:
    whole = cv2.imencode(".png", np.zeros((40, 40, 3), np.uint8))[1].tobytes()
    with pytest.raises(InvalidRequest, match=r"portrait: the image is damaged .*; send it again"):
        decode_image(whole[:50], "portrait")


def test_an_image_that_claims_to_be_huge_is_refused_undecoded() -> None:
    content = bytearray(encode_jpeg(np.zeros((16, 16, 3), np.uint8)))
    at = content.index(b"\xff\xc0")
    content[at + 5 : at + 9] = struct.pack(">HH", 60_000, 60_000)
    with pytest.raises(TooLarge, match="portrait: the image is 60000x60000 px; send at most 4096 px a side"):
        decode_image(bytes(content), "portrait")
    png = bytearray(cv2.imencode(".png", np.zeros((16, 16), np.uint8))[1].tobytes())
    png[16:24] = struct.pack(">II", 5_000, 16)
    png[29:33] = struct.pack(">I", zlib.crc32(png[12:29]))
    with pytest.raises(TooLarge, match="5000x16 px"):
        decode_image(bytes(png), "portrait")


def test_only_an_rgb_image_is_encoded() -> None:
    with pytest.raises(ValueError, match="give uint8"):
        encode_jpeg(np.zeros((4, 4), np.uint8))
