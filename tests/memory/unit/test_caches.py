"""Caches of a replica: bounded in size and time, and without erased data."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.memory import REFERENCES_KEEP_S
from services.common.errors import NotFound
from services.memory import upkeep
from services.memory.domain import (
    BANK_DEFAULT,
    ConversationKey,
    File,
    Grant,
    NewIdentity,
    Profile,
    ReferenceKind,
    Sought,
)
from services.memory.domain import Turn as Said
from services.memory.memory import Memory
from services.memory.settings import MemorySettings
from services.memory.upkeep import Upkeep
from services.tts import __main__ as tts
from services.tts.domain import VOICE_KEEP_S
from services.video import __main__ as video
from services.video.domain import RIG_KEEP_S
from tests.fakes import PATIENCE_S
from tests.support.memory import TENANT, USES, Clock, WordEmbedder

FILES = {
    ReferenceKind.PORTRAIT: b"\x89PNG\r\n\x1a\n" + bytes(2000),
    ReferenceKind.VOICE: b"RIFF\0\0\0\0WAVE" + bytes(2000),
    ReferenceKind.FILM: b"\0\0\0\x18ftypisom" + bytes(5000),
}


@asynccontextmanager
async def opened(folder: Path, clock: Callable[[], float] | None = None, **changes: Any) -> AsyncIterator[Memory]:
    """A memory that has just been used: it holds something of everything."""
    settings = MemorySettings(folder=folder / "memory", **changes)
    memory = Memory(settings, WordEmbedder(), **({"clock": clock} if clock else {}))  # type: ignore[arg-type]
    try:
        await Upkeep(settings, memory).open_once()
        profile = Profile("Ada", "young", "female", "mid", "en", "Likes engines.", "warm")
        grants = tuple(Grant(use, "the test", "2026-01-31", "tests", "") for use in USES)
        files = tuple(File(kind, content) for kind, content in FILES.items())
        added = await memory.identities.add(TENANT, NewIdentity("ada", profile, grants, files, BANK_DEFAULT))
        said = Said("turn-1", "engines", "sad", "so", "caring")
        talk = ConversationKey("ada", "bob", "talk")
        await memory.conversations.remember(TENANT, talk, said)
        await memory.retrieval.search(TENANT, replace(talk, conversation=""), Sought("engines"))
        await memory.recaller.recall(TENANT, talk, 4)
        for reference in added.references:
            await memory.recaller.reference(TENANT, "ada", reference.digest)
        yield memory
    finally:
        await memory.close()


def held(memory: Memory) -> dict[str, int]:
    caches: dict[str, Sized] = {
        "vectors": memory.embedding.cache,
        "matrices": memory.searcher.cache,
        "versions": memory.identities.cache,
        "files": memory.references.cache,
        "identities": memory.recaller.identities,
        "turns": memory.recaller.turns,
    }
    return {name: len(cache) for name, cache in caches.items() if len(cache)}


async def test_all_is_gone_some_time_after_its_last_use_though_nobody_asks(tmp_path: Path) -> None:
    async with opened(tmp_path, cache_keep_s=1) as memory:
        assert set(held(memory)) == {"vectors", "matrices", "versions", "files", "identities", "turns"}
        async with asyncio.timeout(PATIENCE_S):
            while held(memory):
                await asyncio.sleep(0.05)
                memory.tidy()


async def test_nothing_of_what_is_erased_is_held_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        identity = await memory.identities.get(TENANT, "ada")
        await memory.erasure.identity(TENANT, "ada", "the test")
        assert held(memory) == {}
        with pytest.raises(NotFound):
            await memory.recaller.reference(TENANT, "ada", identity.references[0].digest)


async def test_files_are_held_in_their_room_and_what_has_none_is_read_each_time(tmp_path: Path) -> None:
    async with opened(tmp_path, cache_bytes=4500) as memory:
        assert memory.references.cache.currsize <= 4500
        identity = await memory.identities.get(TENANT, "ada")
        for reference in identity.references:
            content = await memory.recaller.reference(TENANT, "ada", reference.digest)
            assert content == FILES[reference.kind]
        assert held(memory)["files"] == 2


@pytest.mark.parametrize("keep_s", [1.0, 60.0, 3600.0])
async def test_nothing_is_held_for_longer_than_the_record_of_its_erasure_says(tmp_path: Path, keep_s: float) -> None:
    async with opened(tmp_path, Clock(), cache_keep_s=keep_s) as memory:
        audit = await memory.erasure.identity(TENANT, "ada", "the test")
    # So long a memory whose database is away lends what was erased meanwhile; whoever borrows it holds it from then on.
    lent_s = keep_s
    gone_after_s = {
        "memory": keep_s + upkeep.TIDY_S,
        "orchestrator": lent_s + REFERENCES_KEEP_S,
        "tts": lent_s + VOICE_KEEP_S + tts.TIDY_S,
        "video": lent_s + RIG_KEEP_S + video.TIDY_S,
    }
    said_s = audit.caches_gone_by_s - audit.done_at_s
    assert {name: gone_s for name, gone_s in gone_after_s.items() if gone_s > said_s} == {}
