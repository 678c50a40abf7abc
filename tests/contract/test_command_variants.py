"""`e3rg variants`, against a gateway that administers variants and does nothing else."""

import asyncio
import getpass
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client import Client, ClientError, command
from e3rg.orchestrator.v1 import variants_pb2 as pb
from services.common.variants.table import Table
from tests.fake_door import Run
from tests.variant_admin import Gateway, gateway, until

PUT = ("put", "tts", "kokoro", "voice-b:50054")


@pytest.fixture
async def mine(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with gateway(tmp_path / "variants.json") as found:
        yield found


@pytest.fixture
def variants(mine: Gateway, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `e3rg variants` with some words."""

    async def now(*words: str | Path) -> tuple[int, str, str]:
        status = await asyncio.to_thread(command.main, ["--address", mine.address, "variants", *map(str, words)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return now


async def test_a_voice_is_swapped(variants: Run, mine: Gateway) -> None:
    for words, told in (
        (PUT, "version 1: tts: kokoro added at voice-b:50054, 0 %\n"),
        (("set", "tts", "kokoro=10"), "version 2: tts: default 100 -> 90 %; kokoro 0 -> 10 %\n"),
        (("shadow", "tts", "kokoro", "5"), "version 3: tts: kokoro shadow 0 -> 5 %\n"),
        (
            ("ramp", "tts", "kokoro", "20,50,100", "--every", "1h"),
            "version 4: tts: default 90 -> 80 %; kokoro 10 -> 20 %;"
            " ramp of kokoro goes on to 50, 100 %, each after 3600 s\n",
        ),
        (("ramp", "tts", "--stop"), "version 5: ramp of kokoro stopped\n"),
        (
            ("guardrail", "tts", "--window", "10m", "--failed-share-max", "0.01"),
            "version 6: tts: guardrail set: failed turns +0.01, degraded turns +0.1, first chunk x1.5"
            " over 600 s and 30 turns\n",
        ),
        (
            ("promote", "tts", "kokoro"),
            "version 7: tts: control default -> kokoro; default 80 -> 0 %, serving -> draining; kokoro 20 -> 100 %\n",
        ),
        (
            ("rollback", "tts"),
            "version 8: tts: control kokoro -> default; default 0 -> 100 %, draining -> serving;"
            " kokoro 100 -> 0 %, serving -> off\n",
        ),
        (("state", "tts", "kokoro", "draining"), "version 9: tts: kokoro off -> draining\n"),
        (("state", "tts", "kokoro", "off"), "version 10: tts: kokoro draining -> off\n"),
        (("guardrail", "tts", "--off"), "version 11: tts: guardrail removed\n"),
        (("remove", "tts", "kokoro"), "version 12: tts: kokoro removed\n"),
        (("set", "tts", "default=100"), "version 12: nothing is different\n"),
    ):
        assert await variants(*words) == (0, told, "")
    assert mine.table().history[6].version == 7


async def test_the_table_is_shown_for_a_person_and_for_a_program(variants: Run) -> None:
    await variants(*PUT)
    await variants("ramp", "tts", "kokoro", "10,50", "--every", "90s", "--turns-min", "1")
    await variants("guardrail", "tts")
    status, printed, _ = await variants("show")
    assert status == 0
    head, *lines = printed.splitlines()
    assert head == "version 3, changed by `e3rg variants`"
    assert lines[2:5] == [
        "tts",
        "  default            90 %  serving   control",
        "  kokoro             10 %  serving   voice-b:50054; 1 of 2 replicas; kokoro 0123abcd",
    ]
    assert lines[5].startswith("  ramp       kokoro goes on to 50 %, each after 90s and 1 turn; next at 2")
    assert lines[6] == (
        "  guardrail  against the control, over 5m and 30 turns or more: failed +5 %, degraded +10 %,"
        " 95th percentile of the first chunk x1.5"
    )
    document = json.loads((await variants("show", "--json"))[1])
    assert document["version"] == 3
    assert document["stages"][1]["variants"][1]["weight"] == 10
    assert document["ramp"]["turns_min"] == 1
    assert "history" not in document


async def test_the_history_tells_who_changed_what_and_why(variants: Run, mine: Gateway) -> None:
    await variants(*PUT)
    await variants("set", "tts", "kokoro=10", "--by", "Ada", "--why", "a warmer voice")
    _, printed, _ = await variants("history")
    lines = printed.splitlines()
    assert lines[0].startswith("version 2, ")
    assert lines[0].endswith(" UTC, by Ada")
    assert lines[1:3] == ["  tts: default 100 -> 90 %; kokoro 0 -> 10 %", "  why: a warmer voice"]
    assert lines[3].endswith(f" UTC, by {getpass.getuser()}")
    document = json.loads((await variants("history", "--json"))[1])
    assert [each["version"] for each in document["history"]] == [2, 1]
    assert document["history"][0]["why"] == "a warmer voice"


async def test_a_refusal_is_told_in_the_gateways_words(variants: Run, mine: Gateway) -> None:
    status, printed, complaint = await variants("promote", "tts", "kokoro")
    problem = "promote.variant: tts has no variant 'kokoro'; use one of: default; or put it there first"
    assert (status, printed, complaint) == (1, "", f"e3rg: INVALID_ARGUMENT: {problem}\n")
    await variants(*PUT)
    status, _, complaint = await variants("set", "tts", "kokoro=1", "--version", "7")
    assert (status, complaint.startswith("e3rg: ABORTED: the table of variants is at version 1, not 7")) == (1, True)
    status, _, complaint = await variants("ramp", "tts", "kokoro", "1,10")
    assert (status, complaint.startswith("e3rg: name the variant, its weights and --every, such as: ")) == (1, True)


async def test_values_to_commit_are_printed_where_the_chart_owns_the_table(variants: Run, mine: Gateway) -> None:
    stage = {"variants": {"default": {"weight": 90}, "kokoro": {"address": "voice-b:50054", "weight": 10}}}
    await mine.write(Table.model_validate({"owner": "helm", "stages": {"tts": stage}}))
    status, printed, complaint = await variants("set", "tts", "kokoro=50")
    assert status == 1
    assert printed.startswith('variants:\n  stages:\n    tts:\n      control: "default"\n      weights:\n')
    problem = "the chart's values own the table of variants; put this in the place of what they have, commit it and"
    assert complaint == f"e3rg: FAILED_PRECONDITION: {problem} upgrade\n"
    assert (await variants("show"))[1].splitlines()[0].endswith(", owned by the chart's values")


async def test_a_rollback_over_the_chart_is_shown_until_it_is_acknowledged(variants: Run, mine: Gateway) -> None:
    stage = {"variants": {"default": {"weight": 90}, "kokoro": {"address": "voice-b:50054", "weight": 10}}}
    base = await mine.write(Table.model_validate({"owner": "helm", "stages": {"tts": stage}}))
    await mine.writer.roll_back("tts", "kokoro", "first chunk x3", 5.0)
    await until(mine.live, lambda live: live.current != base)
    told = "  rollback   kokoro is off since 1970-01-01 00:00:05 UTC: first chunk x3;"
    assert f"{told} `e3rg variants acknowledge tts` ends this\n" in (await variants("show"))[1]
    status, printed, _ = await variants("acknowledge", "tts")
    assert status == 0
    assert printed.endswith(": tts: the rollback of kokoro lies over the chart's values no more\n")
    assert told not in (await variants("show"))[1]


async def test_a_newer_table_that_is_refused_is_told(variants: Run, mine: Gateway) -> None:
    await variants(*PUT)
    mine.path.write_text("{", "utf-8")
    await until(mine.live, lambda live: bool(live.problem))
    status, printed, complaint = await variants("show")
    assert (status, printed.startswith("version 1, ")) == (1, True)
    assert complaint.startswith("e3rg: a newer table is refused: table: ")


async def test_a_users_own_code_changes_the_table(mine: Gateway) -> None:
    def now() -> tuple[str, int]:
        with Client(mine.address) as client:
            client.variants.change(pb.PutVariant(stage="tts", variant="b", address="b:50054"), "ada", "to try", 0)
            made = client.variants.change(pb.SetWeights(stage="tts", weights={"b": 10}), "ada", version=1)
            with pytest.raises(ClientError, match="ABORTED"):
                client.variants.change(pb.Rollback(stage="tts"), "ada", version=1)
            return made.summary, client.variants.get().version

    assert await asyncio.to_thread(now) == ("tts: b 0 -> 10 %; default 100 -> 90 %", 2)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["set", "tts", "kokoro"], "'kokoro': give VARIANT=PERCENT, such as kokoro=10"),
        (["set", "tts", "kokoro=much"], "'much' is no percent; give 0 to 100"),
        (["state", "tts", "kokoro", "on"], "argument state: invalid choice: 'on'"),
        (["ramp", "tts", "kokoro", "1,10", "--every", "soon"], "'soon' is no length of time; give one such as 90s"),
        (["ramp", "tts", "kokoro", "1;10", "--every", "1h"], "'1;10' is no percent"),
    ],
)
def test_words_that_make_no_change_are_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["variants", *words])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_variant_with_two_weights_is_refused_before_anything_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["variants", "set", "tts", "kokoro=10", "kokoro=20"]) == 1
    assert capsys.readouterr().err == "e3rg: a variant has two weights: kokoro=10 kokoro=20\n"
