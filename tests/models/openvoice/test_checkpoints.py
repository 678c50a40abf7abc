"""What is no checkpoint of these networks, and what they cannot say, is refused by name."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from services.tts.openvoice.config import fold
from services.tts.openvoice.converter import load_converter
from services.tts.openvoice.melo import load_melo
from services.tts.openvoice.synthesizer import load_base_speaker
from tests.models.openvoice import cases, tiny
from tests.models.openvoice.cases import FULL, noise


def damaged(folder: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Copies an official folder with another state."""
    to.mkdir()
    (to / "config.json").write_text((folder / "config.json").read_text())
    content = torch.load(folder / "checkpoint.pth", weights_only=True)
    change(content["model"])
    torch.save(content, to / "checkpoint.pth")
    return to


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.pop("dec.conv_pre.bias"), "lacks dec.conv_pre.bias"),
        (lambda state: state.update({"dec.extra": torch.zeros(1)}), "has the unknown dec.extra"),
        (lambda state: state.update({"dec.conv_pre.bias": torch.zeros(1)}), r"dec.conv_pre.bias \(1,\) instead of"),
        (lambda state: state.pop("dec.ups.0.weight_g"), "dec.ups.0.weight_v without dec.ups.0.weight_g"),
        (lambda state: state.pop("dec.ups.0.weight_v"), "dec.ups.0.weight_g without dec.ups.0.weight_v"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    folders: dict[str, Path], tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        load_converter(damaged(folders["converter_v2"], tmp_path / "other", change), "cpu", FULL)


def test_a_base_speaker_is_no_converter(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = damaged(folders["base_speaker"], tmp_path / "other", lambda _: None)
    with pytest.raises(ValueError, match=r"lacks ref_enc\..* has the unknown dp\."):
        load_converter(folder, "cpu", FULL)


def test_a_checkpoint_that_would_run_code_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = damaged(folders["melo"], tmp_path / "other", lambda _: None)
    (folder / "checkpoint.pth").write_bytes(pickle.dumps({"model": Path("x")}, protocol=2))
    with pytest.raises(ValueError, match=r"checkpoint.pth is no checkpoint"):
        load_melo(folder, "cpu", FULL)


def test_a_missing_file_is_named(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        load_base_speaker(tmp_path, "cpu", FULL)
    (tmp_path / "config.json").write_text((folders["base_speaker"] / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"checkpoint\.pth"):
        load_base_speaker(tmp_path, "cpu", FULL)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda config: config["model"].pop("gin_channels"), "no model.gin_channels"),
        (lambda config: config["model"].update(resblock="2"), "model.resblock is '2'"),
        (lambda config: config["model"].update(use_vc=True), "model.use_vc is True"),
        (lambda config: config["data"].update(hop_length=256), "data.hop_length 256"),
        (lambda config: config.pop("symbols"), "no symbols"),
        (lambda config: config["data"].pop("spk2id"), "no data.spk2id"),
    ],
)
def test_a_configuration_of_another_network_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    config = tiny.melo_config()
    change(config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=said):
        load_melo(tmp_path, "cpu", FULL)


def test_input_out_of_range_is_refused(folders: dict[str, Path]) -> None:
    melo = load_melo(folders["melo"], "cpu", FULL)
    ids, one, scales = torch.zeros(1, 4, dtype=torch.long), torch.tensor([4]), cases.SCALES

    def infer(symbols: Tensor = ids, tones: Tensor = ids, length: Tensor = one, words: Tensor | None = None) -> None:
        melo.infer(symbols, tones, ids, length, one - 4, noise(1), bert=None, ja_bert=words, **scales)

    infer()
    with pytest.raises(ValueError, match=r"symbols: ids 99 to 99; the checkpoint has 0 to 20"):
        infer(symbols=ids + 99)
    with pytest.raises(ValueError, match=r"tones: ids -1 to -1"):
        infer(tones=ids - 1)
    with pytest.raises(ValueError, match=r"symbols: lengths \[5\]; send 1 of 1 to 4"):
        infer(length=one + 1)
    with pytest.raises(ValueError, match=r"ja_bert: shape \(1, 768, 3\); send \(1, 768, 4\)"):
        infer(words=torch.zeros(1, 768, 3))


def test_sound_too_short_for_the_mirror_is_refused(folders: dict[str, Path]) -> None:
    converter = load_converter(folders["converter_v2"], "cpu", FULL)
    tones = cases.tones(converter)
    with pytest.raises(ValueError, match=r"samples: lengths \[384\]; send 1 of 385 to 384"):
        converter.embed(torch.zeros(1, 384))
    assert converter.embed(torch.zeros(1, 385)).isfinite().all()
    with pytest.raises(ValueError, match=r"samples: lengths \[500, 384\]; send 2 of 385 to 500"):
        converter.stream(torch.tensor([500, 384]), *tones, 0.3, noise(1, 2))
    with pytest.raises(ValueError, match=r"source: shape \(3, 12\); send \(1 or 2, 12\)"):
        converter.convert(cases.recording(), cases.SAMPLES, torch.zeros(3, 12), tones[1], 0.3, noise(1, 2))


def test_a_normalised_weight_has_the_length_that_is_saved() -> None:
    direction = torch.from_numpy(tiny.numbers("direction", 3, 4, 5))
    length = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)
    folded = fold({"a.weight_g": length, "a.weight_v": direction, "a.bias": torch.ones(3)})
    assert folded.keys() == {"a.weight", "a.bias"}
    torch.testing.assert_close(folded["a.weight"].flatten(1).norm(dim=1), length.flatten())
    torch.testing.assert_close(folded["a.weight"], torch._weight_norm(direction, length, 0))
