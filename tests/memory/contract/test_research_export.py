"""Research gets turns as CSV: only where it is allowed, under pseudonyms that a key makes."""

import csv
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import identities_pb2, turns_pb2
from tests.serving import refused
from tests.support.conversations import allow, remember
from tests.support.memory import TENANT, USES, Clock, Stubs, grants, header, joined, parts, serving, turn
from tests.support.stacks import Stack

RESEARCH = (*USES, "research_export")
LABELS = "identity user conversation turn said_at_s user_text user_emotion user_intensity reply_text reply_emotion"
COLUMNS = [
    *LABELS.split(),
    *["models", "variants", "votes", "delivery", "timings_s", "ratings"],
    *["expressiveness_mean", "consistency_mean", "naturalness_mean"],
]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_bytes(b"0123456789abcdef\n")
    return file


@pytest.fixture
async def stubs(stack: Stack, key: Path) -> AsyncIterator[Stubs]:
    """A memory with a key; `ada` may be exported, `eve` may not."""
    async with serving(stack.settings(pseudonym_key_file=key), clock=Clock()) as stubs:
        await stubs.add(parts(header(uses=RESEARCH)))
        await stubs.add(parts(header("eve")))
        yield stubs


async def exported(stubs: Stubs, tenant: str = TENANT, **wanted: Any) -> list[dict[str, str]]:
    """The rows of an export by column; checks that the file is RFC 4180."""
    request = turns_pb2.ExportTurnsRequest(tenant=tenant, filter=turns_pb2.TurnFilter(**wanted))
    text = (await joined(stubs.turns.ExportTurns(request))).decode("utf-8")
    assert text.endswith("\r\n")
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert rows[0] == COLUMNS
    assert {len(row) for row in rows} == {len(COLUMNS)}
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows[1:]]


async def test_a_turn_is_exported_whole_but_for_its_vote_record(stubs: Stubs) -> None:
    text = 'He said: "no",\nthen, \N{GRINNING FACE}\r\nnothing.'
    await remember(stubs, 1, text, {"person": "bobby-tables"})
    for rater, scale in (("r1", 1), ("r2", 4)):
        rating = turns_pb2.Rating(rater=rater, expressiveness=scale, consistency=5, naturalness=2)
        place = {"tenant": TENANT, "identity": "ada", "user": "bobby-tables", "conversation": "talk", "turn": "turn-1"}
        await stubs.turns.RateTurn(turns_pb2.RateTurnRequest(rating=rating, **place))
    (row,) = await exported(stubs)
    assert (row["identity"], row["turn"], row["user_text"], row["reply_text"]) == ("ada", "turn-1", text, "answer 1")
    assert (row["user_emotion"], row["reply_emotion"]) == ("sad", "caring")
    assert (float(row["said_at_s"]), float(row["user_intensity"])) == (Clock().now_s, 0.5)
    said = turn(1)
    assert json.loads(row["models"]) == dict(said.models)
    assert json.loads(row["variants"]) == dict(said.variants)
    assert json.loads(row["timings_s"]) == dict(said.timings_s)
    assert json.loads(row["votes"]) == {"text": "sad"}
    assert json.loads(row["delivery"])["decided_by"] == "policy empathic"
    means = (row["expressiveness_mean"], row["consistency_mean"], row["naturalness_mean"])
    assert (row["ratings"], *map(float, means)) == ("2", 2.5, 5, 2)
    assert "how the panel decided" not in str(row)


async def test_turns_are_exported_oldest_first_and_of_those_who_may_be_only(stubs: Stubs) -> None:
    for number in range(3):
        for identity in ("ada", "eve"):
            await remember(stubs, number, where={"person": "bob", "identity": identity})
    assert [(row["identity"], row["turn"]) for row in await exported(stubs)] == [
        ("ada", "turn-0"),
        ("ada", "turn-1"),
        ("ada", "turn-2"),
    ]
    assert len(await exported(stubs, text="question 1")) == 1
    assert await exported(stubs, user="ann") == []
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "research_export"):
        await exported(stubs, identity="eve")
    with refused(grpc.StatusCode.NOT_FOUND, "'max'"):
        await exported(stubs, identity="max")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "filter.user: "):
        await exported(stubs, user="a b")
    await allow(stubs, USES)
    assert await exported(stubs) == []


async def test_a_permission_that_has_ended_does_not_count(stack: Stack, key: Path) -> None:
    clock = Clock()
    async with serving(stack.settings(pseudonym_key_file=key), clock=clock) as stubs:
        head = header()
        head.grants.append(
            identities_pb2.Grant(use="research_export", granted_by="x", granted_on="2026-01-31", until="2027-01-31")
        )
        assert len(grants()) == len(USES)
        await stubs.add(parts(head))
        await remember(stubs, 1)
        assert len(await exported(stubs)) == 1
        clock.now_s += 30 * 86_400
        assert await exported(stubs) == []


async def test_users_and_conversations_have_pseudonyms_by_the_key(stubs: Stubs, stack: Stack, tmp_path: Path) -> None:
    names = ("bob-miller", "ann-smith", "")
    for person in names:
        for talk in ("monday-talk", "friday-talk"):
            await remember(stubs, 1, where={"person": person, "conversation": talk})
    await stubs.add(parts(header(tenant="other", uses=RESEARCH)))
    await remember(stubs, 1, where={"tenant": "other", "person": "bob-miller", "conversation": "monday-talk"})
    first = await exported(stubs)
    assert await exported(stubs) == first
    assert len({row["user"] for row in first}) == 4  # Two with a name; one without in each conversation.
    assert len({row["conversation"] for row in first}) == 6
    (bob,) = {row["user"] for row in await exported(stubs, user="bob-miller")}
    assert [row["user"] for row in first].count(bob) == 2
    (elsewhere,) = await exported(stubs, tenant="other")
    assert elsewhere["user"] not in {row["user"] for row in first}
    assert not [name for name in (*names[:2], "monday-talk", "friday-talk") if name in str(first)]
    other = tmp_path / "other-key"
    other.write_bytes(b"fedcba9876543210")
    for file, is_same in ((tmp_path / "key", True), (other, False)):
        async with serving(stack.settings(pseudonym_key_file=file), clock=Clock()) as again:
            rows = await exported(again)
        for name in ("user", "conversation"):
            assert ([row[name] for row in rows] == [row[name] for row in first]) is is_same
            assert bool({row[name] for row in rows} & {row[name] for row in first}) is is_same


@pytest.mark.parametrize("content", [None, b"", b"\n", b"too short\n"])
@pytest.mark.parametrize("is_named", [True, False])
async def test_without_a_key_nothing_is_exported(
    embedded: Stack, tmp_path: Path, content: bytes | None, is_named: bool
) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"0123456789abcdef")
    async with serving(embedded.settings(pseudonym_key_file=file if is_named else None)) as stubs:
        file.unlink() if content is None else file.write_bytes(content)
        await stubs.add(parts(header(uses=RESEARCH)))
        await remember(stubs, 1)
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "E3RG_MEMORY_PSEUDONYM_KEY_FILE"):
            await exported(stubs)


async def test_an_export_larger_than_a_message_is_whole_and_in_order(stubs: Stubs) -> None:
    long = "\N{GRINNING FACE}," * 15_000
    for number in range(20):
        await remember(stubs, number, long)
    rows = await exported(stubs)
    assert [row["turn"] for row in rows] == [f"turn-{number}" for number in range(20)]
    assert {row["user_text"] for row in rows} == {long}


async def test_an_export_of_more_turns_than_are_read_at_once_has_each_once(embedded: Stack, key: Path) -> None:
    async with serving(embedded.settings(pseudonym_key_file=key), clock=Clock()) as stubs:
        await stubs.add(parts(header(uses=RESEARCH)))
        await stubs.add(parts(header("eve")))
        for number in range(520):
            await remember(stubs, number, where={"identity": ("ada", "eve")[number % 3 == 0]})
        expected = [f"turn-{number}" for number in range(520) if number % 3]
        assert [row["turn"] for row in await exported(stubs)] == expected
