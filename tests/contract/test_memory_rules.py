"""The rules of the memory on S3, with a replica's copies before it: the tests of them that take any store."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from services.memory.backends.s3 import S3Backend
from services.memory.cache import Cached
from services.memory.store import Store

MODULES = ("additions", "banks", "clips", "erasing", "ready", "registry", "talks")


@pytest.fixture
def store(s3_store: S3Backend) -> Store:
    return Cached(s3_store, 2**24)


def rules() -> Iterator[tuple[str, Callable[..., None]]]:
    """Yields the tests that ask for a store and for nothing else that would have to be made."""
    for name in MODULES:
        module = importlib.import_module(f"tests.unit.test_memory_{name}")
        for rule in [each for called, each in vars(module).items() if called.startswith("test_")]:
            wanted = set(inspect.signature(rule).parameters) - set(parametrized(rule))
            if wanted == {"store"}:
                yield f"{rule.__name__}_{name}", rule


def parametrized(rule: Any) -> Iterator[str]:
    for mark in getattr(rule, "pytestmark", []):
        if mark.name == "parametrize":
            yield from [mark.args[0]] if isinstance(mark.args[0], str) else mark.args[0]


globals().update(rules())


def test_there_are_rules_of_every_kind() -> None:
    for name in MODULES:
        assert [called for called in globals() if called.startswith("test_") and called.endswith(name)], name
