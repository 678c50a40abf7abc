"""The cluster's API hangs while callers talk."""

import time
from collections.abc import Callable

from benchmarks.load import in_background
from tests.support.cluster import Cluster
from tests.support.talks import CALLERS, failed, losses, talking
from tests.support.variant_commands import change, metric, run


def test_the_clusters_api_hangs_and_no_turn_fails(
    cluster: Cluster, voices: str, address: str, stop_api: Callable[[], None], resume_api: Callable[[], None]
) -> None:
    change(address, "put", "tts", "kokoro", f"dns:///{voices}-tts-kokoro:50051")
    version = change(address, "set", "tts", "kokoro=10")
    with in_background(talking(address, "hanging")) as load:
        load.wait_for(CALLERS)
        stop_api()
        try:
            # Not for longer than a node may be silent, or the cluster takes all pods out of service when it is back.
            began_s = load.result().elapsed_s
            refused = run(address, "set", "tts", "kokoro=20")
            shown = run(address, "show")
            load.wait_for(CALLERS // 2)
            ended_s = load.result().elapsed_s
        finally:
            resume_api()
        assert (refused.status, shown.status) == (1, 0)
        assert "the table of variants cannot be read from ConfigMap" in refused.problem
        assert shown.output.startswith(f"version {version}, ")
        load.wait_for(CALLERS)
        resumed_s = time.monotonic()
        later = change(address, "set", "tts", "kokoro=20")
        for pod in cluster.pods(voices, "orchestrator"):
            cluster.wait("the table is used", lambda: metric(cluster, pod, "e3rg_variants_version") == later)  # noqa: B023
        took_s = time.monotonic() - resumed_s
        load.wait_for(CALLERS)
    begun = [turn for turn in load.ended if began_s < turn.sent_at_s < ended_s]
    print(f"away for {ended_s - began_s:.0f} s, {len(begun)} turns of {len(load.ended)} begun then")
    print(f"told: {refused.problem}")
    print(f"a change afterwards is used by both gateways after {took_s:.1f} s")
    assert begun
    assert failed(load.ended) == []
    assert losses(load.ended) == set()
