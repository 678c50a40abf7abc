"""Emotional references: what shows a generator an emotion, for all of a tenant's identities or for one of them.

One object each: its MIME type in the first line, then its bytes, all sealed.
"""

import emotions
from services.common.errors import InvalidRequest, NotFound, TooLarge
from services.memory import keys
from services.memory.checks import check_choice, check_id, check_media_type
from services.memory.domain import EmotionReference, Generator, Use
from services.memory.records import damaged, digest_of, sealed, unsealed
from services.memory.registry.registry import Registry
from services.memory.store import Store, content_of

BYTES_MAX = 2**24
"""Largest emotional reference."""

_USES = {Generator.VOICE: Use.CLONE_VOICE, Generator.FACE: Use.ANIMATE_FACE}


class EmotionReferences:
    """The emotional references in `store`. Calls block; any thread may call.

    Each method raises `InvalidRequest` for a name that is not allowed and `NotFound` when the identity is unknown. An
    empty identity means the tenant. What an identity has for itself shows its own voice or face, so it takes and gives
    it only with consent to clone_voice or animate_face.

    Args:
        store: Where they are.
        registry: Knows the identities.
    """

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def put(
        self, tenant: str, identity: str, generator: Generator, name: str, media_type: str, content: bytes
    ) -> EmotionReference:
        """Keeps an emotional reference, instead of the one that the identity, or the tenant, had for this emotion.

        Raises:
            FailedPrecondition: The identity's consent does not allow it.
            InvalidRequest: The wheel does not have the name for this generator, or the content is empty.
            TooLarge: The content is.
        """
        _check(tenant, generator, name)
        check_media_type("header.media_type", media_type)
        if not content:
            raise InvalidRequest("content", f"it is empty (0 bytes); send 1 to {BYTES_MAX}")
        if len(content) > BYTES_MAX:
            raise TooLarge("content", f"it has {len(content)} bytes; send at most {BYTES_MAX} (16 MiB)")
        body = encode(media_type, content)
        if identity:
            kept = self._registry.found(tenant, identity, [_USES[generator]])
            self._store.put(kept.scope.emotion(generator, name), body)
            self._registry.check_still(kept.scope)
        else:
            self._store.put(keys.emotion(tenant, generator, name), body)
        return _described(generator, name, media_type, content, own=bool(identity))

    def get(self, tenant: str, identity: str, generator: Generator, name: str) -> tuple[EmotionReference, bytes]:
        """Returns the identity's own emotional reference, else the tenant's; and its content.

        Raises:
            NotFound: There is neither, or no such identity.
            FailedPrecondition: It is the identity's own, and its consent does not allow that.
        """
        _check(tenant, generator, name)
        places = [(keys.emotion(tenant, generator, name), False)]
        if identity:
            places.insert(0, (self._registry.found(tenant, identity).scope.emotion(generator, name), True))
        for key, own in places:
            stored = content_of(self._store.get(key))
            if stored is None:
                continue
            if own:
                self._registry.found(tenant, identity, [_USES[generator]])
            media_type, content = decode(key, stored)
            return _described(generator, name, media_type, content, own), content
        raise _missing(identity, generator, name)

    def list(self, tenant: str, identity: str) -> tuple[EmotionReference, ...]:
        """Returns those that hold for an identity, or all of the tenant's; by generator and name.

        It reads each of them: there are at most two for each emotion of a generator.
        """
        check_id("tenant", tenant)
        folders = [(keys.emotions(tenant), False)]
        if identity:
            folders.append((self._registry.found(tenant, identity).scope.emotions, True))
        found: dict[tuple[str, str], EmotionReference] = {}
        for folder, own in folders:
            for entry in self._store.list(folder):
                generator, _, name = entry.key.removeprefix(folder).partition("/")
                stored = content_of(self._store.get(entry.key))
                if stored is not None:  # Else it was removed since the listing.
                    media_type, content = decode(entry.key, stored)
                    found[generator, name] = _described(Generator(generator), name, media_type, content, own)
        return tuple(found[place] for place in sorted(found))

    def remove(self, tenant: str, identity: str, generator: Generator, name: str) -> None:
        """Removes an emotional reference: the identity's own, or the tenant's.

        Raises:
            NotFound: There is none.
        """
        _check(tenant, generator, name)
        if identity:
            key = self._registry.found(tenant, identity).scope.emotion(generator, name)
        else:
            key = keys.emotion(tenant, generator, name)
        folder, _, _ = key.rpartition("/")
        if all(entry.key != key for entry in self._store.list(f"{folder}/")):
            raise _missing(identity, generator, name)
        self._store.delete([key])


def encode(media_type: str, content: bytes) -> bytes:
    """Returns the object that an emotional reference is."""
    return sealed(media_type.encode() + b"\n" + content)


def decode(key: str, stored: bytes) -> tuple[str, bytes]:
    """Returns the MIME type and the content that the object `key` holds.

    Raises:
        Damaged: The object is not what was written; the message names it.
    """
    media_type, line_end, content = unsealed(key, stored).partition(b"\n")
    if not line_end or not media_type.isascii():
        raise damaged(key, "it is no emotional reference of this version")
    return media_type.decode(), content


def _described(generator: Generator, name: str, media_type: str, content: bytes, own: bool) -> EmotionReference:
    return EmotionReference(generator, name, digest_of(content), len(content), media_type, own)


def _check(tenant: str, generator: Generator, name: str) -> None:
    check_id("tenant", tenant)
    wheel = emotions.load()
    check_choice("name", name, wheel.styles if generator is Generator.VOICE else wheel.classes)


def _missing(identity: str, generator: Generator, name: str) -> NotFound:
    whose = f"identity {identity!r} has" if identity else "the tenant has"
    return NotFound(f"{whose} no emotional reference for {generator} {name!r}; ListEmotionReferences tells those there")
