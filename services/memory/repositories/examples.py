"""Examples of replies, found by what their messages mean: an identity's own, and its tenant's."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy import delete, select

import emotions
from services.common.errors import InvalidRequest
from services.memory.blobs import digest_of
from services.memory.checks import check_choice, check_handle, check_id, check_text
from services.memory.database import Session
from services.memory.domain import Example, ExampleHit, Sought
from services.memory.embedding import Embedding, Vectors
from services.memory.repositories.identities import Identities
from services.memory.schema import examples
from services.memory.search import Searcher, Wanted
from services.memory.storage import Storage, ensure_tenant, insert_new, outcome, record
from services.memory.turn_checks import check_sought

CHARS_MAX = 1000
"""Longest message, and longest reply."""

AT_ONCE_MAX = 200
"""Most examples in one call."""


class Examples:
    """Examples of identities, and of tenants: an empty identity means the tenant.

    Methods raise `InvalidRequest` for a name or a text that is not allowed, `NotFound` when the identity is unknown.
    """

    def __init__(self, storage: Storage, identities: Identities, embedding: Embedding, searcher: Searcher) -> None:
        self._storage, self._identities = storage, identities
        self._embedding, self._searcher = embedding, searcher

    async def put(self, tenant: str, name: str, new: Sequence[Example]) -> list[str]:
        """Keep examples and return their ids; one that is there already keeps its id."""
        vectors = await self.vectors(new)

        async def work(session: Session) -> list[str]:
            owner = await self._owner(session, name)
            await ensure_tenant(session)
            return await self.insert(session, owner, new, vectors)

        return await self._storage.write(tenant, work)

    async def vectors(self, new: Sequence[Example]) -> list[Vectors]:
        """Check examples and return their vectors."""
        if not 1 <= len(new) <= AT_ONCE_MAX:
            raise InvalidRequest("exemplars", f"{len(new)} of them; send 1 to {AT_ONCE_MAX}")
        for place, example in enumerate(new):
            field = f"exemplars[{place}]"
            check_text(f"{field}.user_text", example.user_text, CHARS_MAX)
            check_choice(f"{field}.user_emotion", example.user_emotion, emotions.load().labels)
            check_text(f"{field}.reply_text", example.reply_text, CHARS_MAX)
        found: list[Vectors] = []
        for place, vector in enumerate(await self._embedding.of_all([example.user_text for example in new])):
            if vector is None:
                raise InvalidRequest(f"exemplars[{place}].user_text", "it has no meaning to be found by; use words")
            found.append(vector)
        return found

    async def insert(
        self, session: Session, owner: str | None, new: Sequence[Example], vectors: Sequence[Vectors]
    ) -> list[str]:
        """Insert those that the owner lacks and return the ids of all."""
        marks = [_fingerprint(example) for example in new]
        rows = [
            {
                "id": uuid4().hex,
                "tenant": session.tenant,
                "identity_id": owner,
                "user_text": example.user_text,
                "user_emotion": example.user_emotion,
                "reply_text": example.reply_text,
                "fingerprint": mark,
                "model_digest": self._embedding.digest,
                "vector": vector,
            }
            for example, mark, vector in zip(new, marks, vectors, strict=True)
        ]
        for row in rows:
            await insert_new(session, examples, row)
        columns = examples.c
        known = select(columns.fingerprint, columns.id).where(
            *_of(session.tenant, owner), columns.fingerprint.in_(marks)
        )
        ids = {row.fingerprint: row.id for row in await session.rows(known)}
        return [ids[mark] for mark in marks]

    async def page(self, tenant: str, name: str, page_size: int, after: str) -> tuple[list[Example], str]:
        """Return at most `page_size` examples by id, those behind `after`, and what the next page is after."""
        check_id("tenant", tenant)
        if after:
            check_handle("page_token", after)

        async def work(session: Session) -> Sequence[Any]:
            owner = await self._owner(session, name)
            found = select(examples).where(*_of(tenant, owner), examples.c.id > after)
            return await session.rows(found.order_by(examples.c.id).limit(page_size + 1))

        rows = await self._storage.read(tenant, work)
        page = [_example(row) for row in rows[:page_size]]
        return page, page[-1].id if len(rows) > page_size else ""

    async def search(self, tenant: str, name: str, sought: Sought) -> list[ExampleHit]:
        """Return the examples whose message is most like a text, of the identity and of its tenant, nearest first."""
        check_sought(sought)
        vector = await self._embedding.of(sought.text)

        async def work(session: Session) -> list[ExampleHit]:
            owner = await self._owner(session, name)
            if vector is None:
                return []
            # Twice as many: an identity may have what its tenant has too.
            limit, owners = 2 * sought.hits_max, tuple(dict.fromkeys((owner, None)))
            wanted = Wanted(vector, limit, sought.similarity_min, owners, labels=sought.user_emotions)
            found = await self._searcher.examples(session, wanted)
            ids = [each for each, _ in found]
            rows = await session.rows(select(examples).where(examples.c.tenant == tenant, examples.c.id.in_(ids)))
            by_id = {row.id: row for row in rows}
            hits: dict[str, ExampleHit] = {}
            for each, similarity in found:
                hits.setdefault(by_id[each].fingerprint, ExampleHit(_example(by_id[each]), similarity))
            return list(hits.values())[: sought.hits_max]

        return await self._storage.read(tenant, work)

    async def remove(self, tenant: str, name: str, ids: Sequence[str]) -> int:
        """Remove examples and return how many there were."""
        if not 1 <= len(ids) <= AT_ONCE_MAX:
            raise InvalidRequest("ids", f"{len(ids)} of them; send 1 to {AT_ONCE_MAX}")
        for place, each in enumerate(ids):
            check_handle(f"ids[{place}]", each)

        async def work(session: Session) -> int:
            if (done := await outcome(session)) is not None:
                return int(done)
            owner = await self._owner(session, name)
            removed = await session.run(delete(examples).where(*_of(tenant, owner), examples.c.id.in_(ids)))
            await record(session, removed, self._storage.clock())
            return removed

        return await self._storage.write(tenant, work)

    async def _owner(self, session: Session, name: str) -> str | None:
        return (await self._identities.found(session, name)).generation if name else None


def _of(tenant: str, owner: str | None) -> list[Any]:
    columns = examples.c
    mine = columns.identity_id.is_(None) if owner is None else columns.identity_id == owner
    return [columns.tenant == tenant, mine]


def _example(row: Any) -> Example:
    return Example(row.user_text, row.user_emotion, row.reply_text, row.id)


def _fingerprint(example: Example) -> str:
    return digest_of("\0".join((example.user_text, example.user_emotion, example.reply_text)).encode())
