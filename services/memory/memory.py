"""The whole memory: its repositories over one database and one object storage."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import emotions
from services.common.inference import InferenceQueue
from services.common.load import Load
from services.memory.archive import Archive
from services.memory.blobs import Blobs, FolderBlobs, Media
from services.memory.database import Database
from services.memory.domain import Card, NewIdentity, Store
from services.memory.embedding import Embedder, Embedding
from services.memory.recall import Recaller
from services.memory.repositories.conversations import Conversations
from services.memory.repositories.erasure import Erasure
from services.memory.repositories.examples import Examples
from services.memory.repositories.identities import Identities
from services.memory.repositories.references import References
from services.memory.repositories.research import Research
from services.memory.repositories.retention import Retentions
from services.memory.repositories.risks import Risks
from services.memory.repositories.summaries import Summaries
from services.memory.retrieval import Retrieval
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
        keep_s, cache_bytes = settings.cache_keep_s, settings.cache_bytes
        self.ready = ready
        self.storage = storage = Storage(Database(settings), Media(blobs_of(settings)), clock)
        self._backend = f"{storage.database.engine.dialect.name}, {'s3' if settings.s3_endpoint else 'folder'}"
        self._queue = InferenceQueue("search", "embedding", settings.queue_waiting_max, variant=settings.variant)
        self.embedding = Embedding(embedder, self._queue, keep_s)
        self.searcher = Searcher(cache_bytes, keep_s, self.embedding.digest)
        self.identities = Identities(storage, keep_s)
        self.references = References(storage, self.identities, cache_bytes, keep_s)
        self.conversations = Conversations(storage, self.identities, self.embedding, self.searcher)
        self.examples = Examples(storage, self.identities, self.embedding, self.searcher)
        self.retrieval = Retrieval(self.conversations, self.examples)
        self.recaller = Recaller(storage, self.identities, self.references, keep_s)
        self.risks = Risks(storage, self.conversations)
        self.retentions = Retentions(storage)
        self.erasure = Erasure(storage, [each.id for each in ready], keep_s, self._drop)
        self.archive = Archive(self.conversations, self.examples, self.erasure.drain)
        self.research = Research(storage, self.conversations, settings.pseudonym_key)
        self.summaries = Summaries(storage)
        caches = self.embedding.cache, self.searcher.cache, self.identities.cache, self.references.cache
        self._expiring = [cache.expire for cache in (*caches, self.recaller.identities, self.recaller.turns)]

    def load(self) -> Load:
        """Return the load of the sentence embedding, for which calls wait."""
        return self._queue.load()

    async def store(self) -> Store:
        """Return which store this is, and why it did not answer when it was asked last."""
        card = Card(self._backend, self.embedding.model, self.embedding.digest, emotions.load().digest)
        return Store(card, self.storage.database.problem or self.storage.media.problem)

    def tidy(self) -> None:
        """Drop what was cached too long ago; call it every few seconds, for nobody may ask."""
        for expire in self._expiring:
            expire()

    async def close(self) -> None:
        """Close the connections; what is kept stays."""
        self._queue.close()
        await self.storage.close()

    def _drop(self, ids: Collection[str]) -> None:
        """Drop what is cached of identities and users with these ids."""
        self.searcher.drop("turns", ids)
        self.recaller.drop(ids)
        caches: tuple[Any, ...] = self.identities.cache, self.references.cache
        for cache in caches:
            for key in [key for key in cache if key[0] in ids]:
                cache.pop(key, None)
        self.embedding.cache.clear()


def blobs_of(settings: DatabaseSettings) -> Blobs:
    """Return the object storage of the settings."""
    return S3Blobs(settings) if settings.s3_endpoint else FolderBlobs(settings.folder / "media")
