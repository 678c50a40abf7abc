"""A TCP proxy that loses answers, refuses connections, hangs and delays: the network before a database."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

Predicate = Callable[[bytes], bool]

PIECE_BYTES = 2**16
REQUEST_BYTES = 2**20
"""The end of a request that predicates get."""

# Messages of PostgreSQL's protocol: Query and Parse from the client, ReadyForQuery from the server.
_COMMIT = re.compile(rb"(?:Q\x00.{3}|P\x00.{3}[^\x00]*\x00)\s*(?:COMMIT|END)\b", re.DOTALL | re.IGNORECASE)
_READY = re.compile(rb"Z\x00\x00\x00\x05[ITE]\Z")


def commit(request: bytes) -> bool:
    """Tell whether a PostgreSQL client asks for a COMMIT."""
    return bool(_COMMIT.search(request))


def ready(answer: bytes) -> bool:
    """Tell whether a PostgreSQL server has answered everything."""
    return bool(_READY.search(answer))


@dataclass
class Cut:
    """A planned loss of connections.

    Attributes:
        request: Chooses the requests: gets what the client has sent since the server's last answer.
        answered: Tells from the server's bytes when the answer is whole; None loses the request itself.
        remaining: Number of connections still to be cut.
    """

    request: Predicate
    answered: Predicate | None
    remaining: int
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        """Return when the first connection was cut."""
        await self._done.wait()

    def mark(self) -> None:
        """Note that a connection was cut."""
        self._done.set()


class TcpProxy:
    """Forwards connections to a server; an asynchronous context manager.

    Args:
        host: Of the server.
        port: Of the server.

    Attributes:
        delay_s: Time that each piece of an answer is held back.
    """

    host = "127.0.0.1"

    def __init__(self, host: str, port: int) -> None:
        self.delay_s = 0.0
        self._target = (host, port)
        self._port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._cuts: list[Cut] = []
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def __aenter__(self) -> "TcpProxy":
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    @property
    def port(self) -> int:
        """The proxy's port; the same after `refuse` and `accept`."""
        return self._port

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    def url(self, url: str) -> str:
        """Return the server's URL with the proxy's host and port."""
        parts = urlsplit(url)
        credentials, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{credentials}{at}{self.host}:{self.port}"))

    def cut_after(self, request: Predicate, *, answered: Predicate = ready, times: int = 1) -> Cut:
        """Lose the answers to the next requests: the server gets and answers them, then the connection is dropped.

        Args:
            request: Chooses the requests: gets what the client has sent since the server's last answer.
            answered: Tells from the server's bytes when the answer is whole.
            times: Number of connections.
        """
        return self._plan(Cut(request, answered, times))

    def cut_before(self, request: Predicate, *, times: int = 1) -> Cut:
        """Lose the next requests: the connection is dropped before the server gets them."""
        return self._plan(Cut(request, None, times))

    def pause(self) -> None:
        """Forward nothing in either direction; connections stay open, new ones are accepted."""
        self._flowing.clear()

    def resume(self) -> None:
        """End `pause`."""
        self._flowing.set()

    async def pause_for(self, duration_s: float) -> None:
        """Pause for so long."""
        self.pause()
        await asyncio.sleep(duration_s)
        self.resume()

    async def drop(self) -> None:
        """Drop all connections."""
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def refuse(self) -> None:
        """Refuse new connections, and drop those that are open."""
        if self._server:
            self._server.close()
            await self.drop()
            await self._server.wait_closed()
            self._server = None

    async def accept(self) -> None:
        """Accept connections."""
        if not self._server:
            self._server = await asyncio.start_server(self._connected, self.host, self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    def _plan(self, cut: Cut) -> Cut:
        self._cuts.append(cut)
        return cut

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until one side ends it or a cut is due."""
        writers = [writer]
        dropped = True
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            writers.append(server_writer)
            connection = _Connection(self, reader, writer, server_reader, server_writer)
            dropped = await connection.forward()
        except OSError:
            pass  # The server is down, or one side has reset the connection.
        finally:
            for each in writers:
                if dropped:
                    each.transport.abort()
                else:
                    each.close()
            for each in writers:
                with contextlib.suppress(OSError):
                    await each.wait_closed()

    def _due(self, request: bytes) -> Cut | None:
        for cut in self._cuts:
            if cut.remaining and cut.request(request):
                cut.remaining -= 1
                return cut
        return None

    async def _pass(self, piece: bytes, writer: asyncio.StreamWriter, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await self._flowing.wait()
        writer.write(piece)
        await writer.drain()


class _Connection:
    """One forwarded connection."""

    def __init__(
        self,
        proxy: TcpProxy,
        client_reader: asyncio.StreamReader,
        client_writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._client_reader, self._client_writer = client_reader, client_writer
        self._server_reader, self._server_writer = server_reader, server_writer
        self._request = b""
        self._cut: Cut | None = None

    async def forward(self) -> bool:
        """Forward in both directions; return whether the connection is to be dropped."""
        directions = [asyncio.create_task(self._requests()), asyncio.create_task(self._answers())]
        try:
            done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            return any(task.result() for task in done)
        finally:
            for task in directions:
                task.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _requests(self) -> bool:
        while piece := await self._client_reader.read(PIECE_BYTES):
            self._request = (self._request + piece)[-REQUEST_BYTES:]
            if not self._cut and (cut := self._proxy._due(self._request)):
                if not cut.answered:
                    cut.mark()
                    return True
                self._cut = cut
            await self._proxy._pass(piece, self._server_writer, 0)
        return False

    async def _answers(self) -> bool:
        lost = b""
        while piece := await self._server_reader.read(PIECE_BYTES):
            if self._cut:
                lost += piece
                if self._cut.answered and self._cut.answered(lost):
                    self._cut.mark()
                    return True
                continue
            self._request = b""
            await self._proxy._pass(piece, self._client_writer, self._proxy.delay_s)
        return False
