"""Writes official folders of OpenVoice and MeloTTS with made-up weights: names and shapes as published, sizes tiny.

Every weight follows from its name by a formula that needs no PyTorch: upstream's own code can be given the same.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from services.tts.openvoice.config import read_sizes
from services.tts.openvoice.converter import Listener, Network
from services.tts.openvoice.durations import Affine, SeparableStack, SplineCoupling
from services.tts.openvoice.melo import Melo
from services.tts.openvoice.synthesizer import BaseSpeaker

SMOOTHING = {"resblock": "1", "resblock_kernel_sizes": [3, 7, 11], "resblock_dilation_sizes": [[1, 3, 5]] * 3}
OFFICIAL = {
    "inter_channels": 192,
    "hidden_channels": 192,
    "filter_channels": 768,
    "n_heads": 2,
    "n_layers": 6,
    "kernel_size": 3,
    "p_dropout": 0.1,
    **SMOOTHING,
    "upsample_initial_channel": 512,
    "gin_channels": 256,
}
TINY = {
    **OFFICIAL,
    "inter_channels": 8,
    "hidden_channels": 16,
    "filter_channels": 24,
    "n_layers": 3,
    "upsample_initial_channel": 32,
    "gin_channels": 12,
}
STYLES = ("default", "whispering", "shouting", "excited", "cheerful", "terrified", "angry", "sad", "friendly")
SYMBOLS = tuple("_,.!?-~…abdefhijklmnoprstuvwzæðŋɑɔəɛɡɪɹʃʊʌʒθʤʧˈˌ ")  # noqa: RUF001
"""Of the made-up base speaker: a blank, marks and sounds of English."""
MELO_SYMBOLS = (
    "_",
    "aa",
    "ae",
    "ah",
    "b",
    "d",
    "eh",
    "f",
    "hh",
    "iy",
    "k",
    "l",
    "m",
    "n",
    "r",
    "s",
    "t",
    "uw",
    "!",
    ",",
    ".",
)
QUIET = {"enc_p.proj.weight": 0.3, "enc_q.proj.weight": 0.1}
"""The deviation of frames is an exponential of what these make."""
NORMALISED = re.compile(r"^(dec\.(ups|resblocks)|ref_enc\.convs)\.|\.(in_layers|res_skip_layers|cond_layer)\.")
"""Layers whose weights are saved as length and direction."""


def converter_config(version: str, sizes: Mapping[str, Any] = TINY) -> dict[str, Any]:
    """Returns the `config.json` of a converter, "v1" or "v2"."""
    data = {"sampling_rate": 22050, "filter_length": 1024, "hop_length": 256, "win_length": 1024, "n_speakers": 0}
    model = {**sizes, "upsample_rates": [8, 8, 2, 2], "upsample_kernel_sizes": [16, 16, 4, 4]}
    if version == "v1":
        return {"data": data, "model": model}
    return {"_version_": version, "data": data, "model": {"zero_g": True, **model}}


def base_speaker_config(sizes: Mapping[str, Any] = TINY, symbols: Sequence[str] = SYMBOLS) -> dict[str, Any]:
    """Returns the `config.json` of V1's English base speaker."""
    config = converter_config("v1", sizes)
    cleaners = {"add_blank": True, "text_cleaners": ["cjke_cleaners2"], "cleaned_text": True}
    return {
        "data": {**config["data"], **cleaners, "n_speakers": 10},
        "model": config["model"],
        "symbols": list(symbols),
        "speakers": {style: place + 1 for place, style in enumerate(STYLES)},
    }


def melo_config(
    sizes: Mapping[str, Any] = TINY, symbols: Sequence[str] = MELO_SYMBOLS, speakers: Sequence[str] = ("EN-US", "EN-BR")
) -> dict[str, Any]:
    """Returns the `config.json` of a MeloTTS of one language."""
    return {
        "train": {"segment_size": 16384},
        "data": {
            "sampling_rate": 44100,
            "filter_length": 2048,
            "hop_length": 512,
            "win_length": 2048,
            "add_blank": True,
            "n_speakers": 256 if sizes is OFFICIAL else len(speakers),
            "cleaned_text": True,
            "spk2id": {name: place for place, name in enumerate(speakers)},
        },
        "model": {
            "use_spk_conditioned_encoder": True,
            "use_noise_scaled_mas": True,
            "use_mel_posterior_encoder": False,
            "use_duration_discriminator": True,
            **sizes,
            "n_layers_trans_flow": 3,
            "upsample_rates": [8, 8, 2, 2, 2],
            "upsample_kernel_sizes": [16, 16, 8, 2, 2],
            # Six stages halve the channels once more than the converter's.
            "upsample_initial_channel": sizes["upsample_initial_channel"] * (1 if sizes is OFFICIAL else 2),
            "n_layers_q": 3,
            "use_spectral_norm": False,
        },
        "num_languages": 10,
        "num_tones": 16,
        "symbols": list(symbols),
    }


def write_converter(folder: Path, config: Mapping[str, Any]) -> Path:
    """Writes an official folder of a converter, for `load_converter`; returns it."""
    return _write(folder, config, converter_network(config))


def converter_network(config: Mapping[str, Any]) -> nn.Module:
    """Returns the networks of a converter, without weights."""
    with torch.device("meta"):
        return Network(read_sizes(config), config["data"]["filter_length"] // 2 + 1)


def write_base_speaker(folder: Path, config: Mapping[str, Any]) -> Path:
    """Writes an official folder of V1's base speaker, for `load_base_speaker`; returns it."""
    with torch.device("meta"):
        return _write(folder, config, _trained(BaseSpeaker(dict(config)), config))


def write_melo(folder: Path, config: Mapping[str, Any]) -> Path:
    """Writes an official folder of MeloTTS, for `load_melo`; returns it."""
    with torch.device("meta"):
        return _write(folder, config, _trained(Melo(dict(config)), config))


def made_up(name: str, shape: Sequence[int]) -> NDArray[np.float32]:
    """Returns the weight of that name, of a size with which signals neither die nor explode."""
    # The old generator's numbers are the same in every release of NumPy.
    drawn = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape)
    kind = name.rsplit(".", 1)[-1]
    if name == "dp.proj.bias":  # symbols of three frames
        value = 1 + 0 * drawn
    elif kind == "weight_g":
        value = (1.5 if ".ups." in name else 1) * (1 + 0.2 * np.tanh(drawn))
    elif kind == "gamma" or name.endswith("layernorm.weight"):
        value = 1 + 0.1 * drawn
    elif kind in {"bias", "beta", "m", "logs", "bias_ih_l0", "bias_hh_l0"}:
        value = 0.1 * drawn
    elif "emb_rel" in name or name.startswith("emb_g"):
        value = 0.5 * drawn
    elif "emb" in name.split(".")[-2]:
        value = drawn / np.sqrt(shape[1])
    else:
        value = drawn / np.sqrt(np.prod(shape[1:]))
    return np.asarray(value * QUIET.get(name, 1), np.float32)


def numbers(name: str, *shape: int) -> NDArray[np.float32]:
    """Returns the input of that name: normally distributed, the same for us and upstream."""
    drawn = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape)
    return np.asarray(drawn, np.float32)


def saved(network: nn.Module) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes as they stand in a checkpoint."""
    for name, weight in network.state_dict().items():
        shape = tuple(weight.shape)
        if name.endswith(".weight") and NORMALISED.search(name):
            yield f"{name}_g", (shape[0], *[1] * (len(shape) - 1))
            yield f"{name}_v", shape
        else:
            yield name, shape


def _trained(speaker: nn.Module, config: Mapping[str, Any]) -> nn.Module:
    """Adds what a checkpoint holds for training only."""
    sizes = read_sizes(config)
    speaker.enc_q = Listener(sizes, config["data"]["filter_length"] // 2 + 1)
    drawing = speaker.sdp
    drawing.flows["1"] = SplineCoupling(sizes.hidden)
    drawing.post_pre = nn.Conv1d(1, sizes.hidden, 1)
    drawing.post_proj = nn.Conv1d(sizes.hidden, sizes.hidden, 1)
    drawing.post_convs = SeparableStack(sizes.hidden)
    bends = {str(place): SplineCoupling(sizes.hidden) for place in (1, 3, 5, 7)}
    drawing.post_flows = nn.ModuleDict({"0": Affine(), **bends})
    return speaker


def _write(folder: Path, config: Mapping[str, Any], network: nn.Module) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    state = {name: torch.from_numpy(made_up(name, shape)) for name, shape in saved(network)}
    torch.save({"model": state, "iteration": 1, "optimizer": None, "learning_rate": 3e-4}, folder / "checkpoint.pth")
    return folder
