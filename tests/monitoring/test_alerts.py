"""Each alert fires when it should and is silent when it should be, by the judgement of promtool."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.conftest import ALERTS, ROOT, RULES, alerts
from tests.support.prometheus import promtool

UNIT_TESTS = Path(__file__).with_name("alerts.test.yaml")
every_alert = pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))


def test_prometheus_can_read_the_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(ALERTS))


def test_the_alerts_fire_and_are_silent_as_they_should(tmp_path: Path) -> None:
    rules = copy.deepcopy(RULES)
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules), "utf-8")
    (tmp_path / UNIT_TESTS.name).write_text(UNIT_TESTS.read_text("utf-8"), "utf-8")
    assert "SUCCESS" in promtool("test", "rules", UNIT_TESTS.name, folder=tmp_path)


def test_prometheus_can_read_the_configuration_that_the_guide_gives(tmp_path: Path) -> None:
    guide = (ROOT / "docs/operate.md").read_text("utf-8")
    (configuration,) = re.findall(r"^```yaml\n(rule_files.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "prometheus.yaml").write_text(configuration, "utf-8")
    (tmp_path / "alerts.yaml").write_text(ALERTS.read_text("utf-8"), "utf-8")
    promtool("check", "config", "prometheus.yaml", folder=tmp_path)


@every_alert
def test_an_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_does_not(alert: dict[str, Any]) -> None:
    tests = yaml.safe_load(UNIT_TESTS.read_text("utf-8"))["tests"]
    checks = [check for test in tests for check in test["alert_rule_test"] if check["alertname"] == alert["alert"]]
    assert {bool(check.get("exp_alerts")) for check in checks} == {True, False}


@every_alert
def test_an_alert_tells_what_users_notice_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert alert["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert alert["annotations"].keys() == {"summary", "description", "runbook"}
    document, anchor = alert["annotations"]["runbook"].split("#")
    headings = re.findall(r"^### (\w+)$", (ROOT / document).read_text("utf-8"), re.MULTILINE)
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()


def test_the_operators_guide_describes_no_alert_that_there_is_not() -> None:
    guide = (ROOT / "docs/operate.md").read_text("utf-8")
    assert set(re.findall(r"^### (E3rg\w+)$", guide, re.MULTILINE)) == {alert["alert"] for alert in alerts()}
