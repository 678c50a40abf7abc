"""The alerts and the dashboard of the chart."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "helm/files/alerts.yaml"
RULES: dict[str, Any] = yaml.safe_load(ALERTS.read_text("utf-8"))
DASHBOARD: dict[str, Any] = json.loads((ROOT / "helm/files/dashboard.json").read_text("utf-8"))


def alerts() -> list[dict[str, Any]]:
    """Return the alerts."""
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard that show something."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield the title of a panel, the expression of one of its queries with every namespace, and its legend."""
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"].replace("$namespace", ".*")
            for interval in ("$__rate_interval", "$__range"):
                expression = expression.replace(interval, "5m")
            yield panel["title"], expression, target.get("legendFormat", "")
