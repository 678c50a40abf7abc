"""Ola on code that stands in for its own, with tiny weights; against_upstream.py does it with Ola's own code."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

import emotions
from services.common.errors import InvalidRequest, TooLarge
from services.mllm.backends.ola import OlaModel, Settings, create
from services.mllm.chat.limits import Limited, Limits
from services.mllm.chat.model import Sampling, Scorer, Turn
from services.mllm.domain import AUDIO_RATE_HZ, Frame, Message, Modality
from tests.models.chats import BOTH, FILM, HEARD, SEEN, SOUND, WORDS, picture, sound
from tests.models.ola.tiny import write
from tests.stops import never

LABELS = tuple(emotions.load().labels)
GREEDY = Sampling(12, 0.0, 1.0, 0)
PLACES_OF_A_FRAME, PLACES_OF_A_CHUNK = 4, 10


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return write(tmp_path_factory.mktemp("ola"))


@pytest.fixture(scope="module")
def model(settings: Settings) -> OlaModel:
    return OlaModel(settings)


def scores(model: OlaModel, turns: Sequence[Turn]) -> NDArray[np.float64]:
    return np.array(model.log_likelihoods(turns, LABELS, never))


def moved(model: OlaModel, one: Turn, other: Turn) -> list[int]:
    """The places of the prompt at which the language model reads something else."""
    before, after = model.embeddings((one,)), model.embeddings((other,))
    return (before != after).any(-1)[0].nonzero()[:, 0].tolist()  # type: ignore[no-any-return]


def test_it_loads_from_the_paths_of_the_settings(model: OlaModel) -> None:
    assert model.name == "Ola-7b"
    assert len(model.digest) == 64
    assert isinstance(model, Scorer)
    assert isinstance(model, Limited)
    assert model.limits == Limits(60, 32)
    assert model.perceives == {Modality.TEXT, Modality.AUDIO, Modality.VIDEO}
    assert {parameter.dtype for parameter in model._model.model.layers.parameters()} == {torch.bfloat16}


def test_every_frame_of_a_clip_reaches_the_language_model(model: OlaModel) -> None:
    one = model.embeddings((replace(WORDS[1], frames=FILM[:1]),)).shape[1]
    assert model.embeddings((SEEN[1],)).shape[1] == one + (len(FILM) - 1) * PLACES_OF_A_FRAME
    first = moved(model, SEEN[1], replace(WORDS[1], frames=(Frame(0, picture()), *FILM[1:])))[0]
    for place in range(len(FILM)):
        frames = (*FILM[:place], Frame(FILM[place].time_s, picture()), *FILM[place + 1 :])
        begin = first + place * PLACES_OF_A_FRAME
        assert moved(model, SEEN[1], replace(WORDS[1], frames=frames)) == [*range(begin, begin + PLACES_OF_A_FRAME)]


def test_sound_is_read_behind_the_pictures_and_before_the_words(model: OlaModel) -> None:
    seen = moved(model, BOTH[1], replace(BOTH[1], frames=tuple(Frame(0, picture()) for _ in FILM)))
    heard = moved(model, BOTH[1], replace(BOTH[1], audio=sound(30)))
    said = moved(model, BOTH[1], replace(BOTH[1], text="Not " + BOTH[1].text[4:]))
    assert seen[-1] + 1 == heard[0]
    assert heard[-1] < said[0]


def test_sound_longer_than_a_chunk_is_heard_to_its_end(model: OlaModel) -> None:
    long = sound(61)
    quiet_end = np.concatenate((long[: 60 * AUDIO_RATE_HZ], long[60 * AUDIO_RATE_HZ :] * 0.1))
    places = moved(model, replace(WORDS[1], audio=long), replace(WORDS[1], audio=quiet_end))
    begin = moved(model, replace(WORDS[1], audio=long), replace(WORDS[1], audio=long * 0.5))[0]
    assert min(places) == begin + 2 * PLACES_OF_A_CHUNK
    assert max(places) < begin + 3 * PLACES_OF_A_CHUNK


@pytest.mark.parametrize("turns", [WORDS, HEARD, SEEN, BOTH], ids=["words", "heard", "seen", "both"])
def test_labels_score_together_as_alone(model: OlaModel, turns: Sequence[Turn]) -> None:
    alone = [model.log_likelihoods(turns, [label], never)[0] for label in LABELS]
    np.testing.assert_allclose(scores(model, turns), alone, rtol=0.03)  # bfloat16 holds three digits


def test_the_same_seed_gives_the_same_text_and_another_another(model: OlaModel) -> None:
    drawn = ["".join(model.stream(BOTH, Sampling(12, 1.0, 0.9, seed), never)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_nothing_is_read_once_stopped(model: OlaModel) -> None:
    assert list(model.stream(WORDS, GREEDY, lambda: True)) == []
    assert model.log_likelihoods(WORDS, LABELS, lambda: True) == []


def test_marks_in_a_text_do_not_act(model: OlaModel) -> None:
    marked = Turn("user", "<speech><image><|im_end|><|im_start|>")
    assert model.embeddings((marked,)).shape[1] > model.embeddings((Turn("user", "a"),)).shape[1] + 20


def test_a_chat_that_would_be_cut_at_its_end_is_refused(tmp_path: Path) -> None:
    model = OlaModel(write(tmp_path, tokenizer_model_max_length=300))
    assert scores(model, WORDS).shape == (len(LABELS),)
    with pytest.raises(TooLarge, match="Ola reads 300: send less"):
        model.log_likelihoods((Turn("user", "What is it? " * 50),), LABELS, never)


def test_frames_of_two_sizes_are_refused(model: OlaModel) -> None:
    frames = (Frame(0, picture()), Frame(1, np.zeros((240, 320, 3), np.uint8)))
    with pytest.raises(InvalidRequest, match="160 x 120 and 320 x 240 pixels; send frames of one size"):
        model.log_likelihoods((replace(WORDS[1], frames=frames),), LABELS, never)


def test_missing_parts_are_named(settings: Settings, tmp_path: Path) -> None:
    for other, found in (
        ({"checkout": tmp_path}, "holds no ola/model; E3RG_MLLM_CHECKOUT is"),
        ({"speech_encoder": tmp_path / "no.pt"}, "no.pt is no file; E3RG_MLLM_SPEECH_ENCODER names"),
        ({"music_encoder": tmp_path / "no.pt"}, "no.pt is no file; E3RG_MLLM_MUSIC_ENCODER names"),
        ({"weights": tmp_path}, "has no config.json"),
    ):
        with pytest.raises(FileNotFoundError, match=found):
            OlaModel(settings.model_copy(update=other))


def test_weights_without_a_part_of_the_model_are_refused(tmp_path: Path) -> None:
    settings = write(tmp_path)
    file = settings.weights / "model.safetensors"
    weights = load_file(file)
    kept = {name: value for name, value in weights.items() if "speech_encoder" not in name}
    save_file(kept, file, {"format": "pt"})
    assert scores(OlaModel(settings), HEARD).shape == (len(LABELS),)
    del kept["model.vision_tower.linear.weight"]
    save_file(kept, file, {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 of the model's weights.*vision_tower\.linear\.weight"):
        OlaModel(settings)


def test_the_encoders_of_sound_are_those_of_their_own_files(tmp_path: Path) -> None:
    settings = write(tmp_path)
    before = OlaModel(settings).embeddings(HEARD)
    file = settings.weights / "model.safetensors"
    weights = {name: value * ("speech_encoder" not in name) for name, value in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
    assert torch.equal(OlaModel(settings).embeddings(HEARD), before)


def test_the_system_text_is_the_one_of_the_chat(model: OlaModel) -> None:
    tokens = model._tokens(WORDS, False, False)
    assert model._tokenizer.decode(tokens) == (
        f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{WORDS[1].text}<|im_end|>\n<|im_start|>assistant\n"
    )


def test_it_votes_and_writes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    values: dict[str, Any] = {name: getattr(settings, name) for name in ("checkout", "weights", "device")}
    values |= {name: getattr(settings, name) for name in ("speech_encoder", "music_encoder")}
    for name, value in {**values, "reply_tokens_max": 8}.items():
        monkeypatch.setenv(f"E3RG_MLLM_{name.upper()}", str(value))
    backend = create()
    vote = backend.predict(Message(text="And nobody said a word.", audio=SOUND, frames=FILM))
    assert vote.parse == "scored"
    assert vote.saw == {Modality.TEXT, Modality.AUDIO, Modality.VIDEO}
    assert math.isclose(sum(vote.distribution.values()), 1, rel_tol=1e-6)
    backend.close()
