"""A ramp steps by itself, and an experiment compares two voices by what their users say of them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.load import in_background
from benchmarks.variants import Counts, say
from client import Client
from tests.support.cluster import Cluster
from tests.support.talks import failed, talking
from tests.support.variant_commands import change, command, run

USERS, CALLERS, TURNS = 24, 3, 2
STARS = {"default": 3, "kokoro": 4}


@pytest.fixture(autouse=True)
def kokoro(voices: str, address: str) -> None:
    change(address, "put", "tts", "kokoro", f"dns:///{voices}-tts-kokoro:50051")


def test_a_ramp_steps_by_itself_when_enough_turns_were_made(cluster: Cluster, address: str) -> None:
    begun = change(address, "ramp", "tts", "kokoro", "10,20,40", "--every", "10s", "--turns-min", "2")
    with in_background(talking(address, "ramped")) as load, Client(address) as client:
        cluster.wait("both steps are made", lambda: client.variants.get().version == begun + 2, timeout_s=600)
        table = client.variants.get()
    change(address, "set", "tts", "kokoro=10")
    (stage,) = (each for each in table.stages if each.name == "tts")
    steps = table.history[:2]
    print("\n" + "\n".join(f"{each.by}: {each.summary}; {each.why}" for each in reversed(steps)))
    print(f"{steps[0].at_s - table.history[2].at_s:.0f} s for two steps, {len(load.ended)} turns")
    assert [each.by for each in steps] == ["ramp", "ramp"]
    assert {each.name: each.weight for each in stage.variants} == {"default": 60, "kokoro": 40}
    assert failed(load.ended) == []


def test_an_experiment_tells_what_its_users_say_of_each_voice(address: str) -> None:
    change(address, "set", "tts", "kokoro=50")
    change(address, "experiment", "start", "warmer", "tts", "--primary", "rating", "--users-min", "20")
    counts = Counts()

    def talk(user: str) -> None:
        with Client(address) as client:
            for number in range(TURNS):
                turn, voice = say(client, counts, user, number)
                scales = ("--expressiveness", "--consistency", "--naturalness")
                words = [word for scale in scales for word in (scale, str(STARS[voice]))]
                which = ("--person", user, "--conversation", f"{user}-0", "--turn", turn, "--rater", user)
                rated = command(address, "memory", "rate", "anna", *which, *words)
                assert rated.status == 0, rated

    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(talk, [f"listener-{number}" for number in range(USERS)]))
    print(run(address, "compare").output)
    told = json.loads(run(address, "compare", "--json").output)
    change(address, "experiment", "stop", "warmer")
    (ended,) = json.loads(run(address, "experiment", "show", "--json").output)
    users = {voice: sum(each == {voice} for each in counts.voices.values()) for voice in STARS}
    assert sum(users.values()) == USERS
    assert {each["name"]: each["users"] for each in told["variants"]} == users
    assert {each["name"]: each["turns"] for each in told["variants"]} == counts.turns
    assert {each["name"]: each["means"][0]["estimate"]["value"] for each in told["variants"]} == STARS
    assert ended["id"] == "warmer"
    assert "too few users" in ended["result"]
