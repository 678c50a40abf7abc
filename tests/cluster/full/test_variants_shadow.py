"""A renderer gets a copy of all turns and hangs; the turns cost nothing for it."""

from collections.abc import Iterator
from statistics import median

import pytest

from benchmarks.load import Turn, in_background
from client import Client
from tests.cluster.conftest import CHART, TWO_VOICES, arguments, route
from tests.support.cluster import Cluster
from tests.support.talks import IDENTITY, by_conversation, failed, losses, talking
from tests.support.variant_commands import change, total

CALLERS = 4
"""As many as two cores render for in time."""
TURNS = 30
"""Turns of each part: without a shadow, beside one that works, beside one that hangs."""
DONE = 'e3rg_shadow_seconds_count{outcome="ok",stage="video",variant="copy"}'
LATE = 'e3rg_shadow_seconds_count{outcome="late",stage="video",variant="copy"}'
SKIPPED = 'e3rg_shadow_skipped_total{stage="video",variant="copy"}'
HANG = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    # The first process of the container cannot be stopped from within, the service that it started can.
    if (process / "stat").read_text().rpartition(")")[2].split()[1] == "1":
        os.kill(int(process.name), signal.SIGSTOP)
"""


@pytest.fixture
def copy(cluster: Cluster, voices: str, address: str) -> Iterator[str]:
    """Pod of a renderer that no turn is sent to; it is gone afterwards."""
    upgrade = ("upgrade", voices, str(CHART), *arguments(*route()), TWO_VOICES, "--wait", "--timeout=4m")
    cluster.helm(*upgrade, "--set=components.video.variants.copy.replicas=1")
    change(address, "put", "video", "copy", f"dns:///{voices}-video-copy:50051")
    (pod,) = cluster.pods(voices, "video-copy")
    yield pod
    change(address, "state", "video", "copy", "off")
    change(address, "remove", "video", "copy")
    cluster.kubectl("delete", "pod", "--selector=e3rg/variant=copy", "--grace-period=0", "--force")
    cluster.helm(*upgrade)


def test_a_shadow_renderer_that_hangs_costs_the_turns_nothing(
    cluster: Cluster, voices: str, address: str, copy: str
) -> None:
    with in_background(talking(address, "shadowed", users=CALLERS, output="video")) as load, Client(address) as client:
        load.wait_for(TURNS)
        shadowed_s = load.result().elapsed_s
        change(address, "shadow", "video", "copy", "100")
        cluster.wait("the shadow renders", lambda: total(cluster, voices, DONE))
        load.wait_for(TURNS)
        cluster.python(copy, HANG)
        hangs_s = load.result().elapsed_s
        done, skipped = total(cluster, voices, DONE), total(cluster, voices, SKIPPED)
        load.wait_for(TURNS)
        cluster.wait("copies are skipped", lambda: total(cluster, voices, SKIPPED) > skipped)
        told = {line: total(cluster, voices, line) for line in (DONE, SKIPPED, LATE)}
        names = by_conversation(load.ended)
        kept = [turn.variants["video"] for name in names for turn in client.turns.all(IDENTITY, name)]
    alone = [turn for turn in load.ended if (turn.ended_at_s or 0.0) < shadowed_s]
    beside = [turn for turn in load.ended if shadowed_s < turn.sent_at_s and (turn.ended_at_s or 0.0) < hangs_s]
    hanging = [turn for turn in load.ended if turn.sent_at_s > hangs_s]
    print(f"\nwithout a shadow {times(alone)}; beside one {times(beside)}; beside one that hangs {times(hanging)}")
    print(f"it rendered {done:g} copies before it hung, {skipped:g} were skipped; then {told}")
    assert told[DONE] == done
    assert failed(load.ended) == []
    # A crowded machine may give up what memory looks for; voice and face have their time.
    assert not [each for each in losses(load.ended) if each.startswith(("speech: ", "video: "))]
    assert {turn.variants["video"] for turn in load.ended if turn.kept_as} == {"default"}
    assert set(kept) == {"default"}


def times(turns: list[Turn]) -> str:
    """Return the medians of turns, and how many went on without something, in words."""
    first_s = [turn.first_video_s for turn in turns if turn.first_video_s is not None]
    whole_s = [turn.whole_s for turn in turns if turn.whole_s is not None]
    lost = sum(bool(losses([turn])) for turn in turns)
    return f"{len(turns)} turns, {lost} degraded, first picture {median(first_s):.2f} s, whole {median(whole_s):.2f} s"
