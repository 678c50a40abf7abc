"""Retrieval: turns and examples that are like a text, by one embedding and in one transaction."""

from dataclasses import replace

from services.memory.checks import check, check_handle, check_hits
from services.memory.consent import allowed
from services.memory.domain import ConversationKey, Found, Sought, Use
from services.memory.repositories.conversations import Conversations, user_of
from services.memory.repositories.examples import Examples
from services.memory.session import Session


class Retrieval:
    """Answers Search."""

    def __init__(self, conversations: Conversations, examples: Examples) -> None:
        self._conversations, self._examples = conversations, examples

    async def search(self, tenant: str, key: ConversationKey, sought: Sought) -> Found:
        """Return past turns of a user with an identity, and examples, that are like a text, the most similar first.

        Raises:
            NotFound: The identity is unknown.
            FailedPrecondition: Only turns are asked for, and the permission to keep them is missing.
        """
        check("", sought)
        if not sought.examples_max:
            check_hits(sought.hits_max)
        if sought.hits_max:
            here = sought.here or key.conversation
            user_of(replace(key, conversation=key.conversation or here))
            if here:
                check_handle("here", here)
        conversations, examples = self._conversations, self._examples
        vector = await conversations.embedding.of(sought.text)

        async def work(session: Session) -> Found:
            needed = () if sought.examples_max else (Use.KEEP_TURNS,)
            identity = await conversations.identities.found(session, key.identity, needed)
            if vector is None:
                return Found()
            is_kept = Use.KEEP_TURNS in allowed(identity, conversations.storage.clock())
            hits, solved = [], []
            if sought.hits_max and is_kept:
                hits = await conversations.near(session, identity, key, sought, vector)
            if sought.examples_max:
                solved = await examples.near(session, identity.generation, sought, vector, sought.examples_max)
            return Found(tuple(hits), tuple(solved))

        return await conversations.storage.read(tenant, work)
