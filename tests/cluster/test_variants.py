"""Two voices share the conversations of a release, and the table of variants changes while callers talk."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.load import in_background
from client import Client
from tests.cluster.conftest import CHART, TWO_VOICES, arguments, route
from tests.support.cluster import Cluster
from tests.support.talks import CALLERS, MOVED, by_conversation, check_split, failed, losses, talking
from tests.support.variant_commands import change, each_gateway, metric, run, until_used

CONVERSATIONS = 24
"""Conversations of two turns; the long tests hold more."""
KOKORO = "dns:///{release}-tts-kokoro:50051"
REFUSED = 'e3rg_variants_tables_total{outcome="refused"}'


@pytest.fixture
def split(voices: str, address: str) -> str:
    """The release; hibari is the control with 90 % of the conversations, Kokoro has 10 %."""
    change(address, "put", "tts", "kokoro", KOKORO.format(release=voices))
    with Client(address) as client:
        (stage,) = (each for each in client.variants.get().stages if each.name == "tts")
    if stage.control != "default":
        change(address, "promote", "tts", "default")
    change(address, "set", "tts", "kokoro=10")
    return voices


@pytest.fixture
def gateways(cluster: Cluster, voices: str, tmp_path: Path) -> Iterator[dict[str, Client]]:
    with each_gateway(cluster, voices, tmp_path) as found:
        assert len(found) == 2
        yield found


def table_of(cluster: Cluster, release: str) -> str:
    """Return the table as the ConfigMap has it."""
    return str(cluster.get("configmap", f"{release}-variants")["data"]["variants.json"])


def write(cluster: Cluster, release: str, text: str) -> None:
    """Write a table into the ConfigMap, past the gateway."""
    patch = json.dumps({"data": {"variants.json": text}})
    cluster.kubectl("patch", "configmap", f"{release}-variants", "--type=merge", f"--patch={patch}")


def test_conversations_are_split_by_weight_keep_their_voice_and_say_whose_it_was(split: str, address: str) -> None:
    assert split
    check_split(address, "split", CONVERSATIONS, {"default": 90, "kokoro": 10})


def test_the_table_changes_while_callers_talk_and_no_turn_fails(
    split: str, address: str, gateways: dict[str, Client]
) -> None:
    assert split
    with in_background(talking(address, "changed")) as load:
        load.wait_for(CALLERS // 2)
        for words in (
            ("set", "tts", "kokoro=30"),
            ("ramp", "tts", "kokoro", "40,80", "--every", "1h"),
            ("ramp", "tts", "--stop"),
            ("promote", "tts", "kokoro"),
            ("rollback", "tts"),
        ):
            began_s = time.monotonic()
            version = change(address, *words)
            took_s = time.monotonic() - began_s
            until_used([*gateways.values()], version)
            later_s = time.monotonic() - began_s - took_s
            print(f"{' '.join(words)}: the command took {took_s:.2f} s, the other gateway {later_s:.2f} s more")
            load.wait_for(CALLERS // 2)
    print(f"{len(load.ended)} turns; {load.result().degradations()}")
    assert failed(load.ended) == []
    assert losses(load.ended) == set()


def test_a_bad_table_is_refused_by_both_gateways_and_the_old_one_stays(
    cluster: Cluster, split: str, address: str, gateways: dict[str, Client]
) -> None:
    before = table_of(cluster, split)
    version = json.loads(before)["version"]
    until_used([*gateways.values()], version)
    refused = {pod: metric(cluster, pod, REFUSED) for pod in gateways}
    with in_background(talking(address, "bad")) as load:
        load.wait_for(1)
        bad = json.loads(before)
        bad["version"] += 1
        bad["stages"]["tts"]["variants"]["kokoro"]["weight"] = 20
        write(cluster, split, json.dumps(bad))
        for pod, gateway in gateways.items():
            cluster.wait("it is refused", lambda: gateway.variants.get().problem)  # noqa: B023
            assert metric(cluster, pod, REFUSED) == refused[pod] + 1
            assert metric(cluster, pod, "e3rg_variants_version") == version
        shown = run(address, "show")
        assert shown.status == 1
        assert "a newer table is refused: stages.tts: the weights sum to 110; make them 100" in shown.problem
        changing = run(address, "set", "tts", "kokoro=50")
        assert changing.status == 1
        assert "correct it first" in changing.problem
        load.wait_for(CALLERS)
        write(cluster, split, before)
        cluster.wait("it is well again", lambda: not any(each.variants.get().problem for each in gateways.values()))
    assert failed(load.ended) == []
    assert losses(load.ended) == set()


def test_the_control_takes_over_from_a_voice_that_dies_and_keeps_its_conversations(
    cluster: Cluster, split: str, address: str
) -> None:
    deployment = f"deployment/{split}-tts-kokoro"
    change(address, "set", "tts", "kokoro=50")
    try:
        with in_background(talking(address, "dying", turns=4)) as load:
            cluster.wait("Kokoro speaks", lambda: any(turn.variants.get("tts") == "kokoro" for turn in load.ended))
            cluster.kubectl("scale", deployment, "--replicas=0")
            cluster.kubectl("delete", "pod", "--selector=e3rg/variant=kokoro", "--grace-period=0", "--force")
            # Only a variant that shall get more than it has is checked.
            weights = iter(range(51, 100))

            def is_refused() -> bool:
                # The last replica may answer the check before the table is written and be gone at the one after it,
                # which then lasts as long as a connection that nobody refuses.
                ran = run(address, "set", "tts", f"kokoro={next(weights)}")
                return ran.status == 1 and "stages.tts.variants.kokoro: no replica takes calls" in ran.problem

            cluster.wait("the gateway sees that nobody speaks", is_refused)
            dead_s = load.result().elapsed_s
            load.wait_for(2 * CALLERS)
    finally:
        cluster.kubectl("scale", deployment, "--replicas=1")
        cluster.kubectl("rollout", "status", deployment, "--timeout=240s")
    later = [turn for turn in load.ended if turn.sent_at_s > dead_s]
    print(f"{len(load.ended)} turns; {load.result().degradations()}")
    assert failed(load.ended) == []
    assert {turn.variants["tts"] for turn in later} == {"default"}
    moved = [turns for turns in by_conversation(load.ended).values() if any(MOVED in turn.degraded for turn in turns)]
    assert moved
    # Once: the pin has moved too.
    assert all(sum(MOVED in turn.degraded for turn in turns) == 1 for turns in moved)


def test_a_gateway_that_starts_without_the_clusters_api_has_the_table_and_no_turn_fails(
    cluster: Cluster, split: str, address: str, tmp_path: Path
) -> None:
    version = json.loads(table_of(cluster, split))["version"]
    upgrade = ("upgrade", split, str(CHART), *arguments(*route()), TWO_VOICES, "--wait", "--timeout=4m")
    with in_background(talking(address, "away")) as load:
        load.wait_for(1)
        cluster.helm(*upgrade, "--set=networkPolicy.apiServer.cidrs={192.0.2.0/24}")
        (gone, stays) = cluster.pods(split, "orchestrator")
        cluster.kubectl("delete", "pod", gone, "--wait=false")
        cluster.wait("another starts", lambda: len({*cluster.pods(split, "orchestrator")} - {gone}) == 2)
        (fresh,) = {*cluster.pods(split, "orchestrator")} - {gone, stays}
        assert metric(cluster, fresh, "e3rg_variants_watched") == 0
        assert metric(cluster, fresh, "e3rg_variants_version") == version
        with each_gateway(cluster, split, tmp_path) as gateways:
            assert gateways[fresh].variants.get().version == version
            load.wait_for(CALLERS // 2)
            cluster.helm(*upgrade)
            cluster.wait("it is watched", lambda: metric(cluster, fresh, "e3rg_variants_watched") == 1)
            until_used([*gateways.values()], change(address, "set", "tts", "kokoro=20"))
            load.wait_for(CALLERS // 2)
    print(f"{len(load.ended)} turns; {load.result().degradations()}")
    assert failed(load.ended) == []
    assert losses(load.ended) == set()
