"""The risks that conversations raise are in an archive, and come back, until they fade."""

import json
from typing import Any

import grpc

from e3rg.common.v1 import common_pb2 as common
from services.common.tar import Member
from tests.serving import refused
from tests.support.archives import archive_of, members, raise_risk, raised
from tests.support.conversations import rows
from tests.support.identities import exported, imported, left
from tests.support.memory import TENANT, Clock, Stubs, header, parts, serving
from tests.support.stacks import Stack

CHILD, MEDICAL = common.RISK_KIND_CHILD, common.RISK_KIND_MEDICAL
MEDIUM = common.RISK_SEVERITY_MEDIUM
MIA = "people/p-mia/risks/000000"


def lines(archive: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of the members with risks, by member."""
    found = [member for member in members(archive) if "/risks/" in member.name]
    return {member.name: [json.loads(line) for line in member.content.splitlines()] for member in found}


def told(archive: bytes, *risks: tuple[str, float], conversation: str = "talk", name: str = MIA) -> bytes:
    """Return an archive with medium medical risks of these ids and times in one more member, or in place of it."""
    about = {"kind": "medical", "severity": "medium"}
    written = [{"conversation": conversation, "risk": {"id": id_, "raised_at_s": at_s, **about}} for id_, at_s in risks]
    content = b"".join(json.dumps(line).encode() + b"\n" for line in written)
    return archive_of([*(each for each in members(archive) if each.name != name), Member(name, content)])


async def bare(stubs: Stubs) -> bytes:
    """Add Ada; return her archive."""
    await stubs.add(parts(header()))
    return await exported(stubs)


async def test_risks_come_with_their_ages_also_without_the_permission_to_keep_turns(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        await stubs.add(parts(header(uses=["infer_emotion"])))
        await raise_risk(stubs, "r-1", CHILD, person="mia")
        clock.now_s += 60
        await raise_risk(stubs, "r-2", MEDICAL, person="mia")
        await raise_risk(stubs, "r-1", CHILD, conversation="alone")
        archive = await exported(stubs)
        first = {"id": "r-1", "kind": "child", "severity": "medium", "raised_at_s": clock.now_s - 60}
        assert lines(archive)[MIA][0] == {"conversation": "talk", "risk": first}
        assert [line["risk"]["id"] for line in lines(archive)[MIA]] == ["r-1", "r-2"]
        clock.now_s += 60
        await imported(stubs, archive)
        assert await raised(stubs, person="mia") == [(MEDICAL, MEDIUM, 60), (CHILD, MEDIUM, 120)]
        assert await raised(stubs, conversation="alone") == [(CHILD, MEDIUM, 60)]
        assert await raised(stubs, person="tom") == []
        assert lines(await exported(stubs, tenant="other")) == lines(archive)


async def test_a_risk_that_has_faded_is_not_exported(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        await stubs.add(parts(header()))
        await raise_risk(stubs, "r-1", CHILD, person="mia")
        await raise_risk(stubs, "r-1", CHILD, person="tom")
        clock.now_s += 1800
        await raise_risk(stubs, "r-2", CHILD, person="mia")
        clock.now_s += 1800
        found = lines(await exported(stubs))
        assert [(name, [line["risk"]["id"] for line in said]) for name, said in found.items()] == [(MIA, ["r-2"])]


async def test_a_risk_that_has_faded_by_the_time_of_the_import_is_left_out(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        archive = told(await bare(stubs), ("r-1", clock.now_s), ("r-2", clock.now_s + 1))
        clock.now_s += 3600
        await imported(stubs, archive)
        assert await raised(stubs, person="mia") == [(MEDICAL, MEDIUM, 3599)]
        clock.now_s += 1
        await imported(stubs, archive, tenant="third")
        found = await rows(stack, "third")
        assert "identities" in found
        assert not {"users", "conversations"}.intersection(found)


async def test_a_risk_of_the_future_counts_as_raised_at_the_import_and_fades_after_an_hour(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        await imported(stubs, told(await bare(stubs), ("r-1", clock.now_s + 90_000), ("r-2", clock.now_s - 60)))
        clock.now_s += 10
        assert await raised(stubs, person="mia") == [(MEDICAL, MEDIUM, 10), (MEDICAL, MEDIUM, 70)]
        clock.now_s += 3590
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        assert await raised(stubs, person="mia") == []


async def test_of_many_risks_of_a_conversation_the_newest_are_kept_each_once_whatever_their_order(
    stack: Stack,
) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        early = [(f"r-{number}", clock.now_s - 2000 - number) for number in range(20)]
        archive = told(await bare(stubs), *early, ("r-0", clock.now_s - 1))
        archive = told(archive, ("r-1", clock.now_s), ("r-new", clock.now_s - 9), name=MIA.replace("00000", "00001"))
        await imported(stubs, archive)
        assert [risk[2] for risk in await raised(stubs, person="mia")] == [9, *range(2000, 2015)]
        clock.now_s += 1
        await raise_risk(stubs, "r-2", CHILD, person="mia", tenant="other")
        await raise_risk(stubs, "r-last", CHILD, person="mia", tenant="other")
        assert [risk[2] for risk in await raised(stubs, person="mia")] == [0, 10, *range(2001, 2015)]


async def test_an_import_leaves_the_risks_of_a_user_with_another_identity_alone(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        archive = told(await bare(stubs), ("r-1", clock.now_s))
        await raise_risk(stubs, "r-9", CHILD, person="mia")
        await imported(stubs, archive, tenant=TENANT, name="eva")
        assert await raised(stubs, tenant=TENANT, person="mia") == [(CHILD, MEDIUM, 0)]
        assert await raised(stubs, tenant=TENANT, identity="eva", person="mia") == [(MEDICAL, MEDIUM, 0)]
        found = lines(await exported(stubs, "eva"))
        assert [line["risk"]["id"] for line in found[MIA]] == ["r-1"]


async def test_an_import_that_is_refused_keeps_no_risk_and_not_its_user(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        archive = told(await bare(stubs), ("r-1", clock.now_s))
        before = await left(stubs, stack)
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "it ends too early"):
            await imported(stubs, archive[:-1024])
        assert await left(stubs, stack) == before
