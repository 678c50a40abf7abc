"""Rollbacks that lie over the chart's values, and the table that follows both objects."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from services.common.errors import Conflict, NotReady
from services.common.variants.files import TableFile
from services.common.variants.live import LiveTable
from services.common.variants.overlay import Overlay, RolledBack, dump_overlay, laid_over, parse_overlay
from services.common.variants.table import InvalidTable, Stage, State, Table, Variant, dump, parse
from tests.fakes import PATIENCE_S
from tests.variant_admin import until


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def table(owner: str = "helm", **weights: float) -> Table:
    stage = Stage(control="a", variants={name: Variant(weight=weight) for name, weight in weights.items()})
    return parse(dump(Table.model_validate({"owner": owner, "stages": {"tts": stage}})))


def overlay(*variants: str) -> Overlay:
    over = [RolledBack(stage="tts", variant=each, control="a", reason="slow", at_s=5, version=1) for each in variants]
    return Overlay(rolled_back=tuple(over))


def test_a_variant_that_was_rolled_back_is_off_whatever_the_values_say() -> None:
    for values in (table(a=90, b=10), table(a=20, b=80)):
        over = laid_over(values, overlay("b"))
        assert over.stage("tts").variants["b"] == Variant(state=State.OFF)
        assert over.stage("tts").variants["a"].weight == 100


def test_a_variant_that_the_values_promote_all_the_same_stays_off() -> None:
    promoted = table(a=50, b=50)
    stage = Stage(control="b", variants=promoted.stages["tts"].variants)
    over = laid_over(promoted.model_copy(update={"stages": {"tts": stage}}), overlay("b")).stage("tts")
    assert (over.control, over.variants["a"].weight, over.variants["b"].state) == ("a", 100, State.OFF)


def test_a_table_with_rollbacks_has_a_version_of_its_own_that_everybody_derives() -> None:
    one, again = laid_over(table(a=90, b=10), overlay("b")), laid_over(table(a=90, b=10), overlay("b"))
    assert one.version == again.version != table(a=90, b=10).version


@pytest.mark.parametrize("variant", ["gone", "off"])
def test_a_rollback_that_changes_nothing_leaves_the_table_as_it_is(variant: str) -> None:
    values = table(a=100, off=0)
    off = Stage(control="a", variants=values.stages["tts"].variants | {"off": Variant(state=State.OFF)})
    values = values.model_copy(update={"stages": {"tts": off}})
    assert laid_over(values, overlay(variant)) is values


def test_rollbacks_lie_over_the_values_of_the_chart_only() -> None:
    mine = table("cli", a=90, b=10)
    assert laid_over(mine, overlay("b")) is mine


def test_an_overlay_is_read_as_it_was_written() -> None:
    assert parse_overlay(dump_overlay(overlay("b", "c"))) == overlay("b", "c")
    assert (dump_overlay(Overlay()), parse_overlay(" ")) == ("", Overlay())
    with pytest.raises(InvalidTable, match="overlay: rolled_back"):
        parse_overlay('{"rolled_back": [1]}')


async def anything(_: Table) -> None:
    """Every table can serve."""


def refusals() -> float:
    return REGISTRY.get_sample_value("e3rg_variants_tables_total", {"outcome": "refused"}) or 0


async def seen(live: LiveTable, version: int) -> Table:
    found = await live.version(version, PATIENCE_S)
    assert found, live.problem
    return found


async def test_the_live_table_has_the_rollbacks_of_the_file_beside_it(tmp_path: Path, stack: AsyncExitStack) -> None:
    source, beside = TableFile(tmp_path / "variants.json"), TableFile(tmp_path / "variants.json.overlay")
    values = table(a=90, b=10)
    await source.replace("", dump(values))
    await beside.replace("", dump_overlay(overlay("b")))
    live = await stack.enter_async_context(LiveTable(source, anything, beside).running())
    over = laid_over(values, overlay("b"))
    assert await seen(live, over.version) == over
    assert live.overlay == overlay("b")
    await beside.replace(dump_overlay(overlay("b")), "")
    assert await seen(live, values.version) == values
    assert live.overlay == Overlay()


class Late:
    """An object whose text comes when the test gives it."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[str] = asyncio.Queue()
        self.kept = asyncio.Event()

    async def read(self) -> str:
        return ""

    async def texts(self) -> AsyncGenerator[str]:
        while True:
            yield await self.given.get()
            self.kept.set()

    async def replace(self, before: str, text: str) -> None:
        raise Conflict("it changes by itself")


async def test_no_table_is_taken_before_the_rollbacks_over_it_are_known(stack: AsyncExitStack) -> None:
    source, beside = Late(), Late()
    prepared: list[int] = []

    def prepare(candidates: Sequence[Table]) -> None:
        prepared.append(candidates[-1].version)

    live = await stack.enter_async_context(LiveTable(source, anything, beside, prepare).running())
    values = table(a=90, b=10)
    over = laid_over(values, overlay("b"))
    source.given.put_nowait(dump(values))
    await source.kept.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    beside.given.put_nowait(dump_overlay(overlay("b")))
    await seen(live, over.version)
    assert prepared == [over.version]


async def test_a_bad_text_is_refused_and_told_and_the_table_before_stays(tmp_path: Path, stack: AsyncExitStack) -> None:
    path = tmp_path / "variants.json"
    source = TableFile(path)
    good = Table(version=3, stages=table(a=90, b=10).stages)
    await source.replace("", dump(good))
    live = await stack.enter_async_context(LiveTable(source, anything).running())
    assert await seen(live, 3) == good
    before = refusals()
    path.write_text('{"version": 4, "stages": {"tts": {"variants": {"a": {"weight": 90}}}}}', "utf-8")
    await until(live, lambda live: "control is 'default'" in live.problem)
    path.write_bytes(b"\xff\xfe")
    await until(live, lambda live: "Invalid JSON" in live.problem)
    assert live.current == good
    assert refusals() == before + 2
    path.write_text(json.dumps({"version": 5}), "utf-8")
    await seen(live, 5)
    assert live.problem == ""


async def test_a_table_whose_channels_cannot_be_opened_now_is_told_of(tmp_path: Path, stack: AsyncExitStack) -> None:
    def prepare(candidates: Sequence[Table]) -> None:
        if candidates[-1].version == 2:
            raise FileNotFoundError("tls.crt is being replaced")

    source = TableFile(tmp_path / "variants.json")
    live = await stack.enter_async_context(LiveTable(source, anything, prepare=prepare).running())
    await source.replace("", dump(Table(version=2)))
    await until(live, lambda live: "tls.crt is being replaced" in live.problem)


async def test_a_table_that_cannot_serve_is_refused_with_the_reason(tmp_path: Path, stack: AsyncExitStack) -> None:
    async def check(candidate: Table) -> None:
        if candidate.version == 2:
            raise NotReady("tts b has no ready replica")

    source = TableFile(tmp_path / "variants.json")
    live = await stack.enter_async_context(LiveTable(source, check).running())
    await live.known()
    await source.replace("", dump(Table(version=2)))
    await until(live, lambda live: bool(live.problem))
    assert (live.problem, live.current.version) == ("tts b has no ready replica", 0)


async def test_a_file_that_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    source = TableFile(tmp_path / "variants.json")
    await source.replace("", "one")
    with pytest.raises(Conflict):
        await source.replace("", "two")
    assert await source.read() == "one"
