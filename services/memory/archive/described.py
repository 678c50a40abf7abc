"""What an archive says of an identity, as it is and as it was: whether it may be kept, and as what."""

from services.common.errors import InvalidRequest
from services.memory.archive.archive_format import ABOUT, About, about, earlier
from services.memory.checks import check_digest, check_id, check_profile
from services.memory.domain import Identity, Reference
from services.memory.keys import Scope
from services.memory.registry import file_checks
from services.memory.registry.consent import check_grants
from services.memory.registry.heads import IDENTITIES
from services.memory.store import Store


def check_described(name: str, who: About) -> None:
    """Refuses what no version of an identity can be; `name` is the member that says it.

    Raises:
        InvalidRequest: It is such; the message names the field.
    """
    check_profile(f"{name}.profile", who.profile)
    check_grants(f"{name}.grants", who.grants)
    field = f"{name}.references"
    file_checks.check_declared(field, [(each.kind, each.size_bytes) for each in who.references], whole=True)
    for index, each in enumerate(who.references):
        check_digest(f"{field}[{index}].digest", each.digest)
    if len({each.digest for each in who.references}) < len(who.references):
        raise InvalidRequest(field, "a file is there twice")
    check_id(f"{name}.emotion_bank", who.emotion_bank)


def identity_of(who: About, identity: str, generation: str, changed_at_s: float) -> Identity:
    """Returns what is kept of what was said of an identity."""
    return Identity(
        id=identity,
        profile=who.profile,
        references=tuple(Reference(each.digest, each.size_bytes, each.kind) for each in who.references),
        grants=who.grants,
        emotion_bank=who.emotion_bank,
        version=who.identity_version,
        changed_at_s=changed_at_s,
        generation=generation,
    )


class Earlier:
    """Keeps the earlier versions of `head` below the folder of `scope`: all of them, from 1, or none is right.

    An earlier version may have allowed nothing, and may name files and a bank that are gone.
    """

    def __init__(self, store: Store, scope: Scope, head: Identity) -> None:
        self._store, self._scope, self._head = store, scope, head
        self._next = 1

    def put(self, name: str, version: int, content: bytes) -> None:
        """Keeps what the member `name` says of `version`.

        Raises:
            InvalidRequest: It is not the next one, or cannot have been.
        """
        if self._next == self._head.version:
            problem = f"its member {name!r} is not before version {self._head.version}, of which {ABOUT} is"
            raise InvalidRequest("archive", problem)
        if version != self._next:
            raise InvalidRequest("archive", f"its member {name!r} stands where {earlier(self._next)!r} is expected")
        who = about(content, name)
        check_described(name, who)
        if who.identity_version != version:
            raise InvalidRequest(f"{name}.identity_version", f"{who.identity_version}; its name says {version}")
        if who.changed_at_s is None:
            raise InvalidRequest(f"{name}.changed_at_s", "it is missing")
        was = identity_of(who, self._head.id, self._scope.generation, who.changed_at_s)
        now = {reference.digest: reference for reference in self._head.references}
        for index, reference in enumerate(was.references):
            if now.get(reference.digest, reference) != reference:
                raise InvalidRequest(f"{name}.references[{index}]", f"it is not what {ABOUT} says of that file")
        self._store.put(self._scope.version(version), IDENTITIES.encode(was))
        self._next += 1

    def check_whole(self) -> None:
        """Refuses an archive in which one is missing.

        Raises:
            InvalidRequest: It is such a one.
        """
        if self._next < self._head.version:
            raise InvalidRequest("archive", f"its member {earlier(self._next)!r} is missing, or stands after others")
