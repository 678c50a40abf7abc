"""Description of a load."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.load.errors import ProfileError
from benchmarks.load.messages import Mix
from benchmarks.load.ramp import Ramp, Stage
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb

OUTPUTS: Mapping[str, pb.Output] = {"text": pb.OUTPUT_TEXT, "audio": pb.OUTPUT_AUDIO, "video": pb.OUTPUT_VIDEO}
THINKS = ("exponential", "fixed")


@dataclass(frozen=True)
class Profile:
    """A load on a gateway: closed loop with `users`, open loop with `rate`.

    Attributes:
        address: The gateway's, as host:port.
        users: Callers at the beginning, each of whom makes turns one after the other.
        rate: Turns a second at the beginning, which arrive whatever became of earlier ones.
        stages: Ramps to other numbers of users, or other rates.
        duration_s: Time for which the level is held after the last stage; 0 ends there.
        turns_max: Number of turns after which no more are sent; 0 for no limit.
        think_s: Mean time of a user between the end of a turn and the next.
        think: Distribution of that time, `exponential` or `fixed`.
        open_max: Most turns at once in an open loop; those beyond are counted and not sent.
        mix: What is said.
        output: How much of a reply is wanted: text, audio or video.
        identity: Who answers.
        tenant: Whose identity that is.
        deadline_s: Deadline of each turn, from its sending.
        conversations: Whether turns are kept in conversations, which nobody shares with another caller at once.
        conversation_turns: Answers after which a caller begins another conversation; 0 for never.
        keep_clips: Whether the sound and the video of kept turns are kept too.
        name: Name of the run, with which its conversations begin; drawn if empty.
        seed: Same seed, same arrivals, messages and thinking times.
        connections: Number of connections at the beginning; more are made when each has many turns open.
        ca_file: PEM file of the authority that certifies the gateway: with it, connections are TLS.
        certificate_file: PEM file of the certificate that is shown to a gateway that demands one.
        key_file: PEM file of its private key.

    Raises:
        ProfileError: A field is wrong.
    """

    address: str
    users: int | None = None
    rate: float | None = None
    stages: tuple[Stage, ...] = ()
    duration_s: float = 60.0
    turns_max: int = 0
    think_s: float = 0.0
    think: str = "exponential"
    open_max: int = 256
    mix: Mix = field(default_factory=Mix)
    output: str = "video"
    identity: str = "anna"
    tenant: str = "default"
    deadline_s: float = 120.0
    conversations: bool = False
    conversation_turns: int = 0
    keep_clips: bool = False
    name: str = ""
    seed: int = 0
    connections: int = 4
    ca_file: str | Path = ""
    certificate_file: str | Path = ""
    key_file: str | Path = ""

    def __post_init__(self) -> None:
        self._check_level()
        for name, value, least in (
            ("duration_s", self.duration_s, 0),
            ("turns_max", self.turns_max, 0),
            ("conversation_turns", self.conversation_turns, 0),
            ("think_s", self.think_s, 0),
            ("open_max", self.open_max, 1),
            ("connections", self.connections, 1),
        ):
            if not least <= value < math.inf:
                raise ProfileError(name, f"{value:g}; give {least} or more")
        if not 0 < self.deadline_s < math.inf:
            raise ProfileError("deadline_s", f"{self.deadline_s:g}; give more than 0")
        for name, text, right in (("think", self.think, THINKS), ("output", self.output, tuple(OUTPUTS))):
            if text not in right:
                raise ProfileError(name, f"{text!r}; use one of: {', '.join(right)}")
        for name, wanted in (("conversation_turns", self.conversation_turns), ("keep_clips", self.keep_clips)):
            if wanted and not self.conversations:
                raise ProfileError(name, f"{wanted:d}, but nothing is kept; ask for conversations too")
        if not self.ramp.duration_s:
            raise ProfileError("duration_s", "0, and there are no stages; give more than 0")
        if not self.ramp.highest:
            raise ProfileError("rate" if self.is_open else "users", "0 all the time; give more than 0, or stages")

    def _check_level(self) -> None:
        name = "rate" if self.is_open else "users"
        if self.users is not None and self.rate is not None:
            raise ProfileError("rate", f"{self.rate:g} beside {self.users:g} users; give one of them")
        if not 0 <= (start := self.ramp.start) < math.inf:
            raise ProfileError(name, f"{start:g}; give 0 or more")
        for stage in self.stages:
            if not (0 <= stage.duration_s < math.inf and 0 <= stage.level < math.inf):
                raise ProfileError("stages", f"{stage.duration_s:g} s to {stage.level:g}; give 0 or more of both")
        for level in () if self.is_open else (start, *(stage.level for stage in self.stages)):
            if level != int(level):
                raise ProfileError(name, f"{level:g}; give a whole number of users")

    @property
    def is_open(self) -> bool:
        """Whether turns arrive whatever became of earlier ones."""
        return self.rate is not None

    @cached_property
    def ramp(self) -> Ramp:
        """The number of users, or turns a second, over time."""
        users = 1 if self.users is None else self.users
        start = float(users if self.rate is None else self.rate)
        last = self.stages[-1].level if self.stages else start
        held = (Stage(self.duration_s, last),) if self.duration_s else ()
        return Ramp(start, self.stages + held)

    @property
    def summary(self) -> str:
        """The load in a line."""
        name = "turns/s" if self.is_open else "users"
        levels = [f"{self.ramp.start:g}", *(f"{each.level:g} by {each.duration_s:g} s later" for each in self.stages)]
        held = f", then {self.duration_s:g} s" if self.duration_s else ""
        return f"{'open' if self.is_open else 'closed'} loop, {name} {', '.join(levels)}{held}"

    def plain(self) -> dict[str, Any]:
        """Return the parameters for JSON; of files their names and sizes."""
        found = asdict(self)
        found["mix"] = {kind: self.mix.share(kind) for kind in self.mix.kinds}
        found["messages"] = [
            {"kind": each.kind, "text": each.text, "file": each.name, "size_bytes": len(each.content)}
            for each in self.mix.messages
        ]
        return {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}
