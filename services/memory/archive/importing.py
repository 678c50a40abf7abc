"""Adds an identity out of an archive, member by member; nothing of it can be found before all of it is there."""

import secrets
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import cast

import emotions
from services.common.errors import InvalidRequest
from services.common.tar import Member, unpacked
from services.memory.archive.archive_format import (
    ABOUT,
    EXEMPLARS,
    SAID,
    TIME_S_MAX,
    About,
    Said,
    about,
    bytes_max,
    lines,
    match,
)
from services.memory.archive.described import Earlier, check_described, identity_of
from services.memory.checks import check_choice, check_id, check_media_type
from services.memory.domain import ClipKind, Exemplar, File, Generator, Identity, Reference
from services.memory.forgetting.leaving import Leaving
from services.memory.keys import Scope, Talk
from services.memory.records import digest_of
from services.memory.registry import file_checks
from services.memory.registry.banks import Banks
from services.memory.registry.emotion_references import encode
from services.memory.registry.exemplars import Exemplars
from services.memory.registry.heads import Heads
from services.memory.registry.registry import Registry
from services.memory.store import Store
from services.memory.talks.clips import check_clip
from services.memory.talks.conversation import PLACE_MAX, Conversation
from services.memory.talks.persons import Persons
from services.memory.talks.talks import Talks

PLACES_MAX = 10**9
"""No conversation has had more turns. A place beyond would leave none to those that come."""


class Importing:
    """Imports into `store`; see `Archive.import_`."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        persons: Persons,
        talks: Talks,
        exemplars: Exemplars,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._registry, self._persons = store, registry, persons
        self._talks, self._exemplars, self._clock = talks, exemplars, clock

    def run(self, tenant: str, identity: str, pieces: Iterator[bytes]) -> Identity:
        """Imports one archive."""
        check_id("tenant", tenant)
        members = unpacked(pieces, bytes_max)
        first = next(members, None)
        if first is None or first.name != ABOUT:
            raise InvalidRequest("archive", f"it does not begin with {ABOUT}; send one that an export wrote")
        who = about(first.content)
        new = self._checked(tenant, identity or who.id, who)
        self._registry.check_free(tenant, new.id)
        scope = Scope(tenant, new.id, new.generation)
        earlier = Earlier(self._store, scope, new)
        addition = _Addition(self._store, self._persons, self._talks, self._exemplars, scope, new.references, earlier)
        with self._registry.additions.begun(scope):
            try:
                for member in members:
                    addition.put(member)
                addition.end()
            except BaseException:
                addition.withdraw()
                raise
            self._registry.appear(scope, new)
        return new

    def _checked(self, tenant: str, identity: str, who: About) -> Identity:
        """Returns the identity that `who` describes."""
        check_id("identity", identity)
        check_described(ABOUT, who)
        if not who.grants:
            raise InvalidRequest(f"{ABOUT}.grants", "it is empty; nothing was allowed")
        if not Banks(self._store).has(tenant, who.emotion_bank):
            problem = f"{who.emotion_bank!r} is unknown here; store that emotion bank first (`e3rg emotion bank FILE`)"
            raise InvalidRequest(f"{ABOUT}.emotion_bank", problem)
        changed_at_s = self._clock() if who.changed_at_s is None else who.changed_at_s
        return identity_of(who, identity, secrets.token_hex(16), changed_at_s)


class _Addition:
    """What is put below the folder of `scope`, of which the head is not there yet."""

    def __init__(
        self,
        store: Store,
        persons: Persons,
        talks: Talks,
        exemplars: Exemplars,
        scope: Scope,
        references: tuple[Reference, ...],
        earlier: Earlier,
    ) -> None:
        self._store, self._persons, self._talks, self._exemplars = store, persons, talks, exemplars
        self._scope, self._earlier = scope, earlier
        self._missing = {reference.digest: reference for reference in references}
        self._talk: Talk | None = None
        self._is_past_emotions = False

    def put(self, member: Member) -> None:
        """Puts a member; its name is one that may be there, its SHA-256 is right."""
        name, found = member.name, match(member.name)
        if found is None:
            raise InvalidRequest("archive", f"its member {name!r} is there again")
        if name.startswith("references/"):
            self._reference(member)
            return
        # Whoever examines an archive on its way here reads no further than to the last of its emotional references.
        self._check_files()
        if name.startswith("versions/"):
            self._earlier.put(name, int(found["version"]), member.content)
            return
        self._earlier.check_whole()
        if name.startswith("emotions/"):
            if self._is_past_emotions:
                raise InvalidRequest("archive", f"its member {name!r} stands after others")
            self._emotion(member, Generator(found["generator"]), found["name"])
            return
        self._is_past_emotions = True
        if name.startswith("exemplars/"):
            self._exemplars.restore(self._scope, cast("list[Exemplar]", lines(name, member.content, EXEMPLARS)))
        elif "clip" in found.groupdict():
            self._clip(member, found["person"], found["conversation"], found["placed"], ClipKind(found["clip"]))
        else:
            self._turns(member, found["person"])

    def end(self) -> None:
        """Looks whether all is there, and everybody."""
        self._check_files()
        self._earlier.check_whole()
        self._leave()

    def withdraw(self) -> None:
        """Takes everything back."""
        Heads(self._store).delete_below(self._scope.folder)
        if self._talk:
            Leaving(self._store).end(self._talk)  # It may have got no turn yet.

    def _check_files(self) -> None:
        for digest in self._missing:
            raise InvalidRequest("archive", f"its member 'references/{digest}' is missing, or stands after others")

    def _reference(self, member: Member) -> None:
        digest = digest_of(member.content)
        declared = self._missing.get(member.name.removeprefix("references/"))
        if declared is None:
            raise InvalidRequest("archive", f"its member {member.name!r} is no file that {ABOUT} names")
        (came,) = file_checks.came(f"archive: {member.name}", [File(declared.kind, member.content)], since=1)
        if came != declared:
            raise InvalidRequest("archive", f"its member {member.name!r} is not what {ABOUT} says of it")
        self._store.put(self._scope.reference(digest), member.content)
        del self._missing[digest]

    def _emotion(self, member: Member, generator: Generator, name: str) -> None:
        wheel = emotions.load()
        check_choice(f"archive: {member.name}", name, wheel.styles if generator is Generator.VOICE else wheel.classes)
        check_media_type(f"archive: {member.name}", member.media_type)
        if not member.content:
            raise InvalidRequest("archive", f"its member {member.name!r} is empty")
        self._store.put(self._scope.emotion(generator, name), encode(member.media_type, member.content))

    def _turns(self, member: Member, person: str) -> None:
        talk = self._known(person)
        said = cast("list[Said]", lines(member.name, member.content, SAID))
        for each in said:
            _check_said(member.name, each)
        for conversation, group in groupby(said, lambda each: each.turn.conversation):
            if person.startswith("c-") and conversation != person[2:]:
                raise InvalidRequest("archive", f"its member {member.name!r} has turns of another conversation")
            self._talks.restore(talk, conversation, [(each.placed, each.turn) for each in group])

    def _clip(self, member: Member, person: str, conversation: str, placed: str, kind: ClipKind) -> None:
        talk = self._known(person)
        if not Conversation(self._store, talk, conversation).has(placed):
            self._leave()  # It may have gone with the person.
            raise InvalidRequest("archive", f"its member {member.name!r} is of a turn that does not stand before it")
        check_clip(kind, member.content)
        self._store.put(talk.clip(conversation, placed, kind, digest_of(member.content)), member.content)

    def _known(self, person: str) -> Talk:
        """Returns the talk of a person, who becomes known when they are not."""
        if self._talk is None or self._talk.person != person:
            self._leave()
            kind, _, name = person.partition("-")
            self._talk = self._persons.made(self._scope, *((name, "") if kind == "p" else ("", name)))
        return self._talk

    def _leave(self) -> None:
        if self._talk:
            self._persons.check_still(self._talk)


def _check_said(name: str, said: Said) -> None:
    """Refuses a turn after which its conversation could not be read or go on."""
    if not 0 <= said.turn.said_at_s <= TIME_S_MAX:  # So also what is no number.
        raise InvalidRequest(
            "archive", f"its member {name!r}: said_at_s is {said.turn.said_at_s}, which is no Unix time"
        )
    if said.placed < str(PLACE_MAX - PLACES_MAX):
        raise InvalidRequest("archive", f"its member {name!r}: {said.placed[:80]!a} is too far from the first place")
