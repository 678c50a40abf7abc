"""What the voice reader says about sounds whose truth is known."""

import numpy as np
import pytest

from perception.voice import (
    CEPSTRA,
    Floats,
    VoiceReader,
    envelope_curve_db,
    envelope_distance_db,
    envelope_of_curve,
    resample,
    semitones,
)

RATE_HZ = 24_000


@pytest.fixture(scope="module")
def reader() -> VoiceReader:
    return VoiceReader()


def hummed(pitch_hz: float, seconds: float = 1.5, slope_db_octave: float = -9.0, formant: float = 1.0) -> Floats:
    """A vowel: harmonics that fall by a slope, with two resonances."""
    time = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    sound = np.zeros(len(time))
    for harmonic in range(1, int(8000 / pitch_hz)):
        frequency = harmonic * pitch_hz
        resonance = sum(10 / (1 + ((frequency - formant * centre) / 120) ** 2) for centre in (600, 1700))
        level_db = slope_db_octave * np.log2(frequency / 100) + resonance
        sound += 10 ** (level_db / 20) * np.sin(2 * np.pi * frequency * time + harmonic**2)
    return np.asarray(0.3 * sound / np.abs(sound).max(), np.float32)


@pytest.mark.parametrize("pitch_hz", [85.0, 120.0, 210.0, 330.0])
def test_the_pitch_is_the_pitch_that_was_hummed(reader: VoiceReader, pitch_hz: float) -> None:
    heard = reader.read(hummed(pitch_hz), RATE_HZ)
    assert abs(semitones(heard.pitch_hz, pitch_hz)) < 0.3
    assert heard.voiced_fraction > 0.9


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000, 96_000])
def test_the_sample_rate_of_a_recording_does_not_change_what_is_read(reader: VoiceReader, rate_hz: int) -> None:
    sound = hummed(180)
    expected, heard = reader.read(sound, RATE_HZ), reader.read(resample(sound, RATE_HZ, rate_hz), rate_hz)
    assert abs(semitones(heard.pitch_hz, expected.pitch_hz)) < 0.2
    assert abs(heard.level_dbfs - expected.level_dbfs) < 0.5
    assert abs(heard.tilt_db_octave - expected.tilt_db_octave) < 0.3
    assert envelope_distance_db(heard.envelope, expected.envelope) < 0.5


def test_resampling_keeps_length_pitch_and_amplitude() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(44_100) / 44_100).astype(np.float32)
    changed = resample(tone, 44_100, 16_000)
    expected = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert len(changed) == 16_000
    assert np.abs(changed - expected)[200:-200].max() < 0.01


def test_a_glide_has_the_range_that_it_glides(reader: VoiceReader) -> None:
    pitch = 150 * 2 ** (np.linspace(0, 12, 2 * RATE_HZ) / 12)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE_HZ
    sound = np.sum([np.sin(harmonic * phase) / harmonic for harmonic in range(1, 20)], axis=0)
    heard = reader.read(np.asarray(0.1 * sound, np.float32), RATE_HZ)
    assert heard.pitch_range_semitones == pytest.approx(0.8 * 12, abs=0.7)


def test_ten_decibels_are_read_as_ten_decibels_and_change_nothing_else(reader: VoiceReader) -> None:
    loud = reader.read(hummed(200), RATE_HZ)
    soft = reader.read(hummed(200) * np.float32(10**-0.5), RATE_HZ)
    assert loud.level_dbfs - soft.level_dbfs == pytest.approx(10, abs=0.1)
    assert soft.tilt_db_octave == pytest.approx(loud.tilt_db_octave, abs=0.1)
    assert envelope_distance_db(soft.envelope, loud.envelope) < 0.2


def test_a_brighter_voice_has_the_higher_tilt_by_as_much(reader: VoiceReader) -> None:
    dull, bright = (reader.read(hummed(150, slope_db_octave=slope), RATE_HZ) for slope in (-12, -8))
    assert bright.tilt_db_octave - dull.tilt_db_octave == pytest.approx(4, abs=0.7)


def test_noise_among_the_harmonics_is_read_as_breath(reader: VoiceReader) -> None:
    clear = hummed(200)
    noise = np.random.default_rng(1).normal(0, 0.02, len(clear)).astype(np.float32)
    assert reader.read(clear + noise, RATE_HZ).breathiness_db > reader.read(clear, RATE_HZ).breathiness_db + 1


def test_five_bursts_of_voice_a_second_are_five_syllables_a_second(reader: VoiceReader) -> None:
    sound = hummed(160, seconds=3)
    time = np.arange(len(sound)) / RATE_HZ
    heard = reader.read((sound * (0.15 + 0.85 * np.sin(np.pi * 5 * time) ** 2)).astype(np.float32), RATE_HZ)
    assert heard.rate_hz * heard.speech_s == pytest.approx(15, abs=1)


def test_the_envelope_tells_throats_apart_whatever_the_pitch(reader: VoiceReader) -> None:
    same = [reader.read(hummed(pitch, formant=1.0), RATE_HZ).envelope for pitch in (110, 140)]
    other = reader.read(hummed(110, formant=1.2), RATE_HZ).envelope
    assert envelope_distance_db(same[0], other) > 1.5 * envelope_distance_db(*same)


def test_pauses_are_not_counted_as_speech(reader: VoiceReader) -> None:
    pause = np.zeros(RATE_HZ, np.float32)
    heard = reader.read(np.concatenate([pause, hummed(200, seconds=1), pause]), RATE_HZ)
    assert heard.duration_s == pytest.approx(3, abs=0.01)
    assert heard.speech_s == pytest.approx(1, abs=0.06)


def test_silence_has_no_speech_and_no_pitch(reader: VoiceReader) -> None:
    heard = reader.read(np.zeros(RATE_HZ, np.float32), RATE_HZ)
    assert heard.speech_s == 0
    assert np.isnan(heard.pitch_hz)


def test_noise_has_no_voice(reader: VoiceReader) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, RATE_HZ).astype(np.float32)
    assert reader.read(noise, RATE_HZ).voiced_fraction < 0.1


def test_the_track_has_a_frame_every_sixteen_milliseconds_and_hears_where_the_voice_starts(reader: VoiceReader) -> None:
    track = reader.track(np.concatenate([np.zeros(RATE_HZ // 2, np.float32), hummed(200, seconds=0.5)]), RATE_HZ)
    assert np.allclose(np.diff(track.times_s), 0.016)
    assert track.times_s[np.argmax(track.voiced)] == pytest.approx(0.5, abs=0.05)
    assert not track.active[track.times_s < 0.45].any()


def test_an_envelope_and_its_curve_are_the_same_thing() -> None:
    envelope = np.random.default_rng(2).normal(0, 1, CEPSTRA).astype(np.float32)
    frequency = np.linspace(50, 4000, 4000, dtype=np.float32)
    returned = envelope_of_curve(frequency, envelope_curve_db(envelope, frequency))
    assert envelope_distance_db(returned, envelope) < 0.2


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.zeros((2, 24_000), np.float32), "mono"),
        (np.full(24_000, np.nan, np.float32), "finite"),
        (np.zeros(100, np.float32), "32 ms"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(reader: VoiceReader, samples: Floats, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        reader.read(samples, RATE_HZ)
