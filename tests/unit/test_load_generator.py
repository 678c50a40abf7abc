"""Generator of load, in time that passes only while it waits."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.load import Load, Message, Mix, Profile, Result, Stage, Turn
from services.common.clock import now_s
from tests.support import virtual_time


class Gateway:
    """Caller whose turns take as long as `takes_s` says, in virtual time."""

    def __init__(self, takes_s: Callable[[Turn], float] = lambda _: 1.0) -> None:
        self.takes_s = takes_s
        self.status = "OK"
        self.retry_after_s = 0.0
        self.conversations: list[str] = []

    async def __aenter__(self) -> "Gateway":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def make(self, turn: Turn, message: Message, conversation: str) -> None:
        self.conversations.append(conversation)
        await virtual_time.passing(self.takes_s(turn))
        turn.ended_at_s = now_s() - virtual_time.BEGIN_S
        turn.whole_s = turn.ended_at_s - turn.due_at_s
        turn.outcome, turn.status, turn.retry_after_s = "ok", self.status, self.retry_after_s


def load_on(gateway: Gateway, **fields: Any) -> Load:
    return Load(Profile("127.0.0.1:1", **fields), caller=gateway)


def test_users_make_turns_one_after_the_other_with_a_pause_between() -> None:
    load = load_on(Gateway(), users=2, think_s=2.0, think="fixed", duration_s=9)
    found = virtual_time.run(load.run())
    assert [turn.due_at_s for turn in found.turns] == [0, 0, 3, 3, 6, 6]
    assert found.elapsed_s == 7
    assert found.figures["answered_per_s"] == 6 / 7


def test_pauses_vary_around_their_mean_and_are_the_seeds() -> None:
    def run(seed: int) -> list[float]:
        load = load_on(Gateway(), users=5, think_s=2.0, duration_s=600, seed=seed)
        return [turn.due_at_s for turn in virtual_time.run(load.run()).turns]

    first, again, other = [run(seed) for seed in (1, 1, 2)]
    assert len(first) == pytest.approx(5 * 600 / 3, rel=0.1)
    assert first == pytest.approx(again)
    assert first != pytest.approx(other)


def test_the_number_of_users_follows_the_ramp() -> None:
    stages = (Stage(40, 4), Stage(20, 4), Stage(40, 0))
    found = virtual_time.run(load_on(Gateway(), users=0, stages=stages, duration_s=0).run())
    sent = Counter(int(turn.sent_at_s) for turn in found.turns)
    assert [sent[second] for second in (4, 5, 14, 15, 30, 50, 64, 66, 80, 94, 96)] == [0, 1, 1, 2, 3, 4, 4, 3, 2, 1, 0]
    assert max(turn.ended_at_s or 0 for turn in found.turns) <= 97


@pytest.mark.parametrize(("retry_after_s", "apart_s"), [(0.0, 2.0), (5.0, 6.0)])
def test_a_user_waits_after_a_refusal_as_long_as_the_gateway_asks(retry_after_s: float, apart_s: float) -> None:
    gateway = Gateway()
    gateway.status, gateway.retry_after_s = "RESOURCE_EXHAUSTED", retry_after_s
    found = virtual_time.run(load_on(gateway, users=1, duration_s=7).run())
    assert found.turns[1].due_at_s == apart_s


def test_turns_of_an_open_loop_arrive_whatever_became_of_earlier_ones() -> None:
    def due(takes_s: float) -> list[float]:
        gateway = Gateway(lambda _: takes_s)
        load = load_on(gateway, rate=2.0, duration_s=100, open_max=1000)
        return [turn.due_at_s for turn in virtual_time.run(load.run()).turns]

    assert due(0.1) == due(500.0)


def test_an_open_loop_measures_from_when_a_turn_was_due() -> None:
    gateway = Gateway(lambda turn: 30.0 if turn.due_at_s < 10 else 1.0)
    found = virtual_time.run(load_on(gateway, rate=1.0, duration_s=60).run())
    assert {round(turn.whole_s or 0, 6) for turn in found.turns} == {30.0, 1.0}
    assert found.figures["generator_late_max_s"] == pytest.approx(0)


def test_turns_that_are_too_many_at_once_are_counted_and_not_sent() -> None:
    gateway = Gateway(lambda _: 1000.0)
    found = virtual_time.run(load_on(gateway, rate=1.0, duration_s=60, open_max=10).run())
    assert len(found.turns) == 10
    assert found.figures["not_sent"] == len(found.not_sent_at_s) > 20
    assert max(row["open"] or 0 for row in found.series()) == 10


def test_conversations_are_shared_by_no_turns_at_once() -> None:
    gateway = Gateway(lambda _: 3.0)
    load = load_on(gateway, rate=1.0, duration_s=100, conversations=True)
    found = virtual_time.run(load.run())
    turns: dict[str, list[Turn]] = {}
    for conversation, turn in zip(gateway.conversations, found.turns, strict=True):
        turns.setdefault(conversation, []).append(turn)
    assert 1 < len(turns) < len(found.turns) / 3
    assert all(name.startswith(f"{load.name}-") for name in turns)
    for mine in turns.values():
        assert all((one.ended_at_s or 0) <= other.sent_at_s for one, other in itertools.pairwise(mine))


def test_each_user_has_a_conversation_and_without_the_wish_there_are_none() -> None:
    gateway = Gateway()
    load = load_on(gateway, users=2, duration_s=3, conversations=True)
    virtual_time.run(load.run())
    assert Counter(gateway.conversations) == {f"{load.name}-1": 3, f"{load.name}-2": 3}
    gateway.conversations.clear()
    virtual_time.run(load_on(gateway, users=2, duration_s=3).run())
    assert set(gateway.conversations) == {""}


def test_a_caller_begins_another_conversation_after_so_many_answers() -> None:
    gateway = Gateway(lambda turn: 1.0 if turn.conversation.endswith("-1") else 2.0)
    fields = {"users": 2, "duration_s": 3.5, "conversations": True, "conversation_turns": 2, "name": "talk"}
    virtual_time.run(load_on(gateway, **fields).run())
    assert Counter(gateway.conversations) == {"talk-1": 2, "talk-2": 2, "talk-3": 1}


def test_a_turn_that_is_refused_is_made_again_in_the_same_conversation() -> None:
    gateway = Gateway()
    gateway.status = "RESOURCE_EXHAUSTED"
    fields = {"users": 1, "duration_s": 5, "conversations": True, "conversation_turns": 1, "name": "talk"}
    virtual_time.run(load_on(gateway, **fields).run())
    assert set(gateway.conversations) == {"talk-1"}


def test_messages_are_drawn_by_weight() -> None:
    mix = Mix((Message("text", "Hello."), Message("audio"), Message("video")), {"text": 8, "audio": 2})
    found = virtual_time.run(load_on(Gateway(), users=10, duration_s=100, mix=mix).run())
    kinds = Counter(turn.kind for turn in found.turns)
    assert kinds["text"] / len(found.turns) == pytest.approx(0.8, abs=0.05)
    assert kinds["video"] == 0


def test_a_stopped_load_sends_no_more_and_waits_for_what_runs() -> None:
    ended: list[Turn] = []
    gateway = Gateway(lambda _: 5.0)
    load = Load(Profile("127.0.0.1:1", users=3, duration_s=60), ended.append, gateway)

    async def main() -> Result:
        asyncio.get_running_loop().call_later(7, load.stop)
        return await load.run()

    found = virtual_time.run(main())
    assert [turn.ended_at_s for turn in found.turns] == [5, 5, 5, 10, 10, 10]
    assert ended == list(found.turns)


def test_a_load_ends_after_so_many_turns() -> None:
    found = virtual_time.run(load_on(Gateway(), users=3, turns_max=7).run())
    assert (len(found.turns), found.figures["ok"]) == (7, 7)


def test_a_cancelled_load_has_what_was_measured() -> None:
    load = load_on(Gateway(lambda _: 5.0), users=1)
    with pytest.raises(TimeoutError):
        virtual_time.run(asyncio.wait_for(load.run(), 7))
    assert [turn.outcome for turn in load.result().turns] == ["ok", "unfinished"]
    assert load.result().lost == []


def test_a_fault_of_the_generator_itself_is_not_hidden() -> None:
    def fail(_: Turn) -> float:
        raise RuntimeError("a fault")

    with pytest.RaisesGroup(RuntimeError):
        virtual_time.run(load_on(Gateway(fail), rate=1.0, duration_s=60).run())
