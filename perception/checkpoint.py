"""Reads the weights in a PyTorch checkpoint of the old, unzipped kind, without PyTorch and without running code.

Such a file is four pickles (magic, version, system, content), a pickled list of the keys of its storages, and then each
storage: how many numbers it holds (int64), and the numbers. Only tensors of float32 can be read.
"""

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class _Tensor:
    """A tensor whose numbers are not read yet; `offset` and `strides` count numbers."""

    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _FloatStorage:
    """Stands for PyTorch's class of that name."""


class _Content(pickle.Unpickler):
    """Knows the names that occur in such a file and no others."""

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch", "FloatStorage"): _FloatStorage,
        }
        if (module, name) not in known:
            raise ValueError(f"holds {module}.{name}; only tensors of float32 can be read")
        return known[module, name]

    def persistent_load(self, pid: Any) -> str:
        return str(pid[2])


def read(path: Path, part: str) -> dict[str, Floats]:
    """Returns the tensors by name of one `part` of the checkpoint, a state dict.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no such checkpoint, or has no such part.
    """
    with path.open("rb") as file:
        try:
            for _ in range(3):
                _Content(file).load()
            content = _Content(file).load()
            keys = _Content(file).load()
            storages = {key: _storage(file) for key in keys}
            tensors: dict[str, _Tensor] = content[part]
            return {name: _array(storages[tensor.storage], tensor) for name, tensor in tensors.items()}
        except (pickle.UnpicklingError, EOFError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no checkpoint with a part {part!r}: {error!r}") from error


def _tensor(storage: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object) -> _Tensor:
    return _Tensor(storage, offset, shape, strides)


def _storage(file: BinaryIO) -> Floats:
    count = int.from_bytes(file.read(8), "little")
    return np.frombuffer(file.read(4 * count), "<f4", count)


def _array(storage: Floats, tensor: _Tensor) -> Floats:
    """Copies a tensor out of its storage.

    Raises:
        IndexError: The storage is too short for it.
    """
    last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True))
    if last >= len(storage):
        raise IndexError("a tensor reaches beyond its storage")
    view = np.lib.stride_tricks.as_strided(
        storage[tensor.offset :], tensor.shape, [4 * step for step in tensor.strides], writeable=False
    )
    return np.array(view, np.float32)
