"""The hibari voice with its real model: sentences, words, sound and lips, measured on what it says."""

from pathlib import Path

import numpy as np
import pytest
from faster_whisper import WhisperModel

from perception.voice import VoiceReader, resample
from services.common.errors import InvalidRequest
from services.tts.backends.hibari import HibariBackend, HibariVoice, create
from services.tts.domain import VISEMES, Delivery
from services.tts.speech import lips, sentences
from services.tts.speech.manner import STYLES
from tests.hibari_voice import CALM, PLAIN, ROOT, TEXT, fitted_voices, joined, loaded, spoken


@pytest.fixture(scope="module")
def backend() -> HibariBackend:
    return loaded()


@pytest.fixture(scope="module")
def reader() -> VoiceReader:
    return VoiceReader()


@pytest.fixture(scope="module")
def voices() -> dict[str, HibariVoice]:
    return fitted_voices()


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
