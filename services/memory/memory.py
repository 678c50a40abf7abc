"""The whole memory: its repositories over one database and one object storage."""

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from services.common.inference import InferenceQueue
from services.memory.archive import Archive
from services.memory.blobs import Blobs, FolderBlobs, Media
from services.memory.database import Database
from services.memory.domain import TENANT_READY, NewIdentity
from services.memory.embedding import Embedder, Embedding
from services.memory.recall import Recaller
from services.memory.repositories.conversations import Conversations
from services.memory.repositories.erasure import Erasure
from services.memory.repositories.examples import Examples
from services.memory.repositories.identities import Identities
from services.memory.repositories.references import References
from services.memory.repositories.research import Research
from services.memory.repositories.retention import Retentions
from services.memory.s3 import S3Blobs
from services.memory.search import Searcher
from services.memory.settings import DatabaseSettings, MemorySettings
from services.memory.storage import Storage


class Memory:
    """Everything that can be asked of the memory.

    Args:
        settings: Where it is kept.
        embedder: The sentence embedding.
        ready: The identities that come with the project.
        clock: Unix time.
    """

    def __init__(
        self,
        settings: MemorySettings,
        embedder: Embedder,
        ready: Sequence[NewIdentity] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        keep_s = settings.cache_keep_s
        self._queue = InferenceQueue("memory", embedder.model, settings.queue_waiting_max)
        self._ready = ready
        self.storage = storage = Storage(Database(settings), Media(blobs_of(settings)), clock)
        self.backend = f"{storage.database.engine.dialect.name}, {'s3' if settings.s3_endpoint else 'folder'}"
        self.embedding = Embedding(embedder, self._queue, keep_s)
        self.searcher = Searcher(settings.cache_bytes, keep_s, self.embedding.digest)
        self.identities = Identities(storage, keep_s)
        self.references = References(storage, self.identities, settings.cache_bytes, keep_s)
        self.conversations = Conversations(storage, self.identities, self.embedding, self.searcher)
        self.examples = Examples(storage, self.identities, self.embedding, self.searcher)
        self.recaller = Recaller(storage, self.identities, self.references, keep_s)
        self.retentions = Retentions(storage)
        self.erasure = Erasure(storage, [each.id for each in ready], keep_s, self._drop)
        self.archive = Archive(storage, self.identities, self.conversations, self.examples, self.erasure.drain)
        key_file = settings.pseudonym_key_file
        self.research = Research(storage, self.identities, self.conversations, lambda: _key(key_file))

    @property
    def problem(self) -> str:
        """Why database or object storage did not answer when they were asked last; empty when both did."""
        return self.storage.database.problem or self.storage.media.problem

    async def add_ready(self) -> None:
        """Add the identities that come with the project."""
        await self.identities.add_ready(TENANT_READY, self._ready)

    def tidy(self) -> None:
        """Drop what was cached too long ago; call it every few seconds, for nobody may ask."""
        self.embedding.cache.expire()
        self.searcher.cache.expire()
        self.identities.cache.expire()
        self.references.cache.expire()
        self.recaller.identities.expire()
        self.recaller.turns.expire()

    async def close(self) -> None:
        """Close the connections; what is kept stays."""
        self._queue.close()
        self.storage.media.close()
        await self.storage.database.close()

    def _drop(self, ids: Collection[str]) -> None:
        """Drop what is cached of identities and users with these ids."""
        self.searcher.drop("turns", ids)
        self.recaller.drop(ids)
        for key in [key for key in self.identities.cache if key[0] in ids]:
            self.identities.cache.pop(key, None)
        for name in [name for name in self.references.cache if name[0] in ids]:
            self.references.cache.pop(name, None)
        self.embedding.cache.clear()


def blobs_of(settings: DatabaseSettings) -> Blobs:
    """Return the object storage of the settings."""
    return S3Blobs(settings) if settings.s3_endpoint else FolderBlobs(settings.folder / "media")


def _key(file: Path | None) -> bytes:
    """Return the key for pseudonyms; empty without a file."""
    return file.read_bytes().strip() if file else b""
