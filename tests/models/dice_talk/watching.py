"""Looks on while networks work."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

SCHEDULE_WARNS = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")
"""The schedule of diffusers makes an array of a tensor in a way that numpy will drop one day."""


@dataclass
class Call:
    """What a network was given, as it was then, and what it answered."""

    positional: tuple[Any, ...]
    named: dict[str, Any]
    answer: Any = None


@contextmanager
def watching(network: torch.nn.Module) -> Iterator[list[Call]]:
    """Gathers the calls of a network."""
    calls: list[Call] = []

    def before(_network: Any, positional: Any, named: Any) -> None:
        calls.append(Call(_copy(positional), _copy(named)))

    def after(_network: Any, _positional: Any, _named: Any, answer: Any) -> None:
        calls[-1].answer = answer

    hooks = [
        network.register_forward_pre_hook(before, with_kwargs=True),
        network.register_forward_hook(after, with_kwargs=True),
    ]
    yield calls
    for hook in hooks:
        hook.remove()


def _copy(given: Any) -> Any:
    """Copies the containers: the code that is called may change them."""
    if isinstance(given, dict):
        return {name: _copy(part) for name, part in given.items()}
    return type(given)(_copy(part) for part in given) if isinstance(given, list | tuple) else given
