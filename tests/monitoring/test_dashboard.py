"""The dashboard is one that Grafana reads, by its own schema."""

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.monitoring.conftest import DASHBOARD, panels, queries


def _lost(written: Any, read: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that another document lacks or has otherwise."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            yield from _lost(value, read.get(key), f"{path}.{key}")
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for number, (one, other) in enumerate(zip(written, read, strict=True)):
            yield from _lost(one, other, f"{path}[{number}]")
    elif written != read:
        yield path


def test_grafana_knows_every_field() -> None:
    register_default_plugins()
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert list(_lost(DASHBOARD, read)) == []


def test_panels_have_ids_and_titles_of_their_own_and_lie_beside_each_other() -> None:
    every = DASHBOARD["panels"]
    assert len({panel["id"] for panel in every}) == len({panel["title"] for panel in every}) == len(every)
    for one, other in combinations([panel["gridPos"] for panel in every], 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in every)


def test_each_panel_has_a_unit_and_asks_the_chosen_server_for_the_chosen_namespaces() -> None:
    for panel in panels():
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        for target in panel["targets"]:
            assert target["expr"].count("e3rg_") == target["expr"].count('namespace=~"$namespace"'), target["expr"]
    assert "$" not in "".join(expression for _, expression, _ in queries())
