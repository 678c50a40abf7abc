"""Live table of variants: taken when it changes and is valid, else refused with the reason."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from prometheus_client import Counter, Gauge

from services.common.errors import ServiceError
from services.common.variants.overlay import Overlay, laid_over, parse_overlay
from services.common.variants.table import InvalidTable, Table, parse

log = logging.getLogger(__name__)

VERSION = Gauge("e3rg_variants_version", "Version of the table of variants that is in use.")
TAKEN = Counter("e3rg_variants_tables_total", "Tables of variants that were read.", ["outcome"])
for _outcome in ("taken", "refused"):
    TAKEN.labels(_outcome)

RECENT_MAX = 16
"""Tables before the current one that turns may still use."""
CHECK_AGAIN_S = 5.0
"""Time between two looks at a table that was refused: what it needs may have started."""


class Source(Protocol):
    """Object that holds the table's text."""

    async def read(self) -> str:
        """Return the text as it is there now; empty while there is none."""

    def texts(self) -> AsyncGenerator[str]:
        """Yield the text now and after each change."""

    async def replace(self, before: str, text: str) -> None:
        """Replace the text that is `before`.

        Raises:
            Conflict: It is another one by now.
            OSError: It cannot be written.
        """


class LiveTable:
    """The table in use.

    Args:
        source: Object that holds it; None for none: traffic is not split.
        check: Raises InvalidTable or ServiceError where a table cannot take over from the one before.
        overlay_source: Object that holds the rollbacks that lie over it; None for none.
        prepare: Opens what tables need, before the last one is checked; the others are those that turns may still use.

    Attributes:
        current: The table for new turns, with its overlay.
        overlay: The rollbacks that lie over it.
        problem: Why the text that was read last is not in use; empty when it is.
    """

    def __init__(
        self,
        source: Source | None,
        check: Callable[[Table], Awaitable[None]],
        overlay_source: Source | None = None,
        prepare: Callable[[Sequence[Table]], None] = lambda tables: None,
    ) -> None:
        self.source, self.overlay_source = source, overlay_source
        self.check, self._prepare = check, prepare
        self.current, self.overlay = Table(), Overlay()
        self.problem = ""
        self._texts: dict[Source, str] = {}
        self._recent: OrderedDict[int, Table] = OrderedDict({0: self.current})
        self._is_known = source is None
        self._news = asyncio.Event()
        self._taking: asyncio.Task[None] | None = None
        self._renewing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["LiveTable"]:
        """Follow the objects while the block runs."""
        sources = [each for each in (self.source, self.overlay_source) if self.source and each]
        following = [asyncio.create_task(self._follow(each)) for each in sources]
        try:
            yield self
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            await self._stop_taking()

    async def version(self, wanted: int, timeout_s: float) -> Table | None:
        """Return the table of a version, which may be about to come; None when it does not come in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while wanted not in self._recent:
                    await self._news.wait()
        return self._recent.get(wanted)

    async def known(self) -> None:
        """Wait until the object was read: before, a turn would forget where its conversation belongs."""
        while not self._is_known:
            await self._news.wait()

    async def changed(self) -> None:
        """Wait until a table was taken or refused."""
        await self._news.wait()

    async def _follow(self, source: Source) -> None:
        async with aclosing(source.texts()) as texts:
            async for text in texts:
                async with self._renewing:
                    await self._stop_taking()
                    self._texts[source] = text
                    # A table without the rollbacks that lie over it would serve what was taken back.
                    if not self.overlay_source or len(self._texts) == 2:
                        self._taking = asyncio.create_task(self._take())

    async def _stop_taking(self) -> None:
        if self._taking:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)

    async def _take(self) -> None:
        """Take a table as soon as it can be used."""
        while True:
            try:
                overlay = parse_overlay(self._text_of(self.overlay_source))
                table = laid_over(parse(self._text_of(self.source)), overlay)
                self._prepare([*self._recent.values(), table])
                # After a start conversations go on where they were, whatever is away at the moment.
                if self._is_known:
                    await self.check(table)
            except InvalidTable as error:
                self._refuse(str(error))
                return
            except Exception as error:  # As a file of TLS that is being replaced: a task that ends takes no table.
                is_known = self._is_known
                self._refuse(str(error) if isinstance(error, ServiceError) else f"{type(error).__name__}: {error}")
                self._is_known = is_known  # A first table that is tried again is no reason to begin without it.
                await asyncio.sleep(CHECK_AGAIN_S)
                continue
            self.overlay, self._is_known = overlay, True
            self.current, self.problem = table, ""
            self._recent[table.version] = table
            self._recent.move_to_end(table.version)
            while len(self._recent) > RECENT_MAX:
                self._recent.popitem(last=False)
            VERSION.set(table.version)
            TAKEN.labels("taken").inc()
            log.info("the table of variants is taken", extra={"version": table.version})
            self._tell()
            return

    def _text_of(self, source: Source | None) -> str:
        return self._texts.get(source, "") if source else ""

    def _refuse(self, problem: str) -> None:
        if problem != self.problem:
            log.error("the table of variants is refused; the one before stays", extra={"why": problem})
            TAKEN.labels("refused").inc()
        self.problem, self._is_known = problem, True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
