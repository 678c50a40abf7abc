"""`python -m services.memory`: serves. Its commands: migrate, check, import-layout-2."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import emotions
from services.common import logs, metrics, server, start
from services.memory.consistency import check
from services.memory.database import ERRORS, translated
from services.memory.domain import NewIdentity
from services.memory.embedding import SentenceEmbedder
from services.memory.layout_2 import import_store
from services.memory.memory import Memory
from services.memory.migrate import head, is_newer, migrate, revision_of
from services.memory.ready import ready_identities
from services.memory.servicer import SERVICES, Servicer
from services.memory.settings import DatabaseSettings, MemorySettings
from services.memory.upkeep import Upkeep


async def serve(started: asyncio.Event) -> None:
    """Serve until SIGTERM: refusals until the memory is open, then what is in it."""
    settings = MemorySettings()
    logs.configure("memory", settings.log_level)
    async with _memory(settings, tuple(ready_identities())) as memory:
        upkeep = Upkeep(settings, memory)
        async with server.running(SERVICES, "memory", settings) as running:
            running.serve(Servicer(memory, upkeep.check_open).register, memory.load)
            embedding = memory.embedding
            metrics.show_model(
                "memory",
                "embedding",
                embedding.model,
                embedding.digest,
                emotions.load().digest,
                lambda: memory.load().backlog_s,
                settings.variant,
            )
            stopped = asyncio.create_task(server.stop_signal())
            working = asyncio.create_task(_work(upkeep, running, started))
            try:
                await asyncio.wait({stopped, working}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    await working  # It only ends by what is wrong.
            finally:
                stopped.cancel()
                working.cancel()
                with suppress(asyncio.CancelledError):
                    await working


@asynccontextmanager
async def _memory(settings: MemorySettings, ready: Sequence[NewIdentity] = ()) -> AsyncIterator[Memory]:
    """Hold a memory open. Commands do without the ready identities: those that are in it count."""
    memory = Memory(settings, SentenceEmbedder(settings.models_dir), ready)
    try:
        yield memory
    finally:
        await memory.close()


async def _work(upkeep: Upkeep, running: server.Running, started: asyncio.Event) -> None:
    await upkeep.open()
    await running.set_ready()
    started.set()
    await upkeep.run()


async def _migrate(arguments: argparse.Namespace) -> None:
    settings = DatabaseSettings()
    try:
        before, after = (await revision_of(settings), head()) if arguments.check else await migrate(settings)
    except ERRORS as error:
        raise translated(error)[0] from error
    if not arguments.check:
        print(f"schema: {before or 'none'} -> {after}" if before != after else f"schema: {after}, nothing to do")
        return
    is_served = before == after or is_newer(before)
    print(f"schema: {before or 'none'}, this version: {after}{'' if is_served else '; run migrate'}")
    if not is_served:
        raise SystemExit(3)


async def _check(arguments: argparse.Namespace) -> None:
    async with _memory(MemorySettings()) as memory:
        findings = await check(memory, arguments.repair, arguments.erasures)
    print("\n".join(findings.lines()))
    if findings.are_left:
        raise SystemExit(3)


async def _import(arguments: argparse.Namespace) -> None:
    settings = MemorySettings()
    async with _memory(settings) as memory:
        await Upkeep(settings, memory).open_once()
        async for line in import_store(memory, arguments.source, settings):
            print(line)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m services.memory", description="Serves the memory; settings are variables."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    migrating = commands.add_parser("migrate", help="bring the database's schema to this version")
    migrating.add_argument("--check", action="store_true", help="only tell; status 3 when there is something to do")
    migrating.set_defaults(run=_migrate)
    checking = commands.add_parser("check", help="compare database and object storage, for instance after a restore")
    checking.add_argument(
        "--repair",
        action="store_true",
        help="delete rows without objects and objects without rows, and erase again what a restore brought back",
    )
    checking.add_argument("--erasures", type=Path, metavar="FOLDER", help="a copy of the records kept elsewhere")
    checking.set_defaults(run=_check)
    importing = commands.add_parser("import-layout-2", help="bring in a store of the version before the database")
    importing.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="FOLDER|BUCKET",
        help="the old E3RG_MEMORY_FOLDER, or a bucket at E3RG_MEMORY_S3_ENDPOINT",
    )
    importing.set_defaults(run=_import)
    return parser.parse_args()


if __name__ == "__main__":
    parsed = _parsed()
    if parsed.command:
        logs.configure("memory", "WARNING")
    start.run("memory", lambda started: parsed.run(parsed) if parsed.command else serve(started))
