"""The emotions' priors: converted once from the checkout's pickles, then read without running anything.

    python -m services.video.dice_talk.priors CHECKOUT/examples/emo WEIGHTS/priors.safetensors

A pickle can run any code. The one here may rebuild arrays of numpy, and nothing else.
"""

import argparse
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.lib import format as npy
from safetensors import safe_open
from safetensors.torch import save

CLASSES: Final[tuple[str, ...]] = ("neutral", "happy", "surprised", "angry", "fear", "sad", "disgusted", "contempt")
"""Names of the files, and of the wheel's classes."""
WIDTH: Final = 256
FILE: Final = "priors.safetensors"
"""What they are called once they are converted, in the folder of the weights."""
ALLOWED: Final = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class _ArraysOnly(pickle.Unpickler):
    """Rebuilds arrays, in plain containers."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is asked for; only arrays of numpy are rebuilt")
        # The old name of the module still works, but warns.
        return super().find_class(module.replace("numpy.core.", "numpy._core."), name)


def read_pickled(file: Path) -> torch.Tensor:
    """Returns the prior, float32 (256,), of a file `<class>.npy`: an array of one object, a dict with `mu` (1, 256).

    Raises:
        ValueError: The file is something else.
        pickle.UnpicklingError: It asks for more than arrays.
    """
    with file.open("rb") as content:
        if npy.read_magic(content) != (1, 0):
            raise ValueError(f"{file} is not of version 1.0 of numpy's format")
        _shape, _order, kind = npy.read_array_header_1_0(content)
        if not kind.hasobject:
            raise ValueError(f"{file} holds {kind}; a prior is a dict in an array of one object")
        prior = np.asarray(_ArraysOnly(content).load().item()["mu"], np.float32)
    if prior.size != WIDTH or not np.isfinite(prior).all():
        raise ValueError(f"{file} holds {prior.shape}; a prior is {WIDTH} finite numbers")
    return torch.from_numpy(prior.reshape(WIDTH).copy())


def convert(folder: Path, to: Path) -> None:
    """Writes the priors of all classes in `folder` to one file of safetensors."""
    # Not by `save_file`, whose file its owner alone can read: a container runs as another user.
    to.write_bytes(save({name: read_pickled(folder / f"{name}.npy") for name in CLASSES}))


def read(file: Path) -> Mapping[str, torch.Tensor]:
    """Returns float32 (256,) of each class.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A class is missing, or a prior has another shape.
    """
    if not file.is_file():
        how = "write it by `python -m services.video.dice_talk.priors CHECKOUT/examples/emo FILE`"
        raise FileNotFoundError(f"{file} is no file; the emotions' priors stand beside the weights: {how}")
    with safe_open(file, "pt") as opened:
        priors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    for name in CLASSES:
        if name not in priors or priors[name].shape != (WIDTH,):
            raise ValueError(f"{file} has no {name} of {WIDTH} numbers; convert the checkout's examples/emo again")
    return priors


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the checkout's examples/emo")
    parser.add_argument("to", type=Path, help="file to write")
    arguments = parser.parse_args()
    convert(arguments.folder, arguments.to)
