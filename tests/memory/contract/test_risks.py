"""Risks that conversations raise: kept for an hour with or without consent, and seen by nobody else."""

from typing import Any

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2, memory_pb2
from tests.serving import refused
from tests.support.memory import TENANT, Clock, Stubs, header, parts, serving
from tests.support.stacks import Stack

LATER = (common.RISK_KIND_SUICIDE, common.RISK_SEVERITY_HIGH)
SOONER = (common.RISK_KIND_SELF_HARM, common.RISK_SEVERITY_LOW)


async def raise_risk(
    stubs: Stubs, name: str = "r-1", risk: tuple[int, int] = LATER, conversation: str = "monday", **more: str
) -> None:
    kind, severity = risk
    request = memory_pb2.RaiseRiskRequest(
        **{"tenant": TENANT, "identity": "ada", "id": name, "conversation": conversation, **more},
        kind=kind,  # type: ignore[arg-type]
        severity=severity,  # type: ignore[arg-type]
    )
    await stubs.memory.RaiseRisk(request)


async def risks(stubs: Stubs, conversation: str = "monday", **more: str) -> list[tuple[int, int, float]]:
    told: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "conversation": conversation, **more}
    recalled = await stubs.memory.Recall(memory_pb2.RecallRequest(**told))
    return [(risk.kind, risk.severity, risk.age_s) for risk in recalled.risks]


async def test_risks_are_recalled_the_newest_first_until_an_hour_is_over(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        await stubs.add(parts(header()))
        await raise_risk(stubs, "r-1", SOONER)
        clock.now_s += 600
        await raise_risk(stubs, "r-2", LATER)
        await raise_risk(stubs, "r-2", SOONER)  # A retry.
        clock.now_s += 60
        assert await risks(stubs) == [(*LATER, 60), (*SOONER, 660)]
        clock.now_s += 2940
        assert await risks(stubs) == [(*LATER, 3000)]
        clock.now_s += 600
        assert await risks(stubs) == []


async def test_a_risk_needs_no_permission_to_keep_turns(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(uses=["infer_emotion"])))
        await raise_risk(stubs)
        assert [risk[:2] for risk in await risks(stubs)] == [LATER]


async def test_a_risk_belongs_to_one_conversation_of_one_user(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await raise_risk(stubs, person="mia")
        assert len(await risks(stubs, person="mia")) == 1
        assert await risks(stubs) == []
        assert await risks(stubs, person="tom") == []
        assert await risks(stubs, "tuesday", person="mia") == []


async def test_a_risk_is_erased_with_its_user(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await raise_risk(stubs, person="mia")
        erasing = erasure_pb2.ErasePersonRequest(tenant=TENANT, person="mia", asked_by="the test")
        await stubs.erasure.ErasePerson(erasing)
        assert await risks(stubs, person="mia") == []


async def test_of_many_risks_the_newest_are_kept(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await raise_risk(stubs, "first", SOONER)
        for number in range(16):
            await raise_risk(stubs, f"r-{number}")
        assert [risk[:2] for risk in await risks(stubs)] == [LATER] * 16


@pytest.mark.parametrize(
    ("changes", "risk", "problem"),
    [
        ({"conversation": ""}, LATER, "conversation: "),
        ({"name": "a b"}, LATER, "id: 'a b' is not a name"),
        ({}, (0, 3), "kind: 0 is unknown; use one of: RISK_KIND_SUICIDE, RISK_KIND_SELF_HARM"),
        ({}, (1, 9), "severity: 9 is unknown; use one of: RISK_SEVERITY_LOW, RISK_SEVERITY_MEDIUM"),
    ],
)
async def test_a_risk_that_is_none_is_refused_and_named(
    stack: Stack, changes: dict[str, str], risk: tuple[int, int], problem: str
) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        with refused(grpc.StatusCode.INVALID_ARGUMENT, problem):
            await raise_risk(stubs, risk=risk, **changes)


async def test_an_unknown_identity_has_no_risks(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        with refused(grpc.StatusCode.NOT_FOUND, "'nobody'"):
            await raise_risk(stubs, identity="nobody")
