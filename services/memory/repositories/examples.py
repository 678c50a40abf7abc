"""Examples of replies, found by what their messages mean: an identity's own, and without an identity its tenant's."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy import select

from services.common.errors import InvalidRequest
from services.memory.checks import check, check_handle, check_hits
from services.memory.domain import Example, ExampleHit, Sought, digest_of
from services.memory.embedding import Embedding, Vectors
from services.memory.repositories.identities import Identities
from services.memory.repositories.pages import page_of
from services.memory.schema import examples
from services.memory.search import Searcher, Wanted
from services.memory.session import Session, read_as
from services.memory.storage import Storage, reading, writing

AT_ONCE_MAX = 200
"""Most examples in one call."""


class Examples:
    """Examples of identities, and of tenants. Methods raise `NotFound` when the identity is unknown."""

    def __init__(self, storage: Storage, identities: Identities, embedding: Embedding, searcher: Searcher) -> None:
        self.storage, self.identities = storage, identities
        self._embedding, self._searcher = embedding, searcher

    async def put(self, tenant: str, name: str, new: Sequence[Example]) -> list[str]:
        """Keep examples and return their ids; one that is there already keeps its id."""
        vectors = await self.vectors(new)

        async def work(session: Session) -> list[str]:
            owner = await self._owner(session, name)
            await session.ensure_tenant()
            return await self.insert(session, owner, new, vectors)

        return await self.storage.write(tenant, work)

    async def vectors(self, new: Sequence[Example]) -> list[Vectors]:
        """Check examples and return their vectors."""
        if not 1 <= len(new) <= AT_ONCE_MAX:
            raise InvalidRequest("exemplars", f"{len(new)} of them; send 1 to {AT_ONCE_MAX}")
        for place, example in enumerate(new):
            check(f"exemplars[{place}]", example)
        vectors = await self._embedding.of_all([example.user_text for example in new])
        for place, vector in enumerate(vectors):
            if vector is None:
                raise InvalidRequest(f"exemplars[{place}].user_text", "it has no meaning to be found by; use words")
        return [vector for vector in vectors if vector is not None]

    async def insert(
        self, session: Session, owner: str | None, new: Sequence[Example], vectors: Sequence[Vectors]
    ) -> list[str]:
        """Insert those that the owner lacks and return the ids of all."""
        ids = []
        for example, vector in zip(new, vectors, strict=True):
            said = {name: getattr(example, name) for name in ("user_text", "user_emotion", "reply_text")}
            mine: dict[str, Any] = {"identity_id": owner, "fingerprint": digest_of("\0".join(said.values()).encode())}
            found = {"vector": vector, "model_digest": self._embedding.digest}
            await session.add_new(examples, id=uuid4().hex, tenant=session.tenant, **said, **mine, **found)
            ids.append((await session.find(examples, **mine)).id)
        return ids

    @reading
    async def page(self, session: Session, name: str, page_size: int, after: str) -> tuple[list[Example], str]:
        """Return at most `page_size` examples by id, those behind `after`, and what the next page is after."""
        if after:
            check_handle("page_token", after)
        mine = session.mine(examples, identity_id=await self._owner(session, name))
        found = select(examples).where(mine, examples.c.id > after).order_by(examples.c.id).limit(page_size + 1)
        rows = [read_as(Example, row) for row in await session.rows(found)]
        return page_of(rows, page_size, lambda example: example.id)

    async def search(self, tenant: str, name: str, sought: Sought) -> list[ExampleHit]:
        """Return the examples whose message is most like a text, of the identity and of its tenant, nearest first."""
        check("", sought)
        check_hits(sought.hits_max)
        vector = await self._embedding.of(sought.text)

        async def work(session: Session) -> list[ExampleHit]:
            owner = await self._owner(session, name)
            return [] if vector is None else await self.near(session, owner, sought, vector, sought.hits_max)

        return await self.storage.read(tenant, work)

    async def near(
        self, session: Session, owner: str | None, sought: Sought, vector: Vectors, count: int
    ) -> list[ExampleHit]:
        """Return at most `count` examples near a text, of the owner and of its tenant, the nearest first."""
        # Twice as many: an identity may have what its tenant has too.
        limit, owners = 2 * count, tuple(dict.fromkeys((owner, None)))
        wanted = Wanted(vector, limit, sought.similarity_min, owners, labels=sought.user_emotions)
        found = await self._searcher.examples(session, wanted)
        ids = examples.c.id.in_([each for each, _ in found])
        by_id = {row.id: row for row in await session.rows(select(examples).where(session.mine(examples), ids))}
        hits: dict[str, ExampleHit] = {}
        for each, similarity in found:
            hits.setdefault(by_id[each].fingerprint, ExampleHit(read_as(Example, by_id[each]), similarity))
        return list(hits.values())[:count]

    @writing
    async def remove(self, session: Session, name: str, ids: Sequence[str]) -> int:
        """Remove examples and return how many there were."""
        if not 1 <= len(ids) <= AT_ONCE_MAX:
            raise InvalidRequest("ids", f"{len(ids)} of them; send 1 to {AT_ONCE_MAX}")
        for place, each in enumerate(ids):
            check_handle(f"ids[{place}]", each)
        if (done := await session.outcome()) is not None:
            return int(done)
        removed = await session.drop(examples, examples.c.id.in_(ids), identity_id=await self._owner(session, name))
        await session.record(removed, self.storage.clock())
        return removed

    async def _owner(self, session: Session, name: str) -> str | None:
        return (await self.identities.found(session, name)).generation if name else None
