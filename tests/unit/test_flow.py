"""What one stage hands to the next."""

import asyncio
import time

from orchestrator.flow import Flow


async def test_items_come_in_order_and_end() -> None:
    flow: Flow[str] = Flow()
    for item in ("a", "b"):
        flow.put(item)
    flow.end()
    assert [item async for item in flow] == ["a", "b"]


async def test_an_item_is_taken_as_soon_as_it_is_put() -> None:
    flow: Flow[int] = Flow()
    taker = aiter(flow)
    taking = asyncio.ensure_future(anext(taker))
    await asyncio.sleep(0)
    assert not taking.done()
    flow.put(0)  # an item that is false is an item
    assert await taking == 0
    flow.end()
    assert await anext(taker, None) is None


async def test_an_empty_flow_ends() -> None:
    flow: Flow[str] = Flow()
    flow.end()
    assert [item async for item in flow] == []


async def test_the_time_of_the_first_item_is_kept() -> None:
    flow: Flow[str] = Flow()
    assert flow.first_s == 0
    before_s = time.monotonic()
    flow.put("a")
    first_s = flow.first_s
    assert before_s <= first_s <= time.monotonic()
    flow.put("b")
    assert flow.first_s == first_s
