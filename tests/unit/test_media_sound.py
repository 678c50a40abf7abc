"""Sound files are read, and what is unusual noted; what is no media file, or silent, is refused with the remedy."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from services.understanding import media
from tests.clips import Samples, clip, pitch_of, problem_of, sound_of, tone, wav, wav_of


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
    told = "the file is cut off: its sound ends after 0.38 s of the promised 1.00 s; what is there was used"
    assert found.notes == (f"audio: {told}",)


def test_a_wav_cut_before_its_samples_is_refused() -> None:
    whole = wav(tone())
    assert "the sound is 0.00 s long, it must have 0.1 s" in problem_of(media.read_audio, whole[:44])
    assert "wav file of 20 bytes is damaged or incomplete" in problem_of(media.read_audio, whole[:20])


def test_a_wav_that_declares_four_gigabytes_is_read_within_its_own_size() -> None:
    content = wav_of(3, 1, 16_000, tone().astype("<f4").tobytes(), declared_bytes=0xFFFF0000)
    found = media.read_audio(content)
    assert len(sound_of(found)) == pytest.approx(8_000, abs=20)
    assert found.cut == "the file is cut off: its sound ends after 0.50 s of the promised 67107.84 s"


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


def test_rare_codecs_are_refused() -> None:
    problem = problem_of(media.read_audio, clip("matroska", None, "ac3"))
    assert "coded as ac3; use one of: pcm, adpcm_ima_wav, adpcm_ms, aac, opus" in problem
