"""Turns of an experiment through a gateway over a real memory: who is assigned, who is not, and what is kept of it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e3rg.memory.v1 import erasure_pb2, turns_pb2
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import variants_pb2
from services.common.variants.table import Experiment, Stage, Table, Variant, dump
from tests.deployment import Cast
from tests.door import TALK, TENANT, Door, opened
from tests.support.waiting import until
from tests.turns import header
from tests.variant_admin import gateway

TRIAL = Experiment(
    id="voices", stage="tts", hypothesis="", primary="rating", users_min=20, salt="salt-of-it", started_at_s=1.0
)
WHERE = {"tenant": TENANT, "identity": "ada"}
Kept = tuple[str, str, int]
"""Variant of the voice, experiment and phase of a turn."""


@dataclass
class Split:
    """A gateway whose conversations two voices share.

    Attributes:
        door: The gateway, and the memory behind it.
        path: Its table of variants.
        version: Version of that.
    """

    door: Door
    path: Path
    version: int = 1

    async def weigh(self, b: float, experiment: Experiment | None = None) -> None:
        """Give voice "b" a percent of the new conversations; return when the gateway uses it."""
        self.version += 1
        stage = Stage(variants={"default": Variant(weight=100 - b), "b": Variant(weight=b)})
        table = Table(version=self.version, stages={"tts": stage}, experiment=experiment)
        await asyncio.to_thread(self.path.write_text, dump(table), "utf-8")
        live = self.door.cast.table
        assert live
        while live.current.version != self.version:
            await live.changed()

    async def rate(self, person: str, stars: int) -> None:
        """Have a user's turns rated through the gateway."""
        query = turns_pb2.QueryTurnsRequest(tenant=TENANT, filter=turns_pb2.TurnFilter(user=person))
        for record in (await self.door.memory.turns.QueryTurns(query)).turns:
            rating = turns_pb2.Rating(rater="r1", expressiveness=stars, consistency=stars, naturalness=stars)
            where = {**WHERE, "user": person, "conversation": record.turn.conversation, "turn": record.turn.id}
            await self.door.memory.turns.RateTurn(turns_pb2.RateTurnRequest(**where, rating=rating))

    async def say(self, conversation: str = "talk", person: str = "bob", variant: str = "", text: bool = False) -> Kept:
        """Talk; return what is kept of that."""
        output = pb.OUTPUT_TEXT if text else pb.OUTPUT_AUDIO
        where = {**TALK, "conversation": conversation, "person": person}
        request = header("Hello.", **where, output=output)
        metadata = (("e3rg-variant", f"tts={variant}"),) if variant else ()
        done = [event async for event in self.door.stub.Respond(iter([request]), timeout=20, metadata=metadata)][-1]
        query = turns_pb2.QueryTurnsRequest(tenant=TENANT, filter=turns_pb2.TurnFilter(conversation=conversation))
        found = (await self.door.beside.turns.QueryTurns(query)).turns
        (kept,) = [record.turn for record in found if record.turn.id == done.done.turn]
        return kept.variants["tts"], kept.experiment, kept.phase

    async def seen(self) -> list[tuple[str, int, int]]:
        """Variant, phase and number of variants of each summary of the experiment."""
        request = turns_pb2.SummarizeUsersRequest(stage="tts", experiment=TRIAL.id)
        parts = [part async for part in self.door.beside.turns.SummarizeUsers(request)]
        return [(user.variant, user.phase, user.variants_seen) for part in parts for user in part.users]


@pytest.fixture
async def split(tmp_path: Path) -> AsyncIterator[Split]:
    path = tmp_path / "variants.json"
    path.write_text("", "utf-8")
    async with opened(Cast(variants_file=path, variant_admin=True)) as door:
        yield Split(door, path)


def phase(number: int) -> Experiment:
    """The experiment in a phase."""
    return TRIAL.model_copy(update={"phase": number})


async def test_a_user_is_assigned_once_and_keeps_the_variant_in_new_conversations(split: Split) -> None:
    await split.weigh(0, phase(1))
    assert await split.say("first") == ("default", "voices", 1)
    await split.weigh(100, phase(2))
    assert await split.say("second") == ("default", "voices", 2)
    assert await split.say("third", person="ann") == ("b", "voices", 2)
    assert sorted(await split.seen()) == [("b", 2, 1), ("default", 1, 1)]


async def test_an_older_conversation_keeps_its_voice_and_its_user_has_seen_both(split: Split) -> None:
    await split.weigh(100)
    assert await split.say("older") == ("b", "", 0)
    await split.weigh(0, phase(1))
    # Nobody drew that voice by lot, so it assigns nobody.
    assert await split.say("older") == ("b", "", 0)
    assert await split.say("newer") == ("default", "voices", 1)
    assert await split.say("older") == ("b", "voices", 1)
    assert await split.seen() == [("default", 1, 2), ("b", 1, 2)]


async def test_a_testers_turn_is_in_no_experiment_and_assigns_nobody(split: Split) -> None:
    await split.weigh(0, phase(1))
    assert await split.say("try", variant="b") == ("b", "", 0)
    assert await split.seen() == []
    assert await split.say("talk") == ("default", "voices", 1)
    assert await split.say("talk", variant="b") == ("b", "", 0)
    assert await split.seen() == [("default", 1, 1)]


async def test_a_turn_that_the_stage_does_not_serve_is_in_no_experiment(split: Split) -> None:
    await split.weigh(0, phase(1))
    assert await split.say("words", text=True) == ("", "", 0)
    await split.weigh(100, phase(2))
    # The first turn with a voice is the first exposure.
    assert await split.say("words") == ("b", "voices", 2)
    assert await split.seen() == [("b", 2, 1)]


async def test_somebody_without_a_name_is_assigned_by_the_conversation(split: Split) -> None:
    await split.weigh(100, phase(1))
    assert [await split.say("mine", person="") for _ in range(2)] == [("b", "voices", 1)] * 2
    assert await split.seen() == [("b", 1, 1)]


async def test_users_talk_rate_and_are_compared_and_one_who_is_erased_is_not(split: Split) -> None:
    await split.weigh(50)
    async with gateway(split.path, memory=split.door.beside.channel) as admin:
        await admin.uses(split.version)
        start = variants_pb2.StartExperiment(id="voices", stage="tts", primary="rating")
        await admin.stub.ChangeVariants(variants_pb2.ChangeVariantsRequest(start=start))
        live = split.door.cast.table
        assert live
        await until(lambda: live.current.experiment is not None)
        drawn: dict[str, list[str]] = {"default": [], "b": []}
        for number in range(8):
            person = f"user{number}"
            variant, experiment, _ = await split.say(f"talk{number}", person)
            assert (await split.say(f"more{number}", person))[:2] == (variant, experiment) == (variant, "voices")
            await split.rate(person, 4 if variant == "b" else 2)
            drawn[variant].append(person)
        told = await admin.stub.CompareVariants(variants_pb2.CompareVariantsRequest())
        assert {each.name: (each.users, each.turns, each.conversations) for each in told.variants} == {
            name: (len(users), 2 * len(users), 2 * len(users)) for name, users in drawn.items()
        }
        means = {each.name: each.means[0].estimate.value for each in told.variants if each.users}
        assert means == {name: 4 if name == "b" else 2 for name, users in drawn.items() if users}
        gone = drawn["b"] or drawn["default"]
        await split.door.memory.erasure.ErasePerson(
            erasure_pb2.ErasePersonRequest(tenant=TENANT, person=gone[0], asked_by=gone[0])
        )
        told = await admin.stub.CompareVariants(variants_pb2.CompareVariantsRequest())
        assert sum(each.users for each in told.variants) == 7


async def test_the_wait_for_the_first_sound_is_summed_up(split: Split) -> None:
    await split.weigh(100, phase(1))
    await split.say()
    request = turns_pb2.SummarizeUsersRequest(stage="tts", experiment=TRIAL.id)
    ((user,),) = [part.users async for part in split.door.beside.turns.SummarizeUsers(request)]
    total = user.timings_s["first_sound"]
    assert total.count == 1
    assert 0 < total.sum < user.timings_s["turn"].sum
