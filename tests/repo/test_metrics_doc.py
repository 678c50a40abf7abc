"""The document of the metrics lists those that there are, with their labels."""

import re
from pathlib import Path

import pytest
from prometheus_client import Counter, Gauge, Histogram

import orchestrator.metrics
import orchestrator.variants.election
import orchestrator.variants.guard
import services.common.metrics
import services.common.variants.kubernetes
import services.common.variants.live
import services.memory.metrics
import services.understanding.metrics
from orchestrator.attribution import STAGES

DOCUMENT = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
MODULES = (
    orchestrator.metrics,
    orchestrator.variants.election,
    orchestrator.variants.guard,
    services.common.metrics,
    services.common.variants.kubernetes,
    services.common.variants.live,
    services.memory.metrics,
    services.understanding.metrics,
)
NAMED = dict(re.findall(r"`(e3rg_\w+)(?:{([\w,]+)})?`", DOCUMENT))


def defined() -> dict[str, str]:
    """Return the labels of each metric."""
    found = {}
    for module in MODULES:
        for metric in vars(module).values():
            if isinstance(metric, (Counter, Gauge, Histogram)):
                (described,) = list(metric.describe())
                name = described.name + ("_total" if isinstance(metric, Counter) else "")
                found[name] = ",".join(metric._labelnames)
    return found


def test_every_metric_is_in_the_document_and_the_document_names_no_other() -> None:
    assert {*NAMED} == {*defined()}


@pytest.mark.parametrize("name", sorted(defined()))
def test_its_labels_are_in_the_document(name: str) -> None:
    assert f"`{name}{{{defined()[name]}}}`" in DOCUMENT or not defined()[name]


def test_every_stage_is_in_the_document() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| [^|]* \| [^|]* \|$", DOCUMENT, re.MULTILINE)) >= set(STAGES)
