"""The table of variants belongs to the commands, or to the chart's values."""

from pathlib import Path

import yaml

from tests.cluster.conftest import CHART, TWO_VOICES, arguments, route
from tests.support.cluster import Cluster
from tests.support.variant_commands import change, each_gateway, run, until_used


def test_an_upgrade_leaves_the_table_alone_until_the_values_own_it(
    cluster: Cluster, voices: str, address: str, tmp_path: Path
) -> None:
    def upgraded(*values: str) -> None:
        settings = (*arguments(*route()), TWO_VOICES, *values)
        cluster.helm("upgrade", voices, str(CHART), *settings, "--wait", "--timeout=4m")

    def table() -> str:
        return str(cluster.get("configmap", f"{voices}-variants").get("data", {}).get("variants.json", ""))

    change(address, "put", "tts", "kokoro", f"dns:///{voices}-tts-kokoro:50051")
    change(address, "set", "tts", "kokoro=10")
    before, pods = table(), cluster.pods(voices, "orchestrator")
    upgraded()
    assert table() == before

    owned = ("--set=variants.owner=helm", "--set=variants.stages.tts.weights.default=80")
    upgraded(*owned, "--set=variants.stages.tts.weights.kokoro=20", "--force-conflicts")
    with each_gateway(cluster, voices, tmp_path) as gateways:
        cluster.wait("the values count", lambda: {each.variants.get().owner for each in gateways.values()} == {"helm"})
        (version,) = {each.variants.get().version for each in gateways.values()}
        refused = run(address, "set", "tts", "kokoro=40")
        assert refused.status == 1
        assert "the chart's values own the table of variants" in refused.problem
        committed = tmp_path / "committed.yaml"
        committed.write_text(refused.output, "utf-8")
        assert yaml.safe_load(refused.output)["variants"]["stages"]["tts"]
        assert {each.variants.get().version for each in gateways.values()} == {version}

        upgraded("--set=variants.owner=helm", f"--values={committed}")
        cluster.wait("it is another", lambda: all(each.variants.get().version != version for each in gateways.values()))
        for gateway in gateways.values():
            (stage,) = (each for each in gateway.variants.get().stages if each.name == "tts")
            assert {each.name: each.weight for each in stage.variants} == {"default": 60, "kokoro": 40}

        upgraded()
        assert table() == ""
        until_used([*gateways.values()], 0)
        assert run(address, "show").output.count("kokoro") == 0
    assert cluster.pods(voices, "orchestrator") == pods
