"""The hibari voice with its real model: a voice of its own for each identity, measured on what it says.

The model is 8-bit, and ONNX Runtime rounds it otherwise on each instruction set. A limit that rests on it lies one
range beyond what AVX-512 VNNI, AVX2 and SSE measured, at all levels of graph optimization.
"""

import itertools

import numpy as np
import pytest

from perception.voice import Floats, VoiceReader, envelope_distance_db, resample, semitones
from services.common.errors import InvalidRequest
from services.tts.backends.hibari import HibariBackend, HibariVoice
from services.tts.domain import Delivery, Profile, VoiceReference
from tests.hibari_voice import CALM, PLAIN, PROFILES, fitted_voices, joined, loaded, recording, spoken


@pytest.fixture(scope="module")
def backend() -> HibariBackend:
    return loaded()


@pytest.fixture(scope="module")
def reader() -> VoiceReader:
    return VoiceReader()


@pytest.fixture(scope="module")
def voices() -> dict[str, HibariVoice]:
    return fitted_voices()


def test_four_identities_have_four_voices(voices: dict[str, HibariVoice]) -> None:
    timbres = {name: voice.timbre for name, voice in voices.items()}
    for first, second in itertools.combinations(timbres.values(), 2):
        is_other_pitch = abs(semitones(first.pitch, second.pitch)) > 2.5
        is_other_size = abs(first.formant - second.formant) > 0.05
        assert is_other_pitch or is_other_size
    order = sorted(timbres, key=lambda name: timbres[name].pitch)
    assert order == ["marcus", "kenji", "ingrid", "anna"]
    assert timbres["ingrid"].rate < timbres["anna"].rate
    assert timbres["ingrid"].tremor_semitones > 0 == timbres["anna"].tremor_semitones


@pytest.mark.parametrize("name", PROFILES)
def test_a_voice_fitted_to_a_recording_sounds_like_that_recording_and_no_other(
    backend: HibariBackend, reader: VoiceReader, voices: dict[str, HibariVoice], name: str
) -> None:
    references = {other: reader.read(recording(other).samples, 24_000) for other in PROFILES}
    heard = reader.read(joined(spoken(backend, voice=voices[name])), 24_000)
    # Kenji was 1.53 off on VNNI, 1.40 on AVX2, 1.18 on SSE; he is 6.4 off with a voice that is not fitted.
    assert abs(semitones(heard.pitch_hz, references[name].pitch_hz)) < 1.9
    distances = {
        other: envelope_distance_db(heard.envelope, reference.envelope) for other, reference in references.items()
    }
    assert min(distances, key=lambda other: distances[other]) == name


@pytest.mark.parametrize("style", ["cheerful", "angry", "sad", "terrified"])
def test_an_identity_stays_itself_in_every_emotion(
    backend: HibariBackend, reader: VoiceReader, voices: dict[str, HibariVoice], style: str
) -> None:
    # Emotion moves pitch and tilt alike for everybody, so who speaks is told within one emotion.
    heard, calm = (
        {
            name: reader.read(joined(spoken(backend, voice=voice, delivery=delivery)), 24_000)
            for name, voice in voices.items()
        }
        for delivery in (Delivery(style, 1.0), CALM)
    )
    moves = {name: semitones(heard[name].pitch_hz, calm[name].pitch_hz) for name in voices}
    # Terrified differed by 1.15 on VNNI, 0.62 on AVX2, 0.54 on SSE; by 4.3 if pitch moved in hertz.
    assert max(moves.values()) - min(moves.values()) < 1.8
    centre = np.mean([prosody.envelope for prosody in heard.values()], axis=0)
    calm_centre = np.mean([prosody.envelope for prosody in calm.values()], axis=0)
    for name in voices:
        distances = {
            other: envelope_distance_db(heard[name].envelope - centre, calm[other].envelope - calm_centre)
            for other in voices
        }
        assert min(distances, key=lambda other: distances[other]) == name


def test_a_recording_at_another_rate_gives_the_same_voice(
    backend: HibariBackend, voices: dict[str, HibariVoice]
) -> None:
    reference = recording("kenji")
    narrow = VoiceReference("kenji-8k", resample(reference.samples, 24_000, 8_000), 8_000)
    fitted = backend.prepare([narrow], PROFILES["kenji"])
    assert abs(semitones(fitted.timbre.pitch, voices["kenji"].timbre.pitch)) < 0.5
    assert fitted.timbre.formant == pytest.approx(voices["kenji"].timbre.formant, abs=0.06)


def test_a_voice_of_several_recordings_lies_between_them(
    backend: HibariBackend, voices: dict[str, HibariVoice]
) -> None:
    profile = Profile("middle-aged", "female", "mid")
    both = backend.prepare([recording("anna"), recording("marcus")], profile).timbre
    pitches = sorted(voices[name].timbre.pitch for name in ("anna", "marcus"))
    assert pitches[0] * 1.1 < both.pitch < pitches[1] / 1.1
    twice = backend.prepare([recording("anna"), recording("anna")], PROFILES["anna"]).timbre
    assert twice.pitch == pytest.approx(voices["anna"].timbre.pitch)


def test_a_fitted_voice_comes_back_from_its_bytes_and_speaks_the_same_samples(
    backend: HibariBackend, voices: dict[str, HibariVoice]
) -> None:
    for voice in (voices["ingrid"], PLAIN):
        again = backend.unpack(backend.pack(voice))
        assert np.array_equal(joined(spoken(backend, voice=voice)), joined(spoken(backend, voice=again)))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{}", b'{"colour": null, "size": 3}'])
def test_bytes_that_are_no_fitted_voice_are_an_error(backend: HibariBackend, content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own says where it stopped
        backend.unpack(content)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.zeros(48_000, np.float32), "voice: is silent"),
        (recording("anna").samples[:14_000], "voice: holds 0.* s of sound; at least 1 s"),
        (np.random.default_rng(0).normal(0, 0.1, 48_000).astype(np.float32), "voice: is not speech"),
        (np.sin(np.arange(72_000) / 20).astype(np.float32), "voice: is not speech"),
        (np.zeros(10, np.float32), "voice: .*32 ms"),
    ],
    ids=["silence", "too short", "noise", "a tone", "nothing"],
)
def test_a_recording_without_a_voice_in_it_is_refused(backend: HibariBackend, samples: Floats, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        backend.prepare([VoiceReference("x", samples, 24_000)], PROFILES["anna"])
