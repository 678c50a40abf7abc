"""What several tests need."""

import logging
from collections.abc import Iterator

import pytest

import emotions
from emotions import Wheel
from tests.serving import CallLog


@pytest.fixture
def wheel() -> Wheel:
    return emotions.load()


@pytest.fixture
def calls() -> Iterator[CallLog]:
    """Every call that a service of this process ends during the test."""
    log = logging.getLogger("services.common.rpc")
    handler, level = CallLog(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)
    log.setLevel(level)
