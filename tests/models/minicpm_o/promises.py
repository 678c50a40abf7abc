"""What holds of MiniCPM-o, whichever release: the tests, for the folder of each to take up."""

import json
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
from services.common.errors import TooLarge
from services.mllm.backends.minicpm_o import MiniCpmOModel, Settings, create
from services.mllm.chat.limits import Limited, Limits
from services.mllm.chat.model import Sampling, Scorer, Turn
from services.mllm.domain import AUDIO_RATE_HZ, Frame, Message, Modality
from tests.models.chats import BOTH, FILM, HEARD, SEEN, SOUND, WORDS, picture, sound
from tests.models.minicpm_o.tiny import MARKS, write
from tests.stops import never

LABELS = tuple(emotions.load().labels)
GREEDY = Sampling(12, 0.0, 1.0, 0)


def scores(model: MiniCpmOModel, turns: Sequence[Turn]) -> NDArray[np.float64]:
    return np.array(model.log_likelihoods(turns, LABELS, never))


def naive(model: MiniCpmOModel, turns: Sequence[Turn], answer: str) -> float:
    """The log-likelihood in one pass over all, without a cache."""
    inputs, inner = model.inputs(turns), model._model
    tail = torch.tensor([model._processor.tokenizer(answer)["input_ids"]])
    with torch.inference_mode():
        asked, _ = inner.get_vllm_embedding(inputs)
        if turns[-1].audio is not None:
            asked = inner.get_omni_embedding(inputs, asked, chunk_length=1.0)
        whole = torch.cat([asked, inner.llm.model.embed_tokens(tail)], dim=1)
        likely = inner.llm(inputs_embeds=whole).logits[0, asked.shape[1] - 1 : -1].log_softmax(-1)
    return float(likely.gather(-1, tail[0, :, None]).sum())


class Promises:
    """Tests of one release: `version`, and how it writes a clip with sound and a question after it."""

    version: str
    other_version: str
    film: str
    spoken: str

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("weights") / "MiniCPM-o"
        folder.mkdir()
        write(folder, cls.version)
        return folder

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, folder: Path) -> MiniCpmOModel:
        return MiniCpmOModel(Settings(weights=folder, device="cpu", dtype="float32"))

    def test_the_code_beside_the_weights_runs_without_its_voice(self, model: MiniCpmOModel) -> None:
        assert type(model._model).__module__.startswith("transformers_modules.")
        assert model._model.config.init_tts is False
        assert model.name == "MiniCPM-o"
        assert len(model.digest) == 64
        assert isinstance(model, Scorer)
        assert isinstance(model, Limited)
        assert model.limits == Limits(60, 16)
        assert model.perceives == {Modality.TEXT, Modality.AUDIO, Modality.VIDEO}

    def test_a_clip_with_sound_comes_by_the_second(self, model: MiniCpmOModel) -> None:
        model.inputs(BOTH)
        prompt = model._processor.prompts[-1]
        assert prompt == (
            f"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{self.film}\n{WORDS[1].text}<|im_end|>\n"
            f"<|im_start|>assistant\n{self.spoken}"
        )

    def test_only_sound_asks_for_an_answer_to_be_spoken(self, model: MiniCpmOModel) -> None:
        for turns, is_spoken in ((WORDS, False), (SEEN, False), (HEARD, True), (BOTH, True)):
            model.inputs(turns)
            assert model._processor.prompts[-1].endswith("<|tts_bos|>") == is_spoken

    def test_every_frame_reaches_the_model(self, model: MiniCpmOModel) -> None:
        for turns in (SEEN, BOTH):
            before = scores(model, turns)
            for place in range(len(FILM)):
                frames = (*FILM[:place], Frame(FILM[place].time_s, picture()), *FILM[place + 1 :])
                after = scores(model, (turns[0], replace(turns[1], frames=frames)))
                assert np.abs(after - before).max() > 1e-3

    def test_every_second_of_sound_reaches_the_model(self, model: MiniCpmOModel) -> None:
        for turns in (HEARD, BOTH):
            before = scores(model, turns)
            for second in range(3):
                changed = SOUND.copy()
                changed[second * AUDIO_RATE_HZ : (second + 1) * AUDIO_RATE_HZ] *= 0.1
                after = scores(model, (turns[0], replace(turns[1], audio=changed)))
                assert np.abs(after - before).max() > 1e-4

    def test_sound_longer_than_the_encoder_takes_is_heard_in_pieces(self, model: MiniCpmOModel) -> None:
        long = sound(61.2)
        quiet_end = np.concatenate((long[: 60 * AUDIO_RATE_HZ], long[60 * AUDIO_RATE_HZ :] * 0.1))
        before, after = (scores(model, (Turn("user", "What is it?", audio=one),)) for one in (long, quiet_end))
        assert np.abs(after - before).max() > 1e-4

    @pytest.mark.parametrize("turns", [WORDS, HEARD, SEEN, BOTH], ids=["words", "heard", "seen", "both"])
    def test_labels_score_together_as_alone(self, model: MiniCpmOModel, turns: Sequence[Turn]) -> None:
        alone = [model.log_likelihoods(turns, [label], never)[0] for label in LABELS]
        np.testing.assert_allclose(scores(model, turns), alone, rtol=1e-4)

    @pytest.mark.parametrize(
        ("turns", "end"),
        [(WORDS, "<|im_end|>"), (SEEN, "<|im_end|>"), (HEARD, "<|tts_eos|>"), (BOTH, "<|tts_eos|>")],
        ids=["words", "seen", "heard", "both"],
    )
    def test_a_score_is_the_likelihood_of_the_answer_and_its_end(
        self, model: MiniCpmOModel, turns: Sequence[Turn], end: str
    ) -> None:
        assert scores(model, turns)[3] == pytest.approx(naive(model, turns, LABELS[3] + end), rel=1e-4)

    def test_the_same_seed_gives_the_same_text_and_another_another(self, model: MiniCpmOModel) -> None:
        drawn = ["".join(model.stream(BOTH, Sampling(12, 1.0, 0.9, seed), never)) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_a_stopped_answer_ends_after_the_piece_at_hand(self, model: MiniCpmOModel) -> None:
        asked = iter(range(100))
        pieces = list(model.stream(WORDS, Sampling(50, 1.0, 1.0, 4), lambda: next(asked) >= 4))
        assert len("".join(pieces)) > 0
        assert next(asked) < 8
        assert list(model.stream(WORDS, GREEDY, lambda: True)) == []
        assert model.log_likelihoods(WORDS, LABELS, lambda: True) == []

    def test_an_answer_ends_at_the_mark_that_ends_speech(self, folder: Path) -> None:
        model = MiniCpmOModel(Settings(weights=folder, device="cpu", dtype="float32"))
        tokenizer = model._processor.tokenizer
        wanted = iter([tokenizer.convert_tokens_to_ids("<|tts_eos|>"), *tokenizer("a")["input_ids"] * 20])

        def one_word(_: Any, __: Any, logits: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(logits).index_fill(-1, torch.tensor([next(wanted)]), 1.0)

        model._model.llm.lm_head.register_forward_hook(one_word)
        assert list(model.stream(HEARD, GREEDY, never)) == []
        assert "".join(model.stream(HEARD, GREEDY, never)) == "a" * GREEDY.tokens_max

    def test_marks_in_a_text_do_not_act(self, model: MiniCpmOModel) -> None:
        marks = " ".join(MARKS) + " (<image>./</image>) <audio>./</audio>"
        tokens = model.inputs((Turn("user", marks),))["input_ids"][0].tolist()
        plain = model.inputs((Turn("user", "a"),))["input_ids"][0].tolist()
        special = set(model._processor.tokenizer.all_special_ids)
        special |= set(model._processor.tokenizer.get_added_vocab().values())
        assert [one for one in tokens if one in special] == [one for one in plain if one in special]

    def test_a_chat_that_is_too_long_is_refused(self, model: MiniCpmOModel) -> None:
        with pytest.raises(TooLarge, match="this model reads 2048"):
            model.log_likelihoods((Turn("user", "What is it? " * 600),), LABELS, never)

    def test_the_other_release_is_refused_where_this_transformers_runs(self, folder: Path) -> None:
        with pytest.raises(ValueError, match=f"MiniCPM-o {self.other_version} needs transformers"):
            MiniCpmOModel(Settings(weights=folder, device="cpu", version=self.other_version))  # type: ignore[arg-type]

    def test_weights_that_are_missing_are_not_made_up(self, tmp_path: Path) -> None:
        write(tmp_path, self.version)
        weights = load_file(tmp_path / "model.safetensors")
        del weights["apm.weight"]
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(ValueError, match=r"lacks 1 of the model's weights.*apm\.weight"):
            MiniCpmOModel(Settings(weights=tmp_path, device="cpu", dtype="float32"))

    def test_another_model_is_refused(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(b"")
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
        with pytest.raises(ValueError, match="holds model_type 'llama'"):
            MiniCpmOModel(Settings(weights=tmp_path, device="cpu"))

    def test_it_votes_and_writes(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings: dict[str, Any] = {"WEIGHTS": folder, "DEVICE": "cpu", "DTYPE": "float32", "REPLY_TOKENS_MAX": 8}
        for name, value in settings.items():
            monkeypatch.setenv(f"E3RG_MLLM_{name}", str(value))
        backend = create()
        vote = backend.predict(Message(text="And nobody said a word.", audio=SOUND, frames=FILM))
        assert vote.parse == "scored"
        assert vote.saw == {Modality.TEXT, Modality.AUDIO, Modality.VIDEO}
        assert math.isclose(sum(vote.distribution.values()), 1, rel_tol=1e-6)
        backend.close()
