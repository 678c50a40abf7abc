import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hibari import Hibari, dsp
from numpy.typing import NDArray

import emotions
from perception.voice import VoiceReader, resample
from services.mllm.backends.voice import VoiceBackend, create
from services.mllm.domain import (
    AUDIO_RATE_HZ,
    NEUTRAL_CLEAR_MIN,
    Level,
    Message,
    Modality,
    Prediction,
    Transcriber,
    expression_vote,
)
from services.mllm.voice.cues import PRIOR, PROFILES, Cues, cues_of, syllables, weigh
from services.mllm.voice.listener import UNKNOWN

Floats = NDArray[np.float32]
SENTENCE = "I was walking home from work yesterday and somebody called my name across the street."


class Speaker:
    """Speaks with a voice whose pitch, range, pace, loudness and tilt can be chosen."""

    def __init__(self) -> None:
        self._voice = Hibari(model=".models/hibari/hibari.onnx")

    def __call__(
        self,
        text: str = SENTENCE,
        pitch: float = 1.0,
        spread: float = 1.0,
        pace: float = 1.0,
        gain: float = 1.0,
        tilt_db_octave: float = 0.0,
    ) -> Floats:
        """Returns float32 (n,) at 16 kHz; `spread` stretches the pitch about its mean in semitones."""
        return self.pronounce("".join(self._voice.phonemize(text)), pitch, spread, pace, gain, tilt_db_octave)

    def pronounce(
        self,
        sounds: str,
        pitch: float = 1.0,
        spread: float = 1.0,
        pace: float = 1.0,
        gain: float = 1.0,
        tilt_db_octave: float = 0.0,
    ) -> Floats:
        """Returns the same for sounds of the International Phonetic Alphabet, also of another language."""
        ids = self._voice.ids(sounds)
        feeds = {"ids": np.array([ids], np.int64), "speed": np.array([pace], np.float32)}
        harmonics, theta, noise, rest, phase, f0 = (part[0] for part in self._voice.sess.run(None, feeds)[:6])
        voiced = f0 > 40
        mean = np.exp(np.log(f0[voiced]).mean())
        bent = np.where(voiced, pitch * mean * (np.maximum(f0, 1) / mean) ** spread, f0).astype(np.float32)
        octaves = np.log2(np.clip(np.arange(len(harmonics)) * dsp.SR / dsp.N_FFT, 100, 8000) / 500)
        tilt = (octaves * tilt_db_octave * np.log(10) / 20).astype(np.float32)[:, None]
        random = np.random.default_rng(0)
        sound = dsp.synth(harmonics + tilt, theta, noise + tilt, rest + tilt, phase, bent, random)
        return resample(np.asarray(sound * gain, np.float32), dsp.SR, AUDIO_RATE_HZ)


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker()


@pytest.fixture(scope="module")
def backend() -> VoiceBackend:
    return create()


@pytest.fixture(scope="module")
def lively(speaker: Speaker) -> Floats:
    return speaker(pitch=1.25, spread=1.8, pace=1.25, gain=2, tilt_db_octave=3)


@pytest.fixture(scope="module")
def dull(speaker: Speaker) -> Floats:
    return speaker(pitch=0.9, spread=0.4, pace=0.75, gain=0.35, tilt_db_octave=-4)


def arousal(vote: Prediction) -> float:
    wheel = emotions.load()
    return sum(share * wheel.label(name).arousal for name, share in vote.distribution.items())


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def test_tells_what_was_said(backend: VoiceBackend, speaker: Speaker) -> None:
    heard = backend.transcribe(speaker())
    assert words(heard.text) == words(SENTENCE)
    assert heard.language == "en"
    assert heard.no_speech < 0.2
    assert isinstance(backend, Transcriber)


def test_understands_quiet_speech_between_silences(backend: VoiceBackend, dull: Floats) -> None:
    silence = np.zeros(2 * AUDIO_RATE_HZ, np.float32)
    assert words(backend.transcribe(np.concatenate([silence, dull, silence])).text) == words(SENTENCE)


def test_transcribes_more_than_whisper_hears_at_once(backend: VoiceBackend, speaker: Speaker) -> None:
    said = speaker()
    pause = np.zeros(AUDIO_RATE_HZ // 2, np.float32)
    several = np.concatenate([said, pause] * 7)
    assert len(several) > 30 * AUDIO_RATE_HZ
    assert words(backend.transcribe(several).text) == words(SENTENCE) * 7


def test_speech_in_another_language_is_not_taken_for_english(backend: VoiceBackend, speaker: Speaker) -> None:
    spanish = speaker.pronounce("oj e peɾdido mi tɾabaxo. estoj muj tɾiste, poɾke mi pero a mweɾto.")
    # The English voice's accent is strong: which language it is stays unknown.
    assert backend.transcribe(spanish) == UNKNOWN


def silence() -> Floats:
    return np.zeros(2 * AUDIO_RATE_HZ, np.float32)


def noise() -> Floats:
    return np.random.default_rng(0).normal(0, 0.1, 2 * AUDIO_RATE_HZ).astype(np.float32)


def hum() -> Floats:
    return np.asarray(0.3 * np.sin(np.arange(2 * AUDIO_RATE_HZ) * 0.05), np.float32)


def nothing() -> Floats:
    return np.zeros(0, np.float32)


@pytest.mark.parametrize("sound", [silence, noise, hum, nothing])
def test_neither_votes_on_nor_makes_words_of_what_is_not_speech(
    backend: VoiceBackend, sound: Callable[[], Floats]
) -> None:
    vote = backend.predict(Message(audio=sound()))
    assert vote.abstained == "no speech"
    assert vote.distribution == {}
    heard = backend.transcribe(sound())
    assert heard.text == ""
    assert heard.no_speech == 1


def test_abstains_on_a_tenth_of_a_second_of_speech(backend: VoiceBackend, speaker: Speaker) -> None:
    vote = backend.predict(Message(audio=speaker()[8000:9600]))
    assert vote.abstained
    assert vote.distribution == {}


def test_abstains_on_a_single_word_and_says_how_much_it_needs(backend: VoiceBackend, speaker: Speaker) -> None:
    vote = backend.predict(Message(audio=speaker("No.")))
    assert re.fullmatch(r"0\.\d\d s of speech; at least 1\.0 s are needed", vote.abstained)


def test_abstains_without_audio_and_says_that_it_heard_nothing(backend: VoiceBackend) -> None:
    vote = backend.predict(Message(text="I am furious!"))
    assert vote.abstained == "no audio"
    assert vote.saw == frozenset()


def test_a_lively_voice_shows_more_arousal_than_a_dull_one(backend: VoiceBackend, lively: Floats, dull: Floats) -> None:
    up, down = backend.predict(Message(audio=lively)), backend.predict(Message(audio=dull))
    assert arousal(up) > arousal(down) + 0.3
    assert float(up.evidence["arousal"]) == pytest.approx(arousal(up), abs=0.01)
    assert up.distribution["happy"] + up.distribution["surprised"] > 2 * down.distribution["happy"]
    assert down.distribution["sad"] > 3 * up.distribution["sad"]


@pytest.mark.parametrize(
    ("one", "other", "cue"),
    [
        ({"spread": 1.8}, {"spread": 0.5}, "range"),
        ({"tilt_db_octave": 4}, {"tilt_db_octave": -4}, "effort"),
        ({"gain": 2}, {"gain": 0.2}, "loudness"),
        ({"pitch": 1.3}, {"pitch": 0.85}, "pitch"),
    ],
)
def test_hears_each_cue(speaker: Speaker, one: dict[str, float], other: dict[str, float], cue: str) -> None:
    reader = VoiceReader()
    more, less = (cues_of(reader.read(speaker(SENTENCE, **manner), AUDIO_RATE_HZ)) for manner in (one, other))
    assert getattr(more, cue) > getattr(less, cue) + 1


def test_hears_the_pace_with_and_without_the_words(speaker: Speaker) -> None:
    reader = VoiceReader()
    quick, slow = (reader.read(speaker(pace=pace), AUDIO_RATE_HZ) for pace in (1.25, 0.7))
    assert cues_of(quick).rate > cues_of(slow).rate + 0.8
    assert cues_of(quick, SENTENCE).rate > cues_of(slow, SENTENCE).rate + 1.5


def test_a_text_that_was_not_said_does_not_count_for_the_pace(speaker: Speaker) -> None:
    prosody = VoiceReader().read(speaker(), AUDIO_RATE_HZ)
    for text in ("Hm.", SENTENCE * 5):
        assert cues_of(prosody, text) == cues_of(prosody)


def test_a_low_voice_is_not_taken_for_a_sad_one(backend: VoiceBackend, speaker: Speaker) -> None:
    # The same delivery an octave and a fifth of an octave lower, as a man would say it.
    high, low = (backend.predict(Message(audio=speaker(pitch=pitch), text=SENTENCE)) for pitch in (1.0, 0.57))
    for vote in (high, low):
        assert vote.abstained.startswith("no clear expression: neutral 0.4")
    assert abs(float(high.evidence["arousal"]) - float(low.evidence["arousal"])) < 0.15


def test_someone_who_just_reads_gets_no_vote_but_the_measurements(backend: VoiceBackend, speaker: Speaker) -> None:
    vote = backend.predict(Message(audio=speaker()))
    assert re.fullmatch(r"no clear expression: neutral 0\.4\d, \w+ 0\.1\d", vote.abstained)
    assert vote.distribution == {}
    assert vote.saw == {Modality.AUDIO}
    assert re.match(r"\d+, [+-]\d\.\d deviations", vote.evidence["pitch_hz"])
    assert "valence" in vote.evidence


EYES = frozenset({Modality.VIDEO})
MEASURED = {"strongest_actions": "none"}


def test_unclear_neutral_is_an_abstention_that_keeps_its_evidence() -> None:
    vote = expression_vote({"happy": 0.21, "sad": 0.19, "neutral": 0.44, "fear": 0.16}, EYES, MEASURED)
    reason = "no clear expression: neutral 0.44, happy 0.21"
    assert vote == Prediction(Level.CLASS, {}, EYES, "classified", abstained=reason, evidence=MEASURED)


@pytest.mark.parametrize(
    "distribution",
    [
        {"neutral": NEUTRAL_CLEAR_MIN, "happy": 1 - NEUTRAL_CLEAR_MIN},
        {"happy": 0.3, "neutral": 0.7},
        {"neutral": 1.0},
        # An emotion need not be clear: this is about neutral.
        {"neutral": 0.25, "happy": 0.26, "sad": 0.24, "fear": 0.25},
        {"happy": 0.4, "sad": 0.6},
    ],
)
def test_clear_neutral_and_any_emotion_is_a_vote(distribution: dict[str, float]) -> None:
    vote = expression_vote(distribution, EYES, MEASURED)
    assert vote == Prediction(Level.CLASS, distribution, EYES, "classified", evidence=MEASURED)


def test_the_line_of_clear_neutral_is_where_it_is_said_to_be() -> None:
    assert NEUTRAL_CLEAR_MIN == 0.5
    for above, votes in ((1e-6, True), (-1e-6, False)):
        neutral = NEUTRAL_CLEAR_MIN + above
        distribution = {"neutral": neutral, "happy": 0.3, "sad": 0.7 - neutral}
        assert bool(expression_vote(distribution, EYES, MEASURED).distribution) is votes


def test_the_vote_is_a_soft_distribution_over_classes_with_measurements(backend: VoiceBackend, lively: Floats) -> None:
    vote = backend.predict(Message(audio=lively))
    assert vote.level is Level.CLASS
    assert vote.level is backend.card.level
    assert vote.saw == {Modality.AUDIO}
    assert set(vote.distribution) == set(emotions.load().classes)
    assert sum(vote.distribution.values()) == pytest.approx(1)
    assert max(vote.distribution.values()) < 0.75
    assert re.match(r"\d+, \+\d\.\d deviations", vote.evidence["pitch_hz"])
    assert "valence" in vote.evidence


@pytest.mark.parametrize("name", sorted(set(PROFILES) - {"neutral"}))
def test_cues_like_a_profile_raise_its_class_most(name: str) -> None:
    vote = weigh(PROFILES[name])
    assert max(vote, key=lambda other: vote[other] / PRIOR[other]) == name


def test_even_wild_cues_leave_the_prior_its_share() -> None:
    vote = weigh(Cues(pitch=2.5, range=2.5, rate=2.5, effort=2.5, loudness=2.5))
    assert all(vote[name] >= 0.25 * PRIOR[name] for name in PRIOR)
    assert sum(vote.values()) == pytest.approx(1)


def test_measurements_far_out_are_bounded(speaker: Speaker) -> None:
    prosody = VoiceReader().read(speaker(), AUDIO_RATE_HZ)
    wild = cues_of(replace(prosody, pitch_range_semitones=60.0, level_dbfs=-70.0, pitch_hz=600.0))
    assert (wild.range, wild.loudness, wild.pitch) == (2.5, -2.5, 2.5)


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("Yes.", 1), ("I baked a cake.", 4), ("The table wanted nothing.", 7), (SENTENCE, 21)],
)
def test_counts_syllables(text: str, count: int) -> None:
    assert syllables(text) == pytest.approx(count, abs=1 if count > 10 else 0)


def test_refuses_a_wheel_with_other_classes(backend: VoiceBackend) -> None:
    wheel = replace(emotions.load(), classes=("calm", "wild"))
    with pytest.raises(ValueError, match="do not fit the wheel's classes"):
        VoiceBackend(backend._whisper, backend._listener, backend._reader, wheel, "", 1)
