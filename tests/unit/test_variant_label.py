"""A process labels its own metrics with the variant that it belongs to."""

import asyncio

import pytest
from prometheus_client import REGISTRY

import emotions
from services.common import metrics
from services.common.errors import Overloaded
from services.common.inference import InferenceQueue
from services.video.domain import Studio
from services.video.servicer import VideoServicer
from tests.fake_faces import FakePainter
from tests.fakes import Gate

VARIANT = "b-2"


def value(metric: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(metric, {"model": "labelled", "variant": VARIANT, **labels})


async def test_work_of_a_variant_is_counted_as_its_own() -> None:
    queue, gate = InferenceQueue("test", "labelled", waiting_max=0, variant=VARIANT), Gate()
    assert value("e3rg_refusals_total", stage="test", reason="queue_full") == 0
    running = asyncio.create_task(queue.run(lambda: gate("work")))
    await gate.reached()
    assert (value("e3rg_queue_length", stage="test"), value("e3rg_in_flight", stage="test")) == (0, 1)
    with pytest.raises(Overloaded):
        queue.check()
    gate.open()
    await running
    queue.close()
    assert value("e3rg_refusals_total", stage="test", reason="queue_full") == 1
    assert value("e3rg_queue_seconds_count", stage="test") == 1
    assert value("e3rg_compute_seconds_count", stage="test", outcome="ok") == 1


def test_what_a_renderer_refuses_for_its_deadline_is_counted_as_its_variants() -> None:
    backend, wheel = FakePainter(), emotions.load()
    queue = InferenceQueue("video", "labelled", waiting_max=0, variant=VARIANT)
    VideoServicer("labelled", backend, Studio(backend, 1), queue, wheel)
    queue.close()
    assert value("e3rg_refusals_total", stage="video", reason="deadline") == 0


def test_a_model_is_shown_with_its_variant() -> None:
    metrics.show_model("test", "labelled", "a model", "d" * 64, "e" * 64, lambda: 2.5, VARIANT)
    labels = {"component": "test", "name": "a-model", "digest": "d" * 12, "ontology": "e" * 12}
    assert value("e3rg_model_info", **labels) == 1
    assert value("e3rg_backlog_seconds", component="test") == 2.5
