"""The hibari voice with its real model: emotions, identities, lips and sentences, measured on what it says."""

import itertools
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from faster_whisper import WhisperModel

from perception.voice import Floats, Prosody, VoiceReader, envelope_distance_db, resample, semitones
from services.common.errors import InvalidRequest
from services.tts.backends.hibari import HibariBackend, HibariVoice, create
from services.tts.domain import VISEMES, Delivery, Profile, Speech, VoiceReference
from services.tts.speech import lips, sentences
from services.tts.speech.manner import STYLES
from services.tts.speech.timbre import Timbre

ROOT = Path(__file__).parents[2]
IDENTITIES = ROOT / "services" / "memory" / "identities"
PROFILES = {
    "anna": Profile("young", "female", "high"),
    "kenji": Profile("young", "male", "mid"),
    "ingrid": Profile("elderly", "female", "mid"),
    "marcus": Profile("middle-aged", "male", "low"),
}
TEXT = "We could take a walk along the river after lunch. The weather should stay warm until the evening."
PLAIN = HibariVoice(Timbre())
CALM = Delivery("default", 0.0)


@pytest.fixture(scope="module")
def backend() -> Iterator[HibariBackend]:
    backend = create()
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def reader() -> VoiceReader:
    return VoiceReader()


def recording(name: str) -> VoiceReference:
    with wave.open(str(IDENTITIES / name / "voice.wav")) as file:
        samples = np.asarray(np.frombuffer(file.readframes(-1), "<i2") / 32768, np.float32)
        return VoiceReference(name, samples, file.getframerate())


@pytest.fixture(scope="module")
def voices(backend: HibariBackend) -> dict[str, HibariVoice]:
    return {name: backend.prepare([recording(name)], profile) for name, profile in PROFILES.items()}


def spoken(
    backend: HibariBackend, text: str = TEXT, voice: HibariVoice = PLAIN, delivery: Delivery = CALM
) -> list[Speech]:
    return list(backend.speak([text], voice, delivery))


def joined(speeches: list[Speech]) -> Floats:
    return np.asarray(np.concatenate([speech.samples for speech in speeches]) / 32768, np.float32)


@pytest.fixture(scope="module")
def styled(backend: HibariBackend, reader: VoiceReader) -> dict[str, Prosody]:
    """The same text at full intensity in every style, read back from the sound."""
    found = {}
    for style in STYLES:
        speeches = spoken(backend, delivery=Delivery(style, 1.0))
        found[style] = reader.read(joined(speeches), speeches[0].sample_rate_hz)
    return found


def seconds(speeches: list[Speech]) -> float:
    return sum(len(speech.samples) for speech in speeches) / speeches[0].sample_rate_hz


# Emotion


def test_cheerful_is_higher_wider_louder_brighter_and_faster_than_calm_and_sad_is_the_reverse(
    styled: dict[str, Prosody],
) -> None:
    sad, calm, cheerful = (styled[style] for style in ("sad", "default", "cheerful"))
    assert semitones(cheerful.pitch_hz, calm.pitch_hz) > 1.5
    assert semitones(sad.pitch_hz, calm.pitch_hz) < -1.5
    assert cheerful.pitch_range_semitones > calm.pitch_range_semitones + 1 > sad.pitch_range_semitones + 3
    assert cheerful.level_dbfs > calm.level_dbfs + 1 > sad.level_dbfs + 4
    assert cheerful.tilt_db_octave > calm.tilt_db_octave + 0.3 > sad.tilt_db_octave + 1
    assert cheerful.speech_s < calm.speech_s < sad.speech_s


@pytest.mark.parametrize("style", ["angry", "shouting", "excited"])
def test_heated_styles_are_louder_higher_and_brighter_than_calm(styled: dict[str, Prosody], style: str) -> None:
    assert styled[style].level_dbfs > styled["default"].level_dbfs + 3
    assert semitones(styled[style].pitch_hz, styled["default"].pitch_hz) > 0.8
    assert styled[style].tilt_db_octave > styled["default"].tilt_db_octave + 0.8


def test_a_shout_is_the_loudest_and_a_whisper_the_softest_and_voiceless(styled: dict[str, Prosody]) -> None:
    by_level = sorted(styled, key=lambda style: styled[style].level_dbfs)
    assert by_level[0] == "whispering"
    assert by_level[-1] == "shouting"
    assert styled["whispering"].voiced_fraction < 0.2


def test_terror_is_high_and_hurried(styled: dict[str, Prosody]) -> None:
    assert semitones(styled["terrified"].pitch_hz, styled["default"].pitch_hz) > 3.5
    assert styled["terrified"].speech_s < 0.95 * styled["default"].speech_s


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(STYLES, 2)))
def test_every_two_styles_differ_audibly(styled: dict[str, Prosody], first: str, second: str) -> None:
    one, other = styled[first], styled[second]
    # Sizes that people just notice in speech: pitch 1 st, level 1 dB, pace 5 %, range 1.5 st, voicing.
    assert (
        abs(semitones(one.pitch_hz, other.pitch_hz)) > 1
        or abs(one.level_dbfs - other.level_dbfs) > 1
        or abs(np.log(one.speech_s / other.speech_s)) > 0.05
        or abs(one.pitch_range_semitones - other.pitch_range_semitones) > 1.5
        or abs(one.voiced_fraction - other.voiced_fraction) > 0.3
    )


@pytest.mark.parametrize("style", [style for style in STYLES if style != "default"])
def test_more_intensity_moves_every_measure_further_the_same_way(
    backend: HibariBackend, reader: VoiceReader, style: str
) -> None:
    steps = []
    for intensity in (0.0, 0.5, 1.0):
        speeches = spoken(backend, "The weather stays warm.", delivery=Delivery(style, intensity))
        heard = reader.read(joined(speeches), speeches[0].sample_rate_hz)
        told = speeches[0].applied
        steps.append((heard.level_dbfs, told["rate"], told["whisper"], told.get("pitch_hz", np.nan)))
    full = STYLES[style]
    wanted = (full.level_db, np.log(full.rate), full.whisper, full.pitch_semitones)
    for values, direction in zip(zip(*steps, strict=True), wanted, strict=True):
        moves = np.diff(values) * np.sign(direction)
        # A whisper ends without a pitch.
        assert np.all((moves > 0) | np.isnan(moves) | (direction == 0)), (values, direction)


@pytest.mark.parametrize("style", STYLES)
def test_intensity_zero_is_the_calm_voice_exactly(backend: HibariBackend, style: str) -> None:
    plain = joined(spoken(backend, "It is late."))
    assert np.array_equal(plain, joined(spoken(backend, "It is late.", delivery=Delivery(style, 0.0))))


def test_what_it_says_it_applied_is_what_is_heard(backend: HibariBackend, reader: VoiceReader) -> None:
    for style in ("default", "sad", "excited"):
        speech = spoken(backend, "We could take a walk along the river after lunch.", delivery=Delivery(style, 0.8))[0]
        heard = reader.read(joined([speech]), speech.sample_rate_hz)
        assert abs(semitones(heard.pitch_hz, speech.applied["pitch_hz"])) < 1.0
        assert heard.level_dbfs == pytest.approx(speech.applied["level_dbfs"], abs=1.5)


# Identity


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
    assert abs(semitones(heard.pitch_hz, references[name].pitch_hz)) < 1.6
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
    assert max(moves.values()) - min(moves.values()) < 1.6
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


def test_texts_are_spoken_in_order_each_ended_once(backend: HibariBackend) -> None:
    speeches = list(backend.speak(["One. Two.", "Three."], PLAIN, CALM))
    assert [speech.ends_text for speech in speeches] == [False, True, True]
    alone = [speech for text in ("One. Two.", "Three.") for speech in backend.speak([text], PLAIN, CALM)]
    assert np.array_equal(joined(speeches), joined(alone))


def test_the_same_voice_text_and_delivery_give_the_same_samples(
    backend: HibariBackend, voices: dict[str, HibariVoice]
) -> None:
    first, second = (joined(spoken(backend, voice=voices["ingrid"], delivery=Delivery("sad", 0.6))) for _ in range(2))
    assert np.array_equal(first, second)


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


# Words


@pytest.mark.parametrize(("name", "style"), [("anna", "cheerful"), ("marcus", "sad"), ("ingrid", "whispering")])
def test_a_speech_recogniser_understands_every_word(
    backend: HibariBackend, voices: dict[str, HibariVoice], recogniser: WhisperModel, name: str, style: str
) -> None:
    sound = joined(spoken(backend, voice=voices[name], delivery=Delivery(style, 1.0)))
    segments, _ = recogniser.transcribe(resample(sound, 24_000, 16_000), language="en", beam_size=1)
    heard = "".join(segment.text for segment in segments)
    assert _words(heard) == _words(TEXT)


@pytest.fixture(scope="module")
def recogniser() -> WhisperModel:
    folder = ROOT / ".models" / "whisper-tiny-en"
    return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)


def _words(text: str) -> list[str]:
    return "".join(character for character in text.lower() if character.isalpha() or character == " ").split()


# Sound


@pytest.mark.parametrize("style", STYLES)
def test_the_sound_neither_clips_nor_clicks_nor_drifts(
    backend: HibariBackend, voices: dict[str, HibariVoice], style: str
) -> None:
    for speech in spoken(backend, "Mama bought a big boat! I like it.", voices["marcus"], Delivery(style, 1.0)):
        assert speech.samples.dtype == np.int16
        assert np.abs(speech.samples.astype(int)).max() < 32_767
        assert np.abs(speech.samples[[0, -1]]).max() == 0
        assert abs(speech.samples.mean()) < 5


def test_a_sentence_is_followed_by_a_pause(backend: HibariBackend) -> None:
    for speech in spoken(backend, "It is late. Is it? Yes!"):
        tail = speech.samples[-int(0.25 * speech.sample_rate_hz) :]
        assert np.abs(tail).max() < 200
        assert speech.phonemes[-1].viseme == "sil"
        assert 0.25 < speech.phonemes[-1].duration_s < 0.8


def test_a_whisper_claims_no_pitch(backend: HibariBackend) -> None:
    (loud,) = spoken(backend, "It is late.", delivery=Delivery("whispering", 0.3))
    (whispered,) = spoken(backend, "It is late.", delivery=Delivery("whispering", 1.0))
    assert "pitch_hz" in loud.applied
    assert "pitch_hz" not in whispered.applied


def test_speech_starts_within_a_tenth_of_a_second(backend: HibariBackend, reader: VoiceReader) -> None:
    track = reader.track(joined(spoken(backend, "Are you there?")), backend.sample_rate_hz)
    assert track.times_s[np.argmax(track.active)] < 0.1


# Lips


@pytest.mark.parametrize("delivery", [CALM, Delivery("excited", 1.0), Delivery("sad", 1.0)])
def test_the_phonemes_fill_the_sound_without_gaps(backend: HibariBackend, delivery: Delivery) -> None:
    for speech in spoken(backend, "Hello there, my friend. Well… how are you? Oh!", delivery=delivery):
        now = 0.0
        for phoneme in speech.phonemes:
            assert phoneme.start_s == pytest.approx(now, abs=1e-9)
            assert phoneme.duration_s > 0
            assert phoneme.viseme in VISEMES
            now += phoneme.duration_s
        assert now == pytest.approx(len(speech.samples) / speech.sample_rate_hz, abs=1e-9)


def test_lips_close_on_every_bilabial(backend: HibariBackend) -> None:
    (speech,) = spoken(backend, "Bob put my map up.")
    closed = [phoneme.symbol for phoneme in speech.phonemes if phoneme.viseme == "PP"]
    assert closed == ["b", "b", "p", "m", "m", "p", "p"]


def test_a_mouth_shape_sounds_when_it_is_shown(backend: HibariBackend) -> None:
    (speech,) = spoken(backend, "Bob put my map up.")
    sound = joined([speech])
    loudness: dict[str, list[float]] = {"open": [], "rest": []}
    for phoneme in speech.phonemes:
        start = round((phoneme.start_s + 0.2 * phoneme.duration_s) * speech.sample_rate_hz)
        end = round((phoneme.start_s + 0.8 * phoneme.duration_s) * speech.sample_rate_hz)
        kind = {"aa": "open", "sil": "rest"}.get(phoneme.viseme)
        if kind:
            loudness[kind].append(float(np.sqrt(np.mean(sound[start:end] ** 2))))
    assert min(loudness["open"]) > 5 * max(loudness["rest"])


def test_the_mouth_does_not_shut_between_words_that_run_together(backend: HibariBackend) -> None:
    (speech,) = spoken(backend, "We are all in our own home.")
    assert [phoneme.viseme for phoneme in speech.phonemes].count("sil") == 2


def test_every_sound_of_the_alphabet_has_a_mouth_shape(backend: HibariBackend) -> None:
    silent = set(';:,.!?—…"() “”ˈˌːʰʲ\u0303↓→↗↘')
    sounds = {symbol for symbol in backend._dictionary.symbols if symbol not in silent}
    assert {symbol for symbol in sounds if not lips.is_sound(symbol)} == set()
    assert set(lips.VISEMES.values()) == set(VISEMES) - {"sil"}
    assert {half for pair in lips.DIPHTHONGS.values() for half in pair} <= set(lips.VISEMES)


# Sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith paid $3.50 at 7:30 p.m. today. Good.", ["Dr. Smith paid $3.50 at 7:30 p.m. today.", "Good."]),
        ("Well... maybe. Wait... What?!", ["Well… maybe.", "Wait…", "What?!"]),
        ("“Really?” he said. “Yes!” She left.", ["“Really?” he said.", "“Yes!”", "She left."]),
        ("J. K. Lee wrote it. So do I. No. 5 is Mine.", ["J. K. Lee wrote it.", "So do I.", "No. 5 is Mine."]),
        ("Hi 😊!! *waves* [ok](/xx/)\n\nBye", ["Hi !! waves ok (/xx/)", "Bye"]),
        ("It is 20 °C.", ["It is 20 degrees Celsius."]),
        ("Привет my friend 你好", ["my friend"]),
    ],
)  # fmt: skip
def test_text_is_cut_where_a_reader_would_breathe(text: str, expected: list[str]) -> None:
    assert [sentence.text for sentence in sentences.split(sentences.clean(text))] == expected


@pytest.mark.parametrize("text", ["a clause that goes on, " * 40, "word " * 200, "x" * 1000])
def test_a_very_long_sentence_is_cut_without_losing_a_letter(text: str) -> None:
    pieces = sentences.split(sentences.clean(text))
    assert len(pieces) > 2
    assert max(len(piece.text) for piece in pieces) <= sentences.CHARACTERS_MAX
    assert "".join(piece.text for piece in pieces).replace(" ", "") == text.replace(" ", "")
    assert [piece.is_cut for piece in pieces] == [True] * (len(pieces) - 1) + [False]


def test_a_cut_inside_a_sentence_is_a_shorter_pause_than_its_end(backend: HibariBackend) -> None:
    pieces = spoken(backend, "this is a clause that goes on and on, " * 8 + "and then it ends.")
    assert pieces[0].phonemes[-1].duration_s < pieces[-1].phonemes[-1].duration_s


@pytest.mark.parametrize("text", ["", "  \n", "😊😊", "你好", "...", "!?"])
def test_text_without_a_sound_is_refused_before_anything_is_said(backend: HibariBackend, text: str) -> None:
    with pytest.raises(InvalidRequest, match="sentence: "):
        backend.speak([text], PLAIN, CALM)


def test_missing_weights_are_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_TTS_MODELS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="make models"):
        create()
