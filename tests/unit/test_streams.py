"""Streams whose silence matters."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from orchestrator.flow import watched
from services.common.errors import DeadlineExceeded
from services.common.streams import ticking
from tests.fakes import PATIENCE_S

NEVER_S = 2 * PATIENCE_S


class Source:
    """A stream that the test feeds."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[int | Exception | None] = asyncio.Queue()
        self.closed = False

    async def stream(self) -> AsyncGenerator[int]:
        try:
            while (item := await self.items.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed = True


async def test_items_come_through_and_silence_ticks() -> None:
    source = Source()
    async with aclosing(ticking(source.stream(), 0.01)) as ticks:
        assert await anext(ticks) is None
        assert await anext(ticks) is None
        source.items.put_nowait(0)
        while (item := await anext(ticks)) is None:
            pass
        assert item == 0  # an item that is false is an item
        source.items.put_nowait(None)
        assert [item async for item in ticks if item is not None] == []
    assert source.closed


async def test_what_the_stream_raises_is_raised() -> None:
    source = Source()
    source.items.put_nowait(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await anext(ticking(source.stream(), NEVER_S))
    assert source.closed


async def test_closing_closes_the_stream_even_while_it_is_waited_for() -> None:
    source = Source()
    ticks = ticking(source.stream(), 0.01)
    assert await anext(ticks) is None
    await ticks.aclose()
    assert source.closed


async def test_a_failure_that_nobody_waits_for_any_more_is_not_left_behind() -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    source = Source()
    ticks = ticking(source.stream(), 0.01)
    assert await anext(ticks) is None
    source.items.put_nowait(ValueError("broken"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await ticks.aclose()
    assert source.closed
    assert failures == []


async def test_a_stream_is_given_up_when_nothing_comes_for_its_work() -> None:
    source = Source()
    async with aclosing(watched("video", source.stream(), 0.05, lambda: 1.0)) as parts:
        source.items.put_nowait(7)
        assert await anext(parts) == 7
        with pytest.raises(DeadlineExceeded, match=r"video: nothing came for 0\.05 s"):
            await anext(parts)
    assert source.closed


async def test_a_stream_without_work_may_be_silent_and_every_part_is_life() -> None:
    source, fed_s = Source(), 0.0
    async with aclosing(watched("video", source.stream(), 0.05, lambda: fed_s)) as parts:
        waiting = asyncio.ensure_future(anext(parts))
        await asyncio.wait({waiting}, timeout=0.3)
        assert not waiting.done()
        source.items.put_nowait(1)
        assert await waiting == 1
