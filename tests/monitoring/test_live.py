"""A real Prometheus reads a real deployment: every metric is there, every query is answered, an alert fires."""

import copy
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any

import pytest

from client import Client
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from local.deployment import Deployment
from local.message import film, speak
from tests.monitoring.conftest import ROOT, RULES, alerts, queries
from tests.support.prometheus import Prometheus, program
from tests.support.turns_under_load import under_load

QUIET = {
    "Losses of degraded turns per second",
    "Failed stages per second",
    "Refused requests per second, by reason",
    "Calls that services failed, per second",
    "Decisive votes per second, by voter",
}
"""Panels that are empty while all is well."""


@dataclass
class Watched:
    """A deployment, and the Prometheus that reads it."""

    deployment: Deployment
    prometheus: Prometheus
    _count: int = 0

    def take(self, count: int, audio: bytes = b"", video: bytes = b"") -> None:
        """Make turns one after the other, and wait after each until its metrics are read."""
        text = "" if audio or video else "My cat ran away and I miss her so much."
        with Client(self.deployment.address) as client:
            for _ in range(count):
                self._count += 1
                list(client.respond(pb.RespondHeader(text=text, identity="anna", conversation="talk"), audio, video))
                self.prometheus.wait_until(lambda: self._turns() == self._count)

    def _turns(self) -> float:
        """Return the number of turns that ended."""
        return sum(value for _, value in self.prometheus.query("e3rg_turn_seconds_count"))

    def alert(self, name: str, **labels: str) -> dict[str, Any] | None:
        """Return a firing alert with these labels."""
        wanted = {"alertname": name, **labels}.items()
        return next((one for one in self.prometheus.firing() if wanted <= one["labels"].items()), None)


def _impatient() -> dict[str, Any]:
    """Return the alerts with seconds in place of minutes."""
    rules = copy.deepcopy(RULES)
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "2s"
            rule["expr"] = re.sub(r"\[\d+m\]", "[15s]", rule["expr"])
    return rules


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """After turns of text, speech and film."""
    program("prometheus")  # Before all the rest is started for nothing.
    folder = tmp_path_factory.mktemp("watched")
    with Deployment(folder, ROOT / ".models") as deployment:
        pages = [f"127.0.0.1:{component.metrics_port}" for component in deployment.components.values()]
        with Prometheus(folder / "prometheus", pages, _impatient()) as prometheus:
            prometheus.wait_until(lambda: len(prometheus.query("e3rg_build_info")) == len(pages))
            at = deployment.components
            said = speak(at["tts"].address, "I have lost my keys and I am late.", "anna", "sad")
            filmed = film(at["video"].address, said, "anna", "sad")
            found = Watched(deployment, prometheus)
            found.take(2)
            found.take(2, audio=said.wav)
            found.take(2, video=filmed)
            yield found


def test_label_values_are_identifiers(watched: Watched) -> None:
    series = [labels for labels, _ in watched.prometheus.query('{__name__=~"e3rg_.+"}')]
    assert len(series) > 1000
    prose = [labels for labels in series if not all(re.fullmatch(r"[\w.+:/-]*", value) for value in labels.values())]
    assert prose == []


def test_every_metric_that_is_named_is_there(watched: Watched) -> None:
    # Prometheus calls a counter by its name without `_total`.
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",), "gauge": ("",)}
    found = watched.prometheus.ask("metadata").items()
    there = {name + suffix for name, (metric, *_) in found for suffix in suffixes.get(metric["type"], ())}
    expressions = [expression for _, expression, _ in queries()] + [alert["expr"] for alert in alerts()]
    named = {name for expression in expressions for name in re.findall(r"\be3rg_\w+", expression)}
    assert named - there == set()


def test_each_query_of_the_dashboard_has_an_answer_with_the_labels_of_its_legend(watched: Watched) -> None:
    empty, unlabelled = set(), []
    for title, expression, legend in queries():
        answer = watched.prometheus.query(expression)
        if not any(not isnan(value) for _, value in answer):
            empty.add(title)
        labels = {label for series, _ in answer for label in series}
        unlabelled += [
            f"{title}: {label}" for label in re.findall(r"{{(\w+)}}", legend) if answer and label not in labels
        ]
    assert empty <= QUIET
    assert unlabelled == []


def test_the_stages_of_the_dashboard_add_up_to_the_whole_turns(watched: Watched) -> None:
    ((_, stages_s),) = watched.prometheus.query("sum(e3rg_turn_stage_seconds_total)")
    ((_, turns_s),) = watched.prometheus.query("sum(e3rg_turn_seconds_sum)")
    assert stages_s == pytest.approx(turns_s, rel=0.01)


def test_no_alert_fires_while_all_is_well_and_one_does_when_a_voter_is_killed(watched: Watched) -> None:
    prometheus = watched.prometheus
    slow = {"E3rgFirstVideoLate", "E3rgPlaybackStalls"}  # This machine may do something else meanwhile.
    assert {alert["labels"]["alertname"] for alert in prometheus.firing()} <= slow
    voter = watched.deployment.components["mllm-text"].process
    assert voter
    with under_load(watched.deployment.address, callers=1):
        voter.send_signal(signal.SIGKILL)
        voter.wait()
        # Whether its replicas are ready, and what becomes of its votes: each alone would do.
        failed = 'e3rg_panel_votes_total{voter="text", variant="default", status="failed"}'
        prometheus.wait_until(lambda: bool(prometheus.query(failed)))
        prometheus.wait_until(lambda: bool(watched.alert("E3rgVoterFails", voter="text", component="mllm-text")))
        alert = watched.alert("E3rgVoterFails", voter="text")
        assert alert
        assert alert["annotations"]["summary"] == "The panel decides without voter text"
        assert {one["labels"].get("voter") for one in prometheus.firing()} & {"face", "voice", "smollm2"} == set()
        watched.deployment.start("mllm-text")
        watched.deployment.wait_ready("mllm-text")
        prometheus.wait_until(lambda: watched.alert("E3rgVoterFails", voter="text") is None)
