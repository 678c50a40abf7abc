"""Automatic scores of turns, and the summaries of users by variant over all tenants."""

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import memory_pb2, turns_pb2
from services.memory.repositories import summaries
from tests.serving import refused
from tests.support.conversations import (
    allow,
    counts,
    erase_identity,
    erase_tenant,
    erase_user,
    place,
    remember,
    rows,
)
from tests.support.memory import TENANT, Clock, Stubs, header, parts, serving
from tests.support.stacks import Stack

INVALID = grpc.StatusCode.INVALID_ARGUMENT
START_S = 1_800_000_000.0
TRIED = "voice-2"


@dataclass(frozen=True)
class Said:
    """A turn that the tests sum up by hand."""

    number: int
    user: str
    tts: str
    tenant: str = TENANT
    identity: str = "ada"
    conversation: str = "talk"
    experiment: str = TRIED
    phase: int = 1
    degraded: tuple[str, ...] = ()
    timings_s: dict[str, float] = field(default_factory=dict)
    scales: tuple[int, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def where(self) -> dict[str, str]:
        return {"tenant": self.tenant, "identity": self.identity, "conversation": self.conversation}


TURNS = (
    Said(1, "bob", "a", timings_s={"turn": 2, "speech": 0.5}, scales=(1, 2, 3), scores={"hit": 1, "dist-1": 0.5}),
    Said(2, "bob", "a", conversation="other", phase=2, timings_s={"turn": 4}, scores={"hit": 0}),
    Said(3, "bob", "b", identity="eve", phase=2, degraded=("video: the video",), scales=(5, 5, 5)),
    Said(4, "ann", "a", phase=2, degraded=("a", "b"), timings_s={"turn": 1}),
    Said(5, "ann", "a", experiment="", phase=0),
    Said(6, "", "b", phase=2, scores={"hit": -1}),
    Said(7, "bob", "b", tenant="other", phase=3),
    Said(8, "bob", "", tenant="other", phase=3),
    Said(9, "eve", "a", experiment="another", phase=7),
)
"""One a minute."""


@pytest.fixture
async def stubs(stack: Stack) -> AsyncIterator[Stubs]:
    clock = Clock(START_S)
    async with serving(stack.settings(), clock=clock) as stubs:
        for tenant in (TENANT, "other"):
            for name in ("ada", "eve"):
                await stubs.add(parts(header(name, tenant=tenant)))
        for said in TURNS:
            clock.now_s = START_S + 60 * said.number
            await keep(stubs, said)
        yield stubs


async def keep(stubs: Stubs, said: Said) -> None:
    turn = memory_pb2.Turn(
        id=f"turn-{said.number}",
        user_text="Hello.",
        user_emotion="sad",
        reply_text="Hi.",
        reply_emotion="caring",
        variants={"tts": said.tts, "video": "v"} if said.tts else {"video": "v"},
        experiment=said.experiment,
        phase=said.phase,
        degraded=said.degraded,
        timings_s=said.timings_s,
    )
    await stubs.memory.Remember(memory_pb2.RememberRequest(turn=turn, person=said.user, **said.where))
    if said.scales:
        names = ("expressiveness", "consistency", "naturalness")
        rating = turns_pb2.Rating(rater="r1", **dict(zip(names, said.scales, strict=True)))
        request = turns_pb2.RateTurnRequest(turn=turn.id, user=said.user, rating=rating, **said.where)
        await stubs.turns.RateTurn(request)
    if said.scores:
        await score(stubs, said.number, said.scores, user=said.user, **said.where)


async def score(stubs: Stubs, number: int, scores: dict[str, float], **where: str) -> None:
    request = turns_pb2.PutScoresRequest(turn=f"turn-{number}", scores=scores, **place(**where))
    await stubs.turns.PutScores(request)


async def summarised(stubs: Stubs, stage: str = "tts", **wanted: Any) -> list[turns_pb2.UserSummary]:
    request = turns_pb2.SummarizeUsersRequest(stage=stage, **wanted)
    return [each async for part in stubs.turns.SummarizeUsers(request) for each in part.users]


async def scored(stubs: Stubs, **wanted: Any) -> dict[str, dict[str, float]]:
    """The scores of each turn that has any."""
    request = turns_pb2.QueryTurnsRequest(tenant=TENANT, filter=turns_pb2.TurnFilter(**wanted))
    found = (await stubs.turns.QueryTurns(request)).turns
    return {each.turn.id: dict(each.scores) for each in found if each.scores}


Row = tuple[Any, ...]


def told(found: list[turns_pb2.UserSummary]) -> list[Row]:
    """What is said of each user and variant, without the keys."""
    return sorted(
        (
            *(each.variant, each.phase, each.variants_seen, each.turns, each.conversations, each.degraded_turns),
            (each.rating.sum, each.rating.count),
            [(name, total.sum, total.count) for name, total in sorted(each.timings_s.items())],
            [(name, total.sum, total.count) for name, total in sorted(each.scores.items())],
        )
        for each in found
    )


def by_hand(chosen: list[Said]) -> list[Row]:
    """The same, of these turns."""
    groups: dict[tuple[Any, ...], list[Said]] = {}
    for said in chosen:
        user = said.tenant, said.user or (said.conversation,)
        groups.setdefault((user, said.tts), []).append(said)
    found = []
    for (user, variant), mine in groups.items():
        phases = [
            each.phase
            for each in TURNS
            if (each.tenant, each.user or (each.conversation,)) == user and each.experiment == TRIED
        ]
        totals: list[list[tuple[str, float, int]]] = []
        for entries in ([each.timings_s for each in mine], [each.scores for each in mine]):
            names = sorted({name for each in entries for name in each})
            values = {name: [each[name] for each in entries if name in each] for name in names}
            totals.append([(name, sum(each), len(each)) for name, each in values.items()])
        rated = [sum(each.scales) / 3 for each in mine if each.scales]
        found.append(
            (
                variant,
                phases[0],
                len([0 for group in groups if group[0] == user]),
                len(mine),
                len({(each.identity, each.conversation) for each in mine}),
                len([0 for each in mine if each.degraded]),
                (sum(rated), len(rated)),
                *totals,
            )
        )
    return sorted(found)


async def test_the_turns_of_an_experiment_are_summed_up_by_user_and_variant_over_all_tenants(stubs: Stubs) -> None:
    found = await summarised(stubs, experiment=TRIED)
    chosen = [each for each in TURNS if each.experiment == TRIED and each.tts]
    assert told(found) == by_hand(chosen)
    assert len(found) == 5
    assert len({each.user for each in found}) == 4
    bob = [each for each in found if each.variants_seen == 2]
    assert len({each.user for each in bob}) == 1
    assert {each.phase for each in bob} == {1}
    # In the order of exposure.
    assert [each.variant for each in bob] == ["a", "b"]


async def test_the_variants_of_a_user_come_in_the_order_in_which_they_served_first(embedded: Stack) -> None:
    clock = Clock(START_S)
    async with serving(embedded.settings(), clock=clock) as stubs:
        await stubs.add(parts(header()))
        for number, variant in enumerate("bcab", 1):
            clock.now_s += 60
            await keep(stubs, Said(number, "bob", variant))
        assert [each.variant for each in await summarised(stubs)] == ["b", "c", "a"]


async def test_without_an_experiment_all_turns_with_a_variant_of_the_stage_are_summed_up(stubs: Stubs) -> None:
    assert sum(each.turns for each in await summarised(stubs)) == 8
    found = await summarised(stubs, stage="video")
    assert sum(each.turns for each in found) == 9
    assert {(each.variant, each.phase, each.variants_seen) for each in found} == {("v", 0, 1)}
    assert await summarised(stubs, stage="writer") == []
    assert await summarised(stubs, experiment="nothing") == []


async def test_only_turns_of_the_range_are_summed_up(stubs: Stubs) -> None:
    found = await summarised(stubs, experiment=TRIED, from_s=START_S + 120, until_s=START_S + 240)
    assert told(found) == by_hand([TURNS[1], TURNS[2]])
    assert {each.phase for each in found} == {1}


async def test_summaries_name_nobody_and_their_keys_hold_for_one_answer(stubs: Stubs) -> None:
    first, second = await summarised(stubs), await summarised(stubs)
    assert told(first) == told(second)
    assert {each.user for each in first}.isdisjoint(each.user for each in second)
    names = {"bob", "ann", "eve", "talk", TENANT, "other"}
    assert not [each for each in first if any(name in each.user for name in names)]


async def test_users_come_in_parts_that_hold_all_variants_of_each(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = told(await summarised(stubs, experiment=TRIED))
    monkeypatch.setattr(summaries, "USERS_AT_ONCE", 1)
    request = turns_pb2.SummarizeUsersRequest(stage="tts", experiment=TRIED)
    pages = [list(part.users) async for part in stubs.turns.SummarizeUsers(request)]
    assert [len({each.user for each in page}) for page in pages] == [1] * 4
    assert told([each for page in pages for each in page]) == whole


async def test_an_erased_user_is_in_no_summary_and_their_scores_leave_with_them(stubs: Stubs, stack: Stack) -> None:
    audit = await erase_user(stubs, "bob")
    assert {kind: counts(audit)[kind] for kind in ("assignments", "ratings", "scores")} == {
        "assignments": 1,
        "ratings": 2,
        "scores": 3,
    }
    left = [each for each in TURNS if (each.tenant, each.user) != (TENANT, "bob")]
    assert told(await summarised(stubs, experiment=TRIED)) == by_hand(
        [each for each in left if each.experiment == TRIED and each.tts]
    )
    assert (await rows(stack))["scores"] == 1
    await erase_identity(stubs)
    assert "scores" not in await rows(stack)
    await erase_tenant(stubs)
    assert [each.turns for each in await summarised(stubs, experiment=TRIED)] == [1]
    assert "assignments" not in await rows(stack)


async def test_scores_are_told_with_their_turn_and_a_new_value_takes_the_place_of_the_old(stubs: Stubs) -> None:
    assert await scored(stubs, user="bob") == {"turn-1": {"hit": 1, "dist-1": 0.5}, "turn-2": {"hit": 0}}
    for _ in range(2):
        await score(stubs, 1, {"hit": 0.25, "cross-modal": 3}, user="bob")
    assert (await scored(stubs, user="bob"))["turn-1"] == {"hit": 0.25, "dist-1": 0.5, "cross-modal": 3}


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ({}, "scores: it is empty"),
        ({"HIT": 1.0}, "scores: name: 'HIT'"),
        ({"a" * 41: 1.0}, "scores: name: "),
        ({"hit": math.nan}, "scores[hit]: nan"),
        ({"hit": math.inf}, "scores[hit]: inf"),
        ({f"s{number}": 1.0 for number in range(33)}, "scores: it has 33"),
    ],
)
async def test_wrong_scores_are_refused(stubs: Stubs, scores: dict[str, float], text: str) -> None:
    before = await scored(stubs)
    with refused(INVALID, text):
        await score(stubs, 1, scores, user="bob")
    assert await scored(stubs) == before


async def test_scores_need_the_turn_and_the_permission_to_keep_turns(stubs: Stubs) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "turn 'turn-7'"):
        await score(stubs, 7, {"hit": 1}, user="bob")
    await allow(stubs, ("infer_emotion",))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
        await score(stubs, 1, {"hit": 1}, user="bob")


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"stage": ""}, "stage: it is empty"),
        ({"experiment": "A"}, "experiment: "),
        ({"from_s": math.nan}, "from_s: "),
        ({"until_s": -1.0}, "until_s: "),
    ],
)
async def test_a_wrong_summary_is_refused_with_the_field(embedded: Stack, wanted: dict[str, Any], text: str) -> None:
    async with serving(embedded.settings()) as stubs:
        with refused(INVALID, text):
            await summarised(stubs, **wanted)


@pytest.mark.parametrize("stage", ["a b", "a'b", "a.b[0]"])
async def test_any_name_of_a_stage_can_be_asked_for(stack: Stack, stage: str) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await remember(stubs, 1, variants={stage: "x"})
        assert [each.variant for each in await summarised(stubs, stage)] == ["x"]
