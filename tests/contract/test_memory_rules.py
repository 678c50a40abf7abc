"""The rules of the memory over the store on S3: the tests of them that take any store."""

import inspect

import pytest

from services.memory.backends.s3 import S3Backend
from services.memory.store import Store
from tests.unit import test_memory


@pytest.fixture
def store(s3_store: S3Backend) -> Store:
    return s3_store


globals().update(
    {
        name: test
        for name, test in vars(test_memory).items()
        if name.startswith("test_") and "store" in inspect.signature(test).parameters
    }
)
