"""Generator of load: callers in a closed loop, arrivals in an open one."""

import asyncio
import math
import random
import secrets
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from benchmarks.load.caller import Caller
from benchmarks.load.messages import Message
from benchmarks.load.profile import Profile
from benchmarks.load.result import Result
from benchmarks.load.turn import Turn

PAUSE_S = 1.0
"""Pause of a user after a turn without a reply, unless the gateway asked for a longer one."""


class Maker(Protocol):
    """Makes turns; a caller of a gateway is one."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def make(self, turn: Turn, message: Message, conversation: str) -> None:
        """Make a turn in a conversation, and fill its record."""


def _ignore(_: Turn) -> None:
    pass


class Load:
    """One run of a profile.

    Args:
        profile: What is run.
        on_turn: Called with each turn that has ended.
        caller: Makes the turns; without it, a caller of the profile's gateway does.

    Raises:
        OSError: A file of the profile's TLS cannot be read.
        ValueError: One is missing beside the others, or holds nothing usable.
    """

    def __init__(
        self,
        profile: Profile,
        on_turn: Callable[[Turn], None] = _ignore,
        caller: Maker | None = None,
    ) -> None:
        self.profile = profile
        self.name = profile.name or f"load-{secrets.token_hex(4)}"
        self._on_turn = on_turn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun_s = 0.0
        self._ended_s: float | None = None
        self._caller: Maker = caller or Caller(profile, self.now_s)
        self._draw = random.Random(f"{profile.seed} messages")
        self._turns: list[Turn] = []
        self._talks: dict[int, str] = {}
        self._answers: Counter[str] = Counter()
        self._talks_begun = 0
        self._not_sent_at_s: list[float] = []
        self._is_stopped = False
        self._group = asyncio.TaskGroup()
        self._driving: asyncio.Task[None] | None = None

    def now_s(self) -> float:
        """Return the time since the begin of the run, by the clock of its event loop."""
        return self._loop.time() - self._begun_s if self._loop else 0.0

    @property
    def running(self) -> int:
        """Number of turns that are open."""
        return sum(turn.ended_at_s is None for turn in self._turns)

    async def run(self) -> Result:
        """Run the profile; returns once the last turn has ended. When this is cancelled, `result` has what was."""
        async with self._caller:
            self._loop = asyncio.get_running_loop()
            self._begun_s = self._loop.time()
            try:
                async with self._group:
                    self._driving = self._group.create_task(self._drive())
            finally:
                self._ended_s = self.now_s()
        return self.result()

    def stop(self) -> None:
        """Send no more turns; those that run are waited for."""
        self._is_stopped = True
        if self._driving:
            self._driving.cancel()

    def result(self) -> Result:
        """Return what was measured so far."""
        elapsed_s = self.now_s() if self._ended_s is None else self._ended_s
        return Result(self.profile, self.name, tuple(self._turns), tuple(self._not_sent_at_s), elapsed_s)

    async def _drive(self) -> None:
        if self._is_stopped:
            return
        if self.profile.is_open:
            await self._arrive()
            return
        async with asyncio.TaskGroup() as users:
            for number in range(1, math.ceil(self.profile.ramp.highest) + 1):
                users.create_task(self._use(number))

    async def _use(self, number: int) -> None:
        """Make turns one after the other, while at least so many users are wanted."""
        profile = self.profile
        draw = random.Random(f"{profile.seed} user {number}")
        due_s = 0.0
        # A ramp's users come and go at half of each step, so that their mean is the ramp's.
        while (at_s := profile.ramp.reaches(number - 0.5, due_s)) is not None:
            await self._until(at_s)
            if self._is_stopped:  # by another user, at this very moment
                return
            turn, making = self._begin(at_s, self._conversation(number))
            await asyncio.wait({making})
            think_s = profile.think_s
            if think_s and profile.think == "exponential":
                think_s = draw.expovariate(1 / think_s)
            pause_s = max(PAUSE_S, turn.retry_after_s) if turn.status != "OK" else 0.0
            due_s = self.now_s() + max(pause_s, think_s)

    async def _arrive(self) -> None:
        """Make turns when they are due, whatever became of earlier ones."""
        free: deque[int] = deque()
        callers = open_turns = 0

        def leave(number: int, _: object) -> None:
            nonlocal open_turns
            open_turns -= 1
            free.append(number)

        for due_s in self.profile.ramp.arrivals(random.Random(f"{self.profile.seed} arrivals")):
            await self._until(due_s)
            if open_turns >= self.profile.open_max:
                self._not_sent_at_s.append(due_s)
                continue
            if free:
                number = free.popleft()
            else:
                callers += 1
                number = callers
            open_turns += 1
            _, making = self._begin(due_s, self._conversation(number))
            making.add_done_callback(partial(leave, number))

    async def _until(self, at_s: float) -> None:
        # Also when the time is over: others get their turn.
        await asyncio.sleep(max(0.0, at_s - self.now_s()))

    def _conversation(self, number: int) -> str:
        """Return the conversation of a caller's next turn; empty for none."""
        if not self.profile.conversations:
            return ""
        if not self.profile.conversation_turns:
            return f"{self.name}-{number}"
        # Numbered for all callers together: whoever is faster, the first conversations have the same names.
        if self._answers[self._talks.get(number, "")] >= self.profile.conversation_turns or number not in self._talks:
            self._talks_begun += 1
            self._talks[number] = f"{self.name}-{self._talks_begun}"
        return self._talks[number]

    def _begin(self, due_s: float, conversation: str) -> tuple[Turn, asyncio.Task[None]]:
        """Begin a turn that was due at a time."""
        message = self.profile.mix.draw(self._draw)
        turn = Turn(message.kind, due_s, self.now_s(), conversation=conversation)
        self._turns.append(turn)
        making = self._group.create_task(self._turn(turn, message, conversation))
        if len(self._turns) == self.profile.turns_max:
            self.stop()
        return turn, making

    async def _turn(self, turn: Turn, message: Message, conversation: str) -> None:
        turn.sent_at_s = self.now_s()
        await self._caller.make(turn, message, conversation)
        self._answers[conversation] += turn.status == "OK"
        self._on_turn(turn)


async def run(profile: Profile) -> Result:
    """Run a profile; returns once its last turn has ended.

    Raises:
        OSError: A file of the profile's TLS cannot be read.
        ValueError: One is missing beside the others, or holds nothing usable.
    """
    return await Load(profile).run()
