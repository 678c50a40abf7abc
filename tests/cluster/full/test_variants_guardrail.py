"""A guardrail takes a slow voice back by itself, summed over both gateways."""

import json

from benchmarks.load import in_background
from client import Client
from tests.support.cluster import Cluster
from tests.support.talks import failed, losses, talking
from tests.support.variant_commands import change, metric

LINE = "a guardrail took a variant back"
ROLLBACKS = 'e3rg_variant_rollbacks_total{reason="first_chunk",stage="tts",variant="kokoro"}'


def test_a_slow_voice_is_taken_back_and_says_so_in_a_metric_an_event_the_log_and_the_history(
    cluster: Cluster, voices: str, address: str
) -> None:
    change(address, "put", "tts", "kokoro", f"dns:///{voices}-tts-kokoro:50051")
    change(address, "set", "tts", "kokoro=50")
    with in_background(talking(address, "guarded")) as load, Client(address) as client:
        change(address, "guardrail", "tts", "--turns-min", "10", "--window", "10m")
        began_s = load.result().elapsed_s
        cluster.wait(
            "Kokoro is off",
            lambda: any(each.state == "off" for stage in client.variants.get().stages for each in stage.variants),
            timeout_s=600,
        )
        took_s = load.result().elapsed_s - began_s
        load.wait_for(2)
        newest = client.variants.get().history[0]
    change(address, "guardrail", "tts", "--off")
    print(f"taken back after {took_s:.0f} s and {len(load.ended)} turns: {newest.why}")
    assert newest.by == "guardrail"
    elected = [pod for pod in cluster.pods(voices, "orchestrator") if metric(cluster, pod, "e3rg_variants_elected")]
    assert [metric(cluster, pod, ROLLBACKS) for pod in elected] == [1]
    (line,) = [line for pod in elected for line in cluster.kubectl("logs", pod).splitlines() if LINE in line]
    assert json.loads(line)["why"] == newest.why
    events = cluster.get("events", "--field-selector=reason=VariantRolledBack")["items"]
    told = [(event["involvedObject"]["name"], event["message"]) for event in events]
    assert told == [(f"{voices}-variants", f"tts kokoro: {newest.why}")]
    assert failed(load.ended) == []
    # Searches may be given up while the slow voice has the processors.
    assert losses(load.ended) == set()
