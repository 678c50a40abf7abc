"""What OpenVoice's back-end promises beyond what every voice does."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from perception.voice import VoiceReader
from services.common.errors import InvalidRequest
from services.tts.backends import openvoice
from services.tts.backends.openvoice import OpenVoiceBackend
from services.tts.domain import Delivery, Speech, VoiceReference
from services.tts.openvoice import colours, pieces
from services.tts.openvoice.converter import load_converter
from services.tts.openvoice.decimation import Decimation
from services.tts.openvoice.manner import Manner
from services.tts.openvoice.speakers import StyledSpeaker
from services.tts.openvoice.utterance import Utterance
from tests.conformance.voice import CALM, LONG, PROFILES, TEXT, cut, joined, recording
from tests.models.openvoice import layout
from tests.models.openvoice.cases import ALLOWED

Load = Callable[..., OpenVoiceBackend]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return layout.write_melo(layout.write_openvoice(tmp_path_factory.mktemp("weights")))


@pytest.fixture(scope="module")
def load(root: Path) -> Load:
    def load(folder: Path = root, **chosen: str) -> OpenVoiceBackend:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in layout.settings(folder, **chosen).items():
                environment.setenv(name, value)
            return openvoice.create()

    return load


@pytest.fixture(scope="module")
def v1(load: Load) -> OpenVoiceBackend:
    return load(BATCH_MAX="4")


@pytest.fixture(scope="module")
def v2(load: Load) -> OpenVoiceBackend:
    return load(CONVERTER="checkpoints_v2/converter", BATCH_MAX="4")


@pytest.fixture(scope="module")
def indian(load: Load) -> OpenVoiceBackend:
    return load(BASE_SPEAKER="melo", ACCENT="EN_INDIA", CONVERTER="checkpoints/converter")


@pytest.fixture(scope="module")
def anna(v1: OpenVoiceBackend) -> object:
    return v1.prepare([recording("anna")], PROFILES["anna"])


def spoken(speeches: Iterator[Speech]) -> NDArray[np.float32]:
    return joined(list(speeches))


def test_its_card_names_speaker_and_converter(
    v1: OpenVoiceBackend, v2: OpenVoiceBackend, indian: OpenVoiceBackend
) -> None:
    assert [each.model for each in (v1, v2, indian)] == [
        "openvoice-v1-en+converter-v1",
        "openvoice-v1-en+converter-v2",
        "melotts-en_india+converter-v1",
    ]
    assert len({each.digest for each in (v1, v2, indian)}) == 3
    assert {each.sample_rate_hz for each in (v1, v2, indian)} == {22_050}
    assert len(v1.styles) == 9
    assert indian.styles == ("default",)


@pytest.mark.parametrize(
    "name",
    [
        "checkpoints/base_speakers/EN/config.json",
        "checkpoints/base_speakers/EN/checkpoint.pth",
        "checkpoints/base_speakers/EN/en_style_se.pth",
        "checkpoints/converter/checkpoint.pth",
    ],
)
def test_a_missing_file_is_named(load: Load, tmp_path: Path, name: str) -> None:
    folder = layout.write_openvoice(tmp_path)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing"):
        load(folder)


@pytest.mark.parametrize(
    ("chosen", "error", "problem"),
    [
        ({"ACCENT": "EN-BR"}, ValueError, "no accent 'EN-BR'; it has: EN-US, EN_INDIA, EN-Default"),
        ({"BERT": "bert-large"}, FileNotFoundError, "bert-large/config.json is missing"),
        ({"MODELS_DIR": "/nowhere"}, FileNotFoundError, "/nowhere/english/cmudict.rep is missing"),
        ({"MELO": "MeloTTS-French"}, FileNotFoundError, "MeloTTS-French/config.json is missing"),
    ],
)
def test_what_melo_lacks_is_named(load: Load, chosen: dict[str, str], error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        load(BASE_SPEAKER="melo", **chosen)


def test_a_tone_colour_of_another_size_is_refused(load: Load, tmp_path: Path) -> None:
    folder = layout.write_openvoice(tmp_path)
    torch.save(torch.zeros(1, 256, 1), folder / "checkpoints/base_speakers/EN/en_style_se.pth")
    with pytest.raises(ValueError, match=r"en_style_se.pth holds \(1, 256, 1\); a tone colour is \(1, 12, 1\)"):
        load(folder)


def test_a_choice_of_accent_is_part_of_the_digest(load: Load, indian: OpenVoiceBackend) -> None:
    other = load(BASE_SPEAKER="melo", ACCENT="EN-US", CONVERTER="checkpoints/converter")
    assert other.digest != indian.digest


def test_texts_are_taken_together_where_they_are_spoken_side_by_side(
    v1: OpenVoiceBackend, indian: OpenVoiceBackend
) -> None:
    assert (v1.texts_max, indian.texts_max) == (5, 1)  # a CPU's default is one by one


def test_sentences_side_by_side_are_heard_before_any_is_finished(root: Path) -> None:
    speaker = StyledSpeaker(root / "checkpoints" / "base_speakers" / "EN", "cpu", torch.float32)
    converter = load_converter(root / "checkpoints" / "converter", "cpu", torch.float32)
    made: list[int] = []
    speaker.network.dec.register_forward_hook(lambda _, __, sound: made.append(sound.shape[1]))
    walk = "We can sit down and talk about it for as long as you like and then walk home by the river where it is late"
    readings = [pieces.cut(text, speaker)[0].reading for text in (f"{walk}.", "Good.", f"{walk} at night.")]
    utterance, colour = Utterance(speaker, converter, readings, Manner()), torch.zeros(1, converter.width)
    spoken = utterance.converted(colour, colour, 0.3)
    sounds = [next(spoken)]
    assert len(sounds[0][0])
    assert 2 * sum(made) < utterance.ends[0][-1]
    sounds += spoken
    for row, whole in enumerate(utterance.whole(colour, colour, 0.3)):
        together = torch.cat([piece[row] for piece in sounds])
        assert float((together[: len(whole)] - whole).abs().max()) < ALLOWED
        assert not together[len(whole) :].any()


def test_the_first_stretch_leaves_before_the_sentence_is_finished(v1: OpenVoiceBackend, anna: object) -> None:
    stretches = list(v1.speak([TEXT * 3], anna, CALM))
    assert len(stretches) > 2
    assert [stretch.ends_text for stretch in stretches] == [False] * (len(stretches) - 1) + [True]
    first = stretches[0]
    assert len(first.samples) < sum(len(stretch.samples) for stretch in stretches) / 2


@pytest.mark.parametrize("which", ["v1", "v2"])
def test_a_batch_says_what_its_texts_say_alone(request: pytest.FixtureRequest, which: str) -> None:
    backend: OpenVoiceBackend = request.getfixturevalue(which)
    voice = backend.prepare([recording("marcus")], PROFILES["marcus"])
    texts = [TEXT, "Good.", "It is late, and the lamp is on.", "Sit down."]
    way = Delivery("excited", 0.7)
    together = list(backend.speak(texts, voice, way))
    ends = [place + 1 for place, stretch in enumerate(together) if stretch.ends_text]
    for text, start, end in zip(texts, [0, *ends], ends, strict=False):
        alone = list(backend.speak([text], voice, way))
        assert np.abs(joined(together[start:end]) - joined(alone)).max() < 1e-3
        assert together[end - 1].applied == pytest.approx(alone[-1].applied, rel=1e-2, abs=0.1)


def test_what_was_done_is_said_in_numbers(v1: OpenVoiceBackend, anna: object) -> None:
    applied = list(v1.speak([TEXT], anna, Delivery("sad", 0.5)))[-1].applied
    assert applied["style_share"] == 0.5
    assert applied["rate"] < 1
    assert -40 < applied["level_dbfs"] < -10
    assert list(v1.speak([TEXT], anna, Delivery("default", 1.0)))[-1].applied["style_share"] == 0


def test_loudness_follows_the_style_and_not_the_speaker(v1: OpenVoiceBackend, anna: object) -> None:
    levels = {
        style: list(v1.speak([LONG], anna, Delivery(style, 1.0)))[-1].applied["level_dbfs"]
        for style in ("whispering", "default", "shouting")
    }
    assert levels["whispering"] < levels["default"] - 4 < levels["shouting"] - 8


def test_the_tone_colour_of_several_recordings_is_their_mean(v1: OpenVoiceBackend) -> None:
    whole = recording("anna")
    parts = [cut(whole, 2.0), cut(recording("marcus"), 2.0)]
    apart = [v1.prepare([part], PROFILES["anna"]).embedding for part in parts]
    both = v1.prepare(parts, PROFILES["anna"]).embedding
    # The longer speech counts for more, and both are about as long.
    nearness = np.dot(both - apart[0], apart[1] - apart[0]) / np.sum((apart[1] - apart[0]) ** 2)
    assert 0.3 < nearness < 0.7
    assert np.allclose(both, apart[0] + nearness * (apart[1] - apart[0]), atol=1e-5)


def test_silence_around_speech_and_within_is_not_heard() -> None:
    whole, reader = recording("anna"), VoiceReader()
    rate_hz = whole.sample_rate_hz
    silence = np.zeros(2 * rate_hz, np.float32)
    halves = np.array_split(whole.samples, 2)
    wide = VoiceReference("wide", np.concatenate([silence, halves[0], silence, halves[1], silence]), rate_hz)
    plain, kept = (colours.speech(each, reader) for each in (whole, wide))
    assert abs(len(kept) - len(plain)) < 0.5 * rate_hz
    assert np.sqrt(np.mean(kept**2)) == pytest.approx(np.sqrt(np.mean(plain**2)), rel=0.1)


@pytest.mark.parametrize("duration_s", [1.5, 3.0])
def test_a_reference_shorter_than_five_seconds_works(v1: OpenVoiceBackend, duration_s: float) -> None:
    assert np.isfinite(v1.prepare([cut(recording("anna"), duration_s)], PROFILES["anna"]).embedding).all()


def test_half_a_second_or_noise_is_no_voice(v1: OpenVoiceBackend) -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 66_150).astype(np.float32)
    for reference in (cut(recording("anna"), 0.5), VoiceReference("noise", noise, 22_050)):
        with pytest.raises(InvalidRequest, match="voice: "):
            v1.prepare([reference], PROFILES["anna"])


def test_a_voice_of_the_other_converter_is_refused(v1: OpenVoiceBackend, v2: OpenVoiceBackend, anna: object) -> None:
    with pytest.raises(ValueError, match="of converter 'v1'; this one is 'v2'"):
        v2.unpack(v1.pack(anna))


def test_what_stands_before_a_text_without_sound_is_spoken(v1: OpenVoiceBackend, anna: object) -> None:
    speeches = v1.speak(["Good.", "...", "Good."], anna, CALM)
    assert spoken(iter([next(speeches)])).size
    with pytest.raises(InvalidRequest, match=r"sentence: holds nothing"):
        list(speeches)
    with pytest.raises(InvalidRequest, match=r"sentence: holds nothing"):
        v1.speak(["...", "Good."], anna, CALM)


def test_decimation_keeps_low_tones_and_drops_high_ones_in_any_pieces() -> None:
    times_s = torch.arange(44_100, dtype=torch.float64) / 44_100
    for hertz, kept in ((1000, 1.0), (9000, 1.0), (13_000, 0.0)):
        tone = torch.sin(2 * torch.pi * hertz * times_s)[None].float()
        whole, pieces = Decimation(2), Decimation(2)
        together = torch.cat([whole.feed(tone), whole.finish()], dim=1)
        assert together.shape == (1, 22_050)
        apart = [pieces.feed(piece) for piece in tone.split(777, dim=1)]
        assert torch.allclose(torch.cat([*apart, pieces.finish()], dim=1), together, atol=1e-6)
        wanted = kept * torch.sin(2 * torch.pi * hertz * times_s[::2])
        assert float((together[0] - wanted)[200:-200].abs().max()) < 1e-3
