"""Where everything is kept. Nobody else joins names to keys.

    layout                                         which arrangement of keys this store has
    retentions/<tenant>                            how long things are kept
    erasing/<tenant>/<what>                        an erasure that has begun, or was done a moment ago: whoever finds it
                                                   ends it, and looks again for what late writers left
    adding/<tenant>/<id>-<generation>              an addition that has begun: if it is killed, a sweep finds its files
    changing/<nonce>                               examples that are being put or removed: if it is killed, their rows
    tenants/<tenant>/                              all of a tenant
      identities/<id>                              an identity's head: while it is there, the identity exists
      banks/<name>                                 an emotion bank
      emotions/<generator>/<name>                  an emotional reference of the tenant
      exemplars/items/<id>, exemplars/vectors/<model>/…   examples of answers for all of the tenant
      persons/<person>                             which generation of a person it is
      persons-of/<person>-<generation>/<identity>-<generation>   where there is something of a person
      removed/<id>                                 a ready identity that was erased on purpose
      audits/<countdown>-<id>                      what was erased; the newest has the smallest key
      kept/<id>/<generation>/                      all of one addition of an identity: a `Scope`
        versions/<version>                         an earlier head
        references/<digest>-<version>              its files, each with the version that it came with
        derived/<kind>/<source>-<model>            what a model derived from files
        emotions/<generator>/<name>                an emotional reference of its own
        exemplars/…                                examples of how it answers, as above
        people/<person>-<generation>/              all of one person with it: a `Talk`
          turn-ids/<conversation>/<turn>           the place that this turn id has got
          turns/<conversation>/<place>-<turn>      a turn
          vectors/<model>/…                        rows of turns, see `vectors/`
          timings/<conversation>/<place>-<turn>        how long its stages took, once it was over
          clips/<conversation>/<place>-<turn>-<kind>-<digest>   generated speech and video

The head of an identity is written last and taken away first, so it is there whole or not at all. Additions and persons
have generations: nothing of an erased one can turn up in a later one of the same name.

A file that comes again has another key: whoever is late in deleting it, a writer who has lost or one who was told to
remove it, never hits what a later version names.

A person is "p-<handle>". Somebody without a handle is known in one conversation only, as "c-<conversation>". What is
being erased is a person or an identity, "i-<id>".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.memory.domain import ClipKind, Generator, ReferenceKind
from services.memory.records import damaged, digest_of

LAYOUT = "layout"
RETENTIONS = "retentions/"
ERASING = "erasing/"
ADDING = "adding/"
CHANGING = "changing/"
TENANTS = "tenants/"

_ADDITION = r"tenants/[^/]+/kept/[^/]+/[^/]+/"
_EXAMPLES = rf"(?:tenants/[^/]+|{_ADDITION[:-1]})/exemplars"
_FIXED = re.compile(rf"{_ADDITION}(?:versions|references|people/[^/]+/(?:turns|timings|clips))/|{_EXAMPLES}/items/")
_PASSING = re.compile(rf"(?!tenants/)|tenants/[^/]+/audits/|{_ADDITION}people/[^/]+/vectors/|{_EXAMPLES}/vectors/")


@dataclass(frozen=True)
class Scope:
    """One addition of an identity."""

    tenant: str
    identity: str
    generation: str

    @property
    def folder(self) -> str:
        """All that is kept of it, but its head."""
        return f"{identity_folder(self.tenant, self.identity)}{self.generation}/"

    @property
    def people(self) -> str:
        """All that was said to it."""
        return f"{self.folder}people/"

    def version(self, version: int) -> str:
        """An earlier head."""
        return f"{self.folder}versions/{version:010d}"

    def reference(self, digest: str, since: int = 1) -> str:
        """A file; `since` is the version that it came with."""
        return f"{self.references}{digest}-{since}"

    @property
    def references(self) -> str:
        """Its files."""
        return f"{self.folder}references/"

    def derived(self, kind: ReferenceKind, source: str, model_digest: str) -> str:
        """What a model derived; `source` as `source_of` returns it."""
        return f"{self.derived_folder(kind)}{source}-{model_digest}"

    def derived_folder(self, kind: ReferenceKind) -> str:
        """What models derived from files of a kind."""
        return f"{self.folder}derived/{kind}/"

    @property
    def emotions(self) -> str:
        """The emotional references of its own."""
        return f"{self.folder}emotions/"

    def emotion(self, generator: Generator, name: str) -> str:
        """An emotional reference of its own."""
        return f"{self.emotions}{generator}/{name}"


@dataclass(frozen=True)
class Talk:
    """One person with one addition of an identity."""

    scope: Scope
    person: str
    generation: str

    @property
    def folder(self) -> str:
        """All that is kept of it."""
        return f"{self.scope.people}{self.person}-{self.generation}/"

    @property
    def index(self) -> str:
        """Says that there is something of this person here."""
        scope = self.scope
        return f"{persons_of(scope.tenant, self.person, self.generation)}{scope.identity}-{scope.generation}"

    def turn_id(self, conversation: str, turn: str) -> str:
        """The place that a turn id has got."""
        return f"{self.folder}turn-ids/{conversation}/{turn}"

    def turns(self, conversation: str) -> str:
        """The turns of a conversation."""
        return f"{self.folder}turns/{conversation}/"

    def turn(self, conversation: str, placed: str) -> str:
        """A turn; `placed` is "<place>-<turn>"."""
        return f"{self.turns(conversation)}{placed}"

    def timings(self, conversation: str, placed: str) -> str:
        """How long the stages of a turn took; `placed` is "<place>-<turn>"."""
        return f"{self.folder}timings/{conversation}/{placed}"

    @property
    def models(self) -> str:
        """The rows that sentence embeddings made, each in a folder of its own."""
        return f"{self.folder}vectors/"

    def vectors(self, model_digest: str) -> str:
        """The rows that a sentence embedding made."""
        return f"{self.models}{model_digest}/"

    def clips(self, conversation: str) -> str:
        """The clips of a conversation, in the order of their turns."""
        return f"{self.folder}clips/{conversation}/"

    def clip(self, conversation: str, placed: str, kind: ClipKind, digest: str) -> str:
        """A clip of a turn; `placed` is "<place>-<turn>", as in the turn's key."""
        return f"{self.clips(conversation)}{placed}-{kind}-{digest}"


@dataclass(frozen=True)
class Examples:
    """Examples of answers: of a tenant, or of one addition of an identity."""

    folder: str

    @property
    def items(self) -> str:
        """The examples."""
        return f"{self.folder}exemplars/items/"

    @property
    def models(self) -> str:
        """The rows that sentence embeddings made, each in a folder of its own."""
        return f"{self.folder}exemplars/vectors/"

    def vectors(self, model_digest: str) -> str:
        """The rows that a sentence embedding made."""
        return f"{self.models}{model_digest}/"


def person_of(person: str, conversation: str) -> str:
    """Returns the person's name in keys: who has no handle is known in this conversation only."""
    return f"p-{person}" if person else f"c-{conversation}"


def row_of(conversation: str, placed: str) -> str:
    """Returns the name of a turn among vectors."""
    return f"{conversation}/{placed}"


def clip_of(key: str) -> tuple[str, ClipKind, str]:
    """Returns what the key of a clip says: "<place>-<turn>" of its turn, its kind and its digest.

    Raises:
        Damaged: It is none; the message names it.
    """
    placed, _, rest = key.rpartition("/")[2].partition("-")
    turn, kind, digest = (["", "", "", *rest.rsplit("-", 2)])[-3:]
    if not (placed and turn and kind in set(ClipKind)):
        raise damaged(key, "its name is not that of a clip")
    return f"{placed}-{turn}", ClipKind(kind), digest


def tenant_folder(tenant: str) -> str:
    """All of a tenant."""
    return f"{TENANTS}{tenant}/"


def heads(tenant: str) -> str:
    """The heads of all identities."""
    return f"{tenant_folder(tenant)}identities/"


def head(tenant: str, identity: str) -> str:
    """The head of an identity."""
    return f"{heads(tenant)}{identity}"


def identity_folder(tenant: str, identity: str) -> str:
    """All additions of an identity, with what a crash may have left of earlier ones."""
    return f"{tenant_folder(tenant)}kept/{identity}/"


def bank(tenant: str, name: str) -> str:
    """An emotion bank."""
    return f"{tenant_folder(tenant)}banks/{name}"


def emotions(tenant: str) -> str:
    """The emotional references of a tenant."""
    return f"{tenant_folder(tenant)}emotions/"


def emotion(tenant: str, generator: Generator, name: str) -> str:
    """An emotional reference of a tenant."""
    return f"{emotions(tenant)}{generator}/{name}"


def person(tenant: str, name: str) -> str:
    """Which generation of a person it is; `name` as `person_of` returns it."""
    return f"{tenant_folder(tenant)}persons/{name}"


def persons_of_all(tenant: str) -> str:
    """With which additions of identities there is something of whom."""
    return f"{tenant_folder(tenant)}persons-of/"


def persons_of(tenant: str, name: str, generation: str) -> str:
    """With which additions of identities there is something of a person."""
    return f"{persons_of_all(tenant)}{name}-{generation}/"


def removed(tenant: str, identity: str) -> str:
    """Marks a ready identity that was erased on purpose."""
    return f"{tenant_folder(tenant)}removed/{identity}"


def retention(tenant: str) -> str:
    """How long things are kept."""
    return f"{RETENTIONS}{tenant}"


def adding(scope: Scope) -> str:
    """Marks an addition that has begun."""
    return f"{ADDING}{scope.tenant}/{scope.identity}-{scope.generation}"


def added_scope(key: str) -> Scope:
    """Returns which addition a mark is of."""
    _, tenant, name = key.split("/")
    identity, _, generation = name.rpartition("-")
    return Scope(tenant, identity, generation)


def erasing_identity(tenant: str, identity: str) -> str:
    """Marks the erasure of an identity."""
    return f"{ERASING}{tenant}/i-{identity}"


def erasing_person(tenant: str, name: str) -> str:
    """Marks the erasure of a person; `name` as `person_of` returns it."""
    return f"{ERASING}{tenant}/{name}"


def audits(tenant: str) -> str:
    """The records of erasures."""
    return f"{tenant_folder(tenant)}audits/"


def source_of(digests: Sequence[str]) -> str:
    """Returns the digest under which is kept what was derived from these files: of one file its own."""
    return digests[0] if len(digests) == 1 else digest_of("".join(digests).encode())


def is_fixed(key: str) -> bool:
    """Tells whether what is there never becomes another: it can only go."""
    return _FIXED.match(key) is not None


def is_worth_holding(key: str) -> bool:
    """Tells whether it is read again and again. Vectors are, but are held elsewhere."""
    return _PASSING.match(key) is None
