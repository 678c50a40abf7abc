"""Reads an official folder: `config.json`, and `checkpoint.pth` into a network of the same names."""

import json
import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network that its configuration tells; others are the same in every checkpoint.

    Attributes:
        latent: Channels of a latent frame (`inter_channels`).
        hidden: Channels inside (`hidden_channels`).
        wide: Channels inside a transformer's feed-forward part (`filter_channels`).
        heads: Attention heads.
        layers: Of the text encoder.
        kernel: Of the text encoder's convolutions.
        condition: Width of a voice's embedding (`gin_channels`).
        rates: By how much each stage of the vocoder upsamples.
        rate_kernels: The kernels of these stages.
        start: Channels of the vocoder's first stage; each has half of the one before.
        blocks: Kernel and dilations of each residual block of a stage.
        flow_layers: Of the transformer in a flow's step; 0 for a WaveNet.
    """

    latent: int
    hidden: int
    wide: int
    heads: int
    layers: int
    kernel: int
    condition: int
    rates: tuple[int, ...]
    rate_kernels: tuple[int, ...]
    start: int
    blocks: tuple[tuple[int, tuple[int, ...]], ...]
    flow_layers: int


def read_config(folder: Path) -> dict[str, Any]:
    """Returns `config.json` of an official folder.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is no JSON object.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; give the folder of an official checkpoint")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no JSON object")
    return config


def setting(config: Mapping[str, Any], *names: str) -> Any:
    """Returns what stands in `config` under the names, one inside the other.

    Raises:
        ValueError: Nothing does; the message names the place.
    """
    value: Any = config
    for name in names:
        if not isinstance(value, Mapping) or name not in value:
            raise ValueError(f"config.json has no {'.'.join(names)}")
        value = value[name]
    return value


def read_sizes(config: Mapping[str, Any]) -> Sizes:
    """Returns the sizes that a configuration tells.

    Raises:
        ValueError: One is missing, or asks for another network; the message names it.
    """
    model = setting(config, "model")
    if str(setting(config, "model", "resblock")) != "1":
        raise ValueError(f"config.json: model.resblock is {model['resblock']!r}; the published models have '1'")
    kernels = setting(config, "model", "resblock_kernel_sizes")
    dilations = setting(config, "model", "resblock_dilation_sizes")
    sizes = Sizes(
        latent=setting(config, "model", "inter_channels"),
        hidden=setting(config, "model", "hidden_channels"),
        wide=setting(config, "model", "filter_channels"),
        heads=setting(config, "model", "n_heads"),
        layers=setting(config, "model", "n_layers"),
        kernel=setting(config, "model", "kernel_size"),
        condition=setting(config, "model", "gin_channels"),
        rates=tuple(setting(config, "model", "upsample_rates")),
        rate_kernels=tuple(setting(config, "model", "upsample_kernel_sizes")),
        start=setting(config, "model", "upsample_initial_channel"),
        blocks=tuple((kernel, tuple(steps)) for kernel, steps in zip(kernels, dilations, strict=True)),
        flow_layers=model.get("n_layers_trans_flow", 0),
    )
    hop = setting(config, "data", "hop_length")
    if math.prod(sizes.rates) != hop:
        raise ValueError(f"config.json: model.upsample_rates {sizes.rates} do not multiply to data.hop_length {hop}")
    return sizes


def load(network: nn.Module, folder: Path, ignored: tuple[str, ...]) -> None:
    """Fills `network`, built on the meta device, with `checkpoint.pth` in full precision on the CPU, and freezes it.

    Args:
        network: Its parameters have the checkpoint's names.
        folder: An official folder.
        ignored: Prefixes of keys that serve training only.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: It does not fit; the message names the keys.
    """
    path = folder / "checkpoint.pth"
    state = {key: value for key, value in fold(_read(path)).items() if not key.startswith(ignored)}
    wanted = network.state_dict()
    wrong = {
        "lacks": sorted(wanted.keys() - state.keys()),
        "has the unknown": sorted(state.keys() - wanted.keys()),
        "has in another shape": sorted(
            f"{key} {tuple(state[key].shape)} instead of {tuple(wanted[key].shape)}"
            for key in wanted.keys() & state.keys()
            if state[key].shape != wanted[key].shape
        ),
    }
    problems = [f"{fault} {_shortened(keys)}" for fault, keys in wrong.items() if keys]
    if problems:
        raise ValueError(f"{path} does not fit its config.json: it {'; it '.join(problems)}")
    network.load_state_dict(state, assign=True)
    network.requires_grad_(False).eval()


def fold(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns a state whose normalised weights are plain ones.

    A weight is saved as its length `weight_g` and its direction `weight_v`, per first axis (Salimans and Kingma, 2016).

    Raises:
        ValueError: One is there without the other.
    """
    plain = {}
    for key, value in state.items():
        if key.endswith(".weight_v"):
            name = key.removesuffix("_v")
            if f"{name}_g" not in state:
                raise ValueError(f"the checkpoint has {key} without {name}_g")
            direction = value.float()
            length = direction.flatten(1).norm(dim=1).view(-1, *[1] * (direction.dim() - 1))
            plain[name] = direction * (state[f"{name}_g"].float() / length)
        elif not key.endswith(".weight_g"):
            plain[key] = value.float()
        elif f"{key.removesuffix('_g')}_v" not in state:
            raise ValueError(f"the checkpoint has {key} without {key.removesuffix('_g')}_v")
    return plain


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; give the folder of an official checkpoint")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is no checkpoint of PyTorch that holds only tensors: {error}") from error
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        raise ValueError(f"{path} holds no state under the key 'model'")
    return model


def _shortened(keys: list[str]) -> str:
    shown = ", ".join(keys[:5])
    return shown if len(keys) <= 5 else f"{shown} and {len(keys) - 5} more"
