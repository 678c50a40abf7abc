"""`e3rg variants experiment` and `compare`, against a gateway over a real memory."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client import Client, command
from client.comparison_lines import comparison_lines
from e3rg.orchestrator.v1 import variants_pb2 as pb
from services.common.variants.table import Table
from services.memory.settings import MemorySettings
from tests.fake_door import Run
from tests.fakes import PATIENCE_S
from tests.support.memory import serving
from tests.support.trials import TRIAL, Talkers
from tests.variant_admin import Gateway, gateway

COLUMNS = 100
HALVES = {"default": {"weight": 50}, "kokoro": {"address": "voice-b:50054", "weight": 50}}
FAILED = "failed turns, of those of all users that the gateways have counted in the last day"
START = ("experiment", "start", TRIAL, "tts", "--primary", "rating", "--users-min", "20")


@pytest.fixture
async def talkers(tmp_path: Path) -> AsyncIterator[Talkers]:
    async with serving(MemorySettings(folder=tmp_path / "memory")) as stubs:
        talkers = Talkers(stubs)
        await talkers.move_in()
        yield talkers


@pytest.fixture
async def mine(tmp_path: Path, talkers: Talkers) -> AsyncIterator[Gateway]:
    async with gateway(tmp_path / "variants.json", memory=talkers.stubs.channel) as found:
        await found.write(Table.model_validate({"version": 1, "stages": {"tts": {"variants": HALVES}}}))
        async with asyncio.timeout(3 * PATIENCE_S):
            yield found


@pytest.fixture
def variants(mine: Gateway, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `e3rg variants` with some words."""

    async def now(*words: str | Path) -> tuple[int, str, str]:
        status = await asyncio.to_thread(command.main, ["--address", mine.address, "variants", *map(str, words)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return now


async def test_an_experiment_is_started_shown_and_stopped(variants: Run) -> None:
    status, printed, _ = await variants("experiment", "show")
    assert (status, printed) == (0, "no experiment runs\n")
    started = f"version 2: experiment {TRIAL} of tts started: rating decides, with 20 users a variant\n"
    assert await variants(*START, "--hypothesis", "It sounds warmer.", "--why", "to know") == (0, started, "")
    head, *lines = (await variants("experiment", "show"))[1].splitlines()
    assert head.startswith(f"experiment {TRIAL} of tts, started 20")
    assert lines == [
        "  hypothesis It sounds warmer.",
        "  decides    rating, against default, with 20 users a variant or more",
        "  phase      1",
    ]
    assert f"  experiment {TRIAL} since 20" in (await variants("show"))[1]
    status, printed, _ = await variants("experiment", "stop", TRIAL)
    result = "rating of kokoro: too few users: 0 of 20, 0 and 0 users"
    assert (status, printed) == (0, f"version 3: experiment {TRIAL} ended: {result}\n")
    (document,) = json.loads((await variants("experiment", "show", "--json"))[1])
    assert (document["id"], document["result"], document["users_min"]) == (TRIAL, result, 20)
    assert f"  result     {result}\n" in (await variants("experiment", "show"))[1]


async def test_the_comparison_is_told_in_plain_words_within_the_width_of_a_page(
    variants: Run, talkers: Talkers
) -> None:
    await variants(*START)
    await talkers.crowd("default", 24, 2)
    await talkers.crowd("kokoro", 26, 4)
    status, printed, complaint = await variants("compare")
    assert (status, complaint) == (0, "")
    lines = printed.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    at = lines.index("rating, which decides")
    assert [line.split() for line in lines[at + 1 : at + 5]] == [
        ["variant", "users", "mean", "interval", "difference", "interval"],
        ["default", "*", "24", "2", "1.35", "to", "2.65"],
        ["kokoro", "26", "3.96", "3.36", "to", "4.56", "+1.96", "+0.582", "to", "+3.34"],
        ["kokoro:", "better"],
    ]
    assert [line.split() for line in lines[lines.index(FAILED) + 1 :][:2]] == [
        ["default", "*", "0", "of", "0"],
        ["kokoro", "0", "of", "0"],
    ]
    assert "phase 1: users as the weights say (p = 1)" in lines
    assert "looking early is allowed" in printed
    assert "Failed turns are not kept" in printed


async def test_the_comparison_is_told_as_json_and_drawn(variants: Run, talkers: Talkers, tmp_path: Path) -> None:
    await variants(*START)
    await talkers.crowd("default", 3, 2)
    await talkers.crowd("kokoro", 2, 4)
    picture = tmp_path / "rating.svg"
    status, printed, _ = await variants("compare", TRIAL, "--json", "--svg", picture)
    assert status == 0
    document = json.loads(printed)
    assert [(each["name"], each["turns"], each["users"]) for each in document["variants"]] == [
        ("default", 3, 3),
        ("kokoro", 2, 2),
    ]
    (found,) = [each for each in document["differences"] if each["primary"]]
    assert (found["verdict"], found["users_needed"]) == ("too few users", 20)
    assert "svg" not in document
    assert picture.read_text("utf-8").startswith("<svg ")


async def test_an_interval_without_an_end_has_none_in_json_and_none_in_words(variants: Run, talkers: Talkers) -> None:
    await variants(*START)
    await talkers.say("bob", "kokoro", 4)
    _, printed, _ = await variants("compare", "--json")
    (mean,) = [each for each in json.loads(printed)["variants"][1]["means"] if each["metric"] == "rating"]
    assert mean["estimate"] == {"value": 4.0}
    assert "not known yet" in (await variants("compare"))[1]


async def test_a_mismatch_fails_and_says_so(variants: Run, talkers: Talkers) -> None:
    await variants(*START)
    await talkers.crowd("default", 45, 2)
    status, printed, complaint = await variants("compare")
    assert (status, complaint) == (1, "e3rg: sample-ratio mismatch in phase 1: nothing is decided\n")
    assert "phase 1: users MISMATCH, not as the weights say" in printed
    assert "no verdict: sample-ratio mismatch" in printed


async def test_a_stage_is_compared_without_an_experiment_and_nothing_decides(variants: Run, talkers: Talkers) -> None:
    await talkers.say("bob", "default", 3, experiment="")
    status, printed, _ = await variants("compare", "--stage", "tts", "--since", "1d")
    assert status == 0
    assert printed.startswith("tts: all turns, whoever was routed where; only an experiment decides\n")
    assert "decides\n  variant" not in printed


async def test_a_refusal_is_told_in_the_gateways_words(variants: Run) -> None:
    assert await variants("compare") == (1, "", "e3rg: NOT_FOUND: no experiment runs; start one, or compare a stage\n")
    status, _, complaint = await variants("experiment", "start", TRIAL, "tts", "--primary", "charm")
    assert (status, complaint.startswith("e3rg: INVALID_ARGUMENT: start.primary: 'charm' is no metric; use")) == (
        1,
        True,
    )


async def test_a_users_own_code_compares(mine: Gateway, talkers: Talkers) -> None:
    await talkers.say("bob", "default", 3, experiment="")

    def now() -> pb.CompareVariantsResponse:
        with Client(mine.address) as client:
            return client.variants.compare(stage="tts")

    assert [each.users for each in (await asyncio.to_thread(now)).variants] == [1]


def test_a_long_name_of_a_variant_is_cut() -> None:
    mean = pb.MetricMean(
        metric="rating", users=123_456, estimate=pb.Estimate(value=-1.234, lower=-12.34, upper=-0.1234)
    )
    named = [pb.ComparedVariant(name=name * 40, turns=10**7, users=10**6, means=[mean]) for name in "ab"]
    difference = pb.Difference(
        variant="b" * 40, metric="rating", estimate=mean.estimate, verdict="better", primary=True
    )
    told = pb.CompareVariantsResponse(
        stage="tts", control="a" * 40, variants=named, differences=[difference], level=0.05 / 3, users_left_out=1
    )
    lines = list(comparison_lines(told))
    assert max(map(len, lines)) <= COLUMNS
    assert f"  {'b' * 21}…: better" in lines
    assert lines[-1] == "Left out: 1 user who saw a variant that no phase gives users to."
