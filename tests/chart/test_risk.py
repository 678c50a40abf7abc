"""Promises of the chart for risks: help lines, the webhook, and its way out."""

import json

import pytest

from tests.chart.conftest import Refused, rendered

LINES = ("--set-json", 'risk.helpLines={"GB":{"emergency":"999"}}')
WEBHOOK = ("--set=risk.webhook.url=https://care.example/risks", "--set=risk.webhook.secretName=care")


def test_help_lines_reach_the_panel() -> None:
    variables = rendered(*LINES, "--set=risk.helpCountry=GB").environment("understanding")
    assert json.loads(variables["E3RG_UNDERSTANDING_HELP_LINES"]) == {"GB": {"emergency": "999"}}
    assert variables["E3RG_UNDERSTANDING_HELP_COUNTRY"] == "GB"
    assert "E3RG_UNDERSTANDING_HELP_LINES" not in rendered().environment("understanding")


def test_the_webhook_reaches_the_gateway_with_its_secret_and_a_way_out() -> None:
    found = rendered(*WEBHOOK, "--set=risk.webhook.cidrs={203.0.113.7/32}", "--set=risk.webhook.port=8443")
    assert found.environment("orchestrator")["E3RG_ORCHESTRATOR_RISK_WEBHOOK_URL"] == "https://care.example/risks"
    (container,) = found.of("Deployment")["orchestrator"]["spec"]["template"]["spec"]["containers"]
    (secret,) = [each for each in container["env"] if each["name"] == "E3RG_ORCHESTRATOR_RISK_WEBHOOK_SECRET"]
    assert secret["valueFrom"]["secretKeyRef"] == {"name": "care", "key": "secret"}
    way = {"to": [{"ipBlock": {"cidr": "203.0.113.7/32"}}], "ports": [{"port": 8443}]}
    policies = found.of("NetworkPolicy")
    assert [name for name, policy in policies.items() if way in policy["spec"].get("egress", [])] == ["orchestrator"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (WEBHOOK[:1], "set risk.webhook.secretName too"),
        (WEBHOOK, "set risk.webhook.cidrs too"),
        (("--set=risk.helpCountry=GB",), "risk.helpCountry is GB, which risk.helpLines does not have"),
        (("--set-json", 'risk.helpLines={"Britain":{}}'), "'Britain' does not match pattern"),
        (("--set-json", 'risk.helpLines={"GB":{"number":"999"}}'), "value must be one of 'emergency'"),
    ],
)
def test_values_that_cannot_work_are_refused(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(Refused) as refused:
        rendered(*arguments)
    assert problem in str(refused.value).replace("/", ".")
