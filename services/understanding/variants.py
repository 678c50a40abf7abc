"""Variants of the voters and of the writer: the gateway chooses, and the panel calls those that it names."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e3rg.understanding.v1 import understanding_pb2 as pb
from emotions import Wheel
from services.common.errors import NotReady
from services.common.metrics import VARIANT
from services.common.variants.channels import VariantChannels
from services.common.variants.live import LiveTable
from services.common.variants.table import State, Table
from services.understanding import metrics
from services.understanding.domain import Vote
from services.understanding.panel import Introduction, Voter
from services.understanding.voters import Answer, Message, MllmVoter

log = logging.getLogger(__name__)

WRITER = "writer"
VERSION_S = 2.0
"""Time that a message waits for the table of variants that its gateway has already."""


def stage_of(voter: str) -> str:
    """Return the stage of a voter in the table of variants."""
    return f"mllm-{voter}"


async def take_any(table: Table) -> None:
    """Take each table that can be read: the panel never chooses, and the gateway checks before it does."""


class Clients:
    """Clients of all variants.

    Args:
        channels: Channels to the variants of each voter's stage and of "writer".
        voters: Names of the voters, in order of priority.
        writer: Name of the voter that writes the replies.
        wheel: The panel's emotion wheel.
    """

    def __init__(self, channels: VariantChannels, voters: Sequence[str], writer: str, wheel: Wheel) -> None:
        self.channels, self.voters, self.wheel = channels, tuple(voters), wheel
        self.writer_name = writer

    def voter(self, table: Table, name: str, variant: str) -> MllmVoter:
        """Return a voter's variant of a table.

        Raises:
            KeyError: The table has no such variant.
        """
        return MllmVoter(name, self.channels.of(table, stage_of(name), variant), self.wheel, variant)

    def default(self, name: str) -> MllmVoter:
        """Return a voter's variant behind the address of the settings."""
        return self.voter(Table(), name, VARIANT)

    def writer(self, table: Table, variant: str) -> MllmVoter:
        """Return the writer's variant of a table.

        Raises:
            KeyError: The table has no such variant.
        """
        return MllmVoter(self.writer_name, self.channels.of(table, WRITER, variant), self.wheel, variant)

    def prepare(self, tables: Sequence[Table]) -> None:
        """Open channels to the variants of the last table; close those that none of the tables needs."""
        self.channels.open(tables[-1])
        self.channels.close_others(tables)
        metrics.show_voters((name, variant) for name in self.voters for variant in _called(tables[-1], stage_of(name)))

    def seats(self, table: Table) -> list[MllmVoter]:
        """Return all variants of the voters that may be called."""
        return [self.voter(table, name, each) for name in self.voters for each in _called(table, stage_of(name))]

    def writers(self, table: Table) -> list[MllmVoter]:
        """Return all variants of the writer that may be called; none where its traffic is not split."""
        return [self.writer(table, each) for each in _called(table, WRITER)] if WRITER in table.stages else []


@dataclass(frozen=True)
class Named:
    """Variants for one message.

    Attributes:
        voters: One of each voter, in order of priority.
        shadows: Those that vote too, and whose votes do not count.
        skipped: Shadows that cannot be asked, as voter and variant.
        notes: Variants that vote in the place of others.
        by_caller: Voters whose variant the caller of the turn names.
    """

    voters: tuple[Voter[Message, Answer], ...]
    shadows: tuple[MllmVoter, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    by_caller: frozenset[str]


class Variants:
    """Finds what a gateway names, in the version of the table from which it chose.

    Args:
        live: The panel's table.
        clients: Clients of all variants.
    """

    def __init__(self, live: LiveTable, clients: Clients) -> None:
        self.clients, self._live = clients, live
        self._missed = 0
        """Version that did not come in time: no further message waits for it."""

    @property
    def table(self) -> Table:
        """The panel's table now."""
        return self._live.current

    async def named(self, variants: Sequence[pb.VoterVariant], version: int) -> Named:
        """Return the voters for a message, once the version is known or was waited for.

        Args:
            variants: The gateway's choice; a voter that is not in it votes with its control.
            version: Version of the table that the choice was made from; 0 for none.
        """
        tables = await self._tables(version)
        choice = {each.voter: each for each in variants}
        voters, notes = [], []
        for name in self.clients.voters:
            voter, note = self._voter(tables, name, choice[name].variant if name in choice else "")
            voters.append(voter)
            notes += [note] if note else []
        shadows, skipped = [], []
        for voter in voters:
            for variant in choice[voter.name].shadows if voter.name in choice else ():
                known = variant in tables.table.stage(stage_of(voter.name)).variants
                shadow = self.clients.voter(tables.table, voter.name, variant) if known else None
                if not shadow or shadow.problem:
                    skipped.append((voter.name, variant))
                elif variant != voter.variant:
                    shadows.append(shadow)
        by_caller = frozenset(each.voter for each in variants if each.named)
        return Named(tuple(voters), tuple(shadows), tuple(skipped), tuple(notes), by_caller)

    async def writer(self, variant: str, version: int) -> MllmVoter:
        """Return the writer for a reply, once the version is known or was waited for.

        Args:
            variant: The gateway's choice; empty for the control.
            version: Version of the table that the choice was made from; 0 for none.

        Raises:
            NotReady: The variant is not known here, or no replica of it takes calls. The gateway may name the control.
        """
        tables = await self._tables(version)
        if not variant:
            return self.clients.writer(tables.exact, tables.exact.stage(WRITER).control)
        if variant not in tables.table.stage(WRITER).variants:
            raise NotReady(tables.unknown(WRITER, variant))
        writer = self.clients.writer(tables.table, variant)
        if writer.problem and variant != tables.table.stage(WRITER).control:
            raise NotReady(f"{WRITER}: no replica of variant {variant} takes calls: {writer.problem}")
        return writer

    def _voter(self, tables: "_Tables", name: str, variant: str) -> tuple[Voter[Message, Answer], str]:
        """Return the variant that votes, and a note where it is not the one that is named."""
        stage = stage_of(name)
        if not variant:
            return self.clients.voter(tables.exact, name, tables.exact.stage(stage).control), ""
        if variant not in tables.table.stage(stage).variants:
            return _Unknown(name, variant, tables.unknown(name, variant)), ""
        voter, control = self.clients.voter(tables.table, name, variant), tables.table.stage(stage).control
        if variant == control or not voter.problem:
            return voter, ""
        note = f"{stage}: {control!r} votes instead of {variant!r}: no replica of it takes calls"
        return self.clients.voter(tables.table, name, control), note

    async def _tables(self, version: int) -> "_Tables":
        if not version:
            return _Tables(Table(), Table(), version)
        exact = await self._live.version(version, 0 if version == self._missed else VERSION_S)
        if exact:
            return _Tables(exact, exact, version)
        if version != self._missed:
            self._missed = version
            extra = {"version": version, "current": self.table.version, "why": self._live.problem}
            log.warning("a gateway chose from a table of variants that is not known here", extra=extra)
        return _Tables(Table(), self.table, version)


@dataclass(frozen=True)
class _Tables:
    """Tables for one call.

    Attributes:
        exact: The gateway's one, for what it does not name; without variants while it is not known.
        table: The gateway's one, or the panel's own while that is not known.
        version: Version of the gateway's.
    """

    exact: Table
    table: Table
    version: int

    def unknown(self, name: str, variant: str) -> str:
        """Return the words for a variant that is not in the table."""
        mine = f"the panel's table, version {self.table.version}"
        return f"variant {variant} of {name} is not in {mine}; the gateway chose from version {self.version}"


@dataclass
class _Unknown:
    """A voter's variant that this panel does not know: no other one votes in its place."""

    name: str
    variant: str
    problem: str

    def introduce(self) -> Introduction[Answer] | None:
        return None

    async def vote(self, message: Message, timeout_s: float) -> Vote[Answer]:
        raise NotReady(self.problem)


def _called(table: Table, stage: str) -> Iterator[str]:
    """Yield the variants of a stage that may be called."""
    return (name for name, each in table.stage(stage).variants.items() if each.state is not State.OFF)
