"""A TLS terminator before a PostgreSQL server, and certificates for tests."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "contract" / "tls"
CERTIFICATE = FOLDER / "certificate.pem"
"""Certifies itself for the address 127.0.0.1, until 2126."""

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


def context() -> ssl.SSLContext:
    """Return a server's context with this certificate."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(CERTIFICATE, FOLDER / "key.pem")
    return found


@contextlib.asynccontextmanager
async def terminator(host: str, port: int) -> AsyncIterator[int]:
    """Accept PostgreSQL clients that ask for TLS, and forward what they say; yields the port."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        connections.add(task)
        task.add_done_callback(connections.discard)
        server_writer: asyncio.StreamWriter | None = None
        try:
            if await reader.readexactly(len(SSL_REQUEST)) != SSL_REQUEST:
                return
            writer.write(b"S")
            await writer.drain()
            await writer.start_tls(context())
            server_reader, server_writer = await asyncio.open_connection(host, port)
            copies = [
                asyncio.ensure_future(_copy(reader, server_writer)),
                asyncio.ensure_future(_copy(server_reader, writer)),
            ]
            try:
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for copy in copies:
                    copy.cancel()
                await asyncio.gather(*copies, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The client trusts nobody here, or has left.
        finally:
            for each in (writer, server_writer):
                if each:
                    each.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(2**16):
        writer.write(piece)
        await writer.drain()
