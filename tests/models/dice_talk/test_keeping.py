"""What is kept of a portrait comes out of a store: whatever is in it, the renderer reads it or says no."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save

from services.video.backends.dice_talk import DiceTalkBackend
from services.video.dice_talk.identity import Identity
from tests.models.dice_talk.watching import SCHEDULE_WARNS

pytestmark = SCHEDULE_WARNS
Tensors = dict[str, torch.Tensor]


def unseen() -> NDArray[np.uint8]:
    raise AssertionError("the picture was decoded")


def test_what_is_packed_comes_back_without_the_picture_and_without_a_large_network(
    backend: DiceTalkBackend, rig: Identity
) -> None:
    again = backend.unpack(backend.pack(rig), unseen)
    torch.testing.assert_close(again.embedding, rig.embedding, rtol=0, atol=0)
    assert list(again.views) == list(rig.views) == [64, 128]
    for side, view in rig.views.items():
        for name in ("latents", "pose", "mask"):
            torch.testing.assert_close(getattr(again.views[side], name), getattr(view, name), rtol=0, atol=0)
    largest = max(view.latents.nbytes for view in rig.views.values())
    assert len(backend.pack(rig)) < 2 * largest + 1024


def drop(name: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.pop(name)


def swap(name: str, tensor: torch.Tensor) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: tensor})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (drop("box"), "KeyError"),
        (drop("latents.64"), "KeyError"),
        (swap("box", torch.zeros(5)), r"box is torch.float32 \(5,\); this renderer has finite torch.float32 \(4,\)"),
        (swap("box", torch.full((4,), torch.nan)), "box is"),
        (swap("embedding", torch.zeros(1, 32, dtype=torch.float16)), "embedding is torch.float16"),
        (swap("embedding", torch.zeros(1, 33)), "embedding is"),
        (swap("latents.128", torch.zeros(4, 8, 8)), r"latents.128 is torch.float32 \(4, 8, 8\); this renderer has"),
        (swap("latents.64", torch.full((4, 8, 8), torch.inf)), "latents.64 is"),
    ],
    ids=["no box", "no size", "long box", "no number", "other type", "wide", "small", "infinite"],
)
def test_what_cannot_be_a_rig_is_refused(
    backend: DiceTalkBackend, rig: Identity, change: Callable[[Tensors], object], text: str
) -> None:
    tensors = dict(load(backend.pack(rig)))
    change(tensors)
    with pytest.raises(ValueError, match=text):
        backend.unpack(save(tensors), unseen)


@pytest.mark.parametrize(
    "content", [b"", b"no safetensors", bytes(100), b"\xff" * 8 + b"{}"], ids=["nothing", "text", "zeros", "head"]
)
def test_what_was_never_packed_is_refused(backend: DiceTalkBackend, content: bytes) -> None:
    with pytest.raises(ValueError, match="no rigged face of this renderer"):
        backend.unpack(content, unseen)
