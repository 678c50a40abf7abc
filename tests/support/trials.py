"""An experiment of two voices: turns and ratings that the memory keeps, as gateways send them."""

from collections.abc import Mapping
from dataclasses import dataclass

from e3rg.memory.v1 import memory_pb2, turns_pb2
from tests.support.memory import Stubs, header, parts

TRIAL = "warm-voice"
PLACE = {"tenant": "acme", "identity": "ada"}


@dataclass
class Talkers:
    """Users who talk with an identity of a memory.

    Attributes:
        stubs: The memory.
        turns: Turns so far.
    """

    stubs: Stubs
    turns: int = 0

    async def move_in(self) -> None:
        """Add the identity."""
        await self.stubs.add(parts(header(tenant=PLACE["tenant"])))

    async def say(
        self,
        user: str,
        variant: str,
        rating: int = 0,
        phase: int = 1,
        conversation: str = "talk",
        experiment: str = TRIAL,
        first_sound_s: float = 0.0,
        scores: Mapping[str, float] | None = None,
    ) -> None:
        """Keep a turn that a variant of the voice spoke, and what is thought of it."""
        self.turns += 1
        turn = memory_pb2.Turn(
            id=f"turn-{self.turns}",
            user_text="Hello.",
            user_emotion="sad",
            reply_text="Hi.",
            reply_emotion="caring",
            variants={"tts": variant},
            experiment=experiment,
            phase=phase if experiment else 0,
            timings_s={"first_sound": first_sound_s} if first_sound_s else {},
        )
        where = PLACE | {"conversation": conversation}
        await self.stubs.memory.Remember(memory_pb2.RememberRequest(turn=turn, person=user, **where))
        of_turn = where | {"user": user, "turn": turn.id}
        if rating:
            given = turns_pb2.Rating(rater="r1", expressiveness=rating, consistency=rating, naturalness=rating)
            await self.stubs.turns.RateTurn(turns_pb2.RateTurnRequest(rating=given, **of_turn))
        if scores:
            await self.stubs.turns.PutScores(turns_pb2.PutScoresRequest(scores=scores, **of_turn))

    async def crowd(self, variant: str, users: int, middle: int, phase: int = 1) -> None:
        """Have users talk once each, whose ratings lie around a middle; they are named by the variant and a number."""
        for number in range(users):
            await self.say(f"{variant}-{phase}-{number}", variant, middle + number % 3 - 1, phase)
