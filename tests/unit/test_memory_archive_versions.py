"""What an identity was before goes with it into an archive, and comes back as it was, or is refused."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from services.common.errors import Conflict, Damaged, FailedPrecondition, InvalidRequest, NotFound, TooLarge
from services.common.tar import Member, packed
from services.memory import keys
from services.memory.domain import Change, EmotionBank, File, Grant, Identity, Reference, ReferenceKind, Use
from services.memory.forgetting.erasing import Eraser
from services.memory.registry.banks import Banks
from services.memory.registry.heads import IDENTITIES
from tests.archiving import OTHER, PORTRAIT, House, members
from tests.talking import TENANT, keys_of

Repack = Callable[[list[Member]], list[Member]]
FIRST, SECOND = "versions/0000000001", "versions/0000000002"


@pytest.fixture
def house() -> House:
    """Ada is at version 5: her permissions were taken back and given again, her portrait and her bank are others."""
    made = House()
    made.fill()
    registry = made.memory.registry
    Banks(made.store).put(TENANT, EmotionBank("calm", ("neutral",), ("default",)))
    registry.change(TENANT, "ada", Change(2, grants=(), emotion_bank="calm"))
    old = registry.identity(TENANT, "ada").references[0].digest
    registry.change(TENANT, "ada", Change(3, removed=(old,), added=(File(ReferenceKind.PORTRAIT, PORTRAIT),)))
    grants = tuple(Grant(use, "Ada herself", "2026-11-22", "a play", "2028-01-01") for use in Use)
    registry.change(TENANT, "ada", Change(4, grants=grants, emotion_bank="default"))
    return made


def versions(house: House, tenant: str = TENANT, identity: str = "ada") -> list[Identity]:
    registry = house.memory.registry
    return [registry.identity(tenant, identity, version) for version in range(1, 6)]


def told(identity: Identity) -> Identity:
    """What an archive tells of a version: neither under which id it was kept nor where."""
    files = tuple(replace(reference, since=0) for reference in identity.references)
    return replace(identity, id="", generation="", references=files)


def test_every_version_comes_back_as_it_was_under_the_id_and_generation_of_the_new_identity(house: House) -> None:
    house.imported(house.exported(), OTHER, "eve")
    before, after = versions(house), versions(house, OTHER, "eve")
    assert [told(each) for each in after] == [told(each) for each in before]
    assert [len(each.grants) for each in after] == [4, 4, 0, 0, 4]
    assert [each.emotion_bank for each in after] == ["default", "default", "calm", "calm", "default"]
    head = house.memory.registry.identity(OTHER, "eve")
    assert (head.version, head.changed_at_s) == (5, before[-1].changed_at_s)
    assert {(each.id, each.generation) for each in after} == {("eve", head.generation)}
    assert head.generation != before[-1].generation
    gone = before[0].references[0].digest
    with pytest.raises(NotFound, match=gone):
        house.memory.registry.reference(OTHER, "eve", gone)


def test_what_was_imported_exports_the_same_archive_and_so_does_what_was_imported_from_that(house: House) -> None:
    archive, other, third = house.exported(), House(), House()
    other.imported(archive, TENANT)
    assert other.exported() == archive
    third.imported(other.exported(), TENANT)
    assert third.exported() == archive


def test_an_imported_identity_goes_on_from_its_version(house: House) -> None:
    house.imported(house.exported())
    registry = house.memory.registry
    with pytest.raises(Conflict, match="is at version 5, not 1"):
        registry.change(OTHER, "ada", Change(1, grants=()))
    before = registry.identity(OTHER, "ada")
    other = File(ReferenceKind.PORTRAIT, PORTRAIT + b"!")
    changed = registry.change(OTHER, "ada", Change(5, removed=(before.references[-1].digest,), added=(other,)))
    assert (changed.version, registry.identity(OTHER, "ada", 5)) == (6, before)
    assert registry.reference(OTHER, "ada", changed.references[-1].digest) == other.content
    Eraser(house.store, 70).identity(OTHER, "ada", "the test")
    assert keys_of(house.store, f"tenants/{OTHER}/kept/") == []


def test_an_archive_without_versions_begins_at_the_first(house: House) -> None:
    def of_before(listed: list[Member]) -> list[Member]:
        about = json.loads(listed[0].content)
        del about["identity_version"], about["changed_at_s"]
        return [Member("identity.json", json.dumps(about | {"version": 1}).encode()), *without("versions/")(listed[1:])]

    house.imported(b"".join(packed(of_before(members(house.exported())))))
    imported = house.memory.registry.identity(OTHER, "ada")
    assert (imported.version, imported.changed_at_s) == (1, house.memory.clock.now_s)


def test_an_earlier_version_that_is_damaged_ends_the_export(house: House) -> None:
    scope = house.memory.scope()
    key = scope.version(2)
    house.store.objects[key] = house.store.objects[scope.version(1)]
    with pytest.raises(Damaged, match=rf"{key}.*it is version 1 of 'ada'"):
        house.exported()
    with pytest.raises(Damaged, match=key):
        house.memory.registry.identity(TENANT, "ada", 2)
    del house.store.objects[key]
    with pytest.raises(Damaged, match=rf"{key}.*it is missing"):
        house.exported()


def test_an_identity_of_more_versions_than_an_archive_holds_is_not_exported(house: House) -> None:
    identity = house.memory.registry.identity(TENANT, "ada")
    house.store.objects[keys.head(TENANT, "ada")] = IDENTITIES.encode(replace(identity, version=10_001))
    with pytest.raises(FailedPrecondition, match="at version 10001, an archive holds 10000"):
        house.archive.export(TENANT, "ada")


# What somebody has altered.


def without(part: str) -> Repack:
    return lambda listed: [member for member in listed if part not in member.name]


def told_as(name: str, **changes: object) -> Repack:
    def repack(listed: list[Member]) -> list[Member]:
        assert name in {member.name for member in listed}
        return [
            Member(each.name, json.dumps(json.loads(each.content) | changes).encode()) if each.name == name else each
            for each in listed
        ]

    return repack


def profiled(**changes: object) -> Repack:
    return told_as(FIRST, profile={"name": "A", "age": "young", "gender": "male", "timbre": "low"} | changes)


def granted(**changes: object) -> Repack:
    return told_as(FIRST, grants=[{"use": "keep_turns", "granted_by": "Ada", "granted_on": "2026-11-22"} | changes])


def filed(portrait: dict[str, object], voice: dict[str, object] | None = None) -> Repack:
    files = ("portrait", "0" * 64, portrait), ("voice", "1" * 64, voice or {})
    told = [{"kind": kind, "digest": digest, "size_bytes": 9} | changes for kind, digest, changes in files]
    return told_as(FIRST, references=told)


def renamed(old: str, new: str) -> Repack:
    return lambda listed: [replace(each, name=new) if each.name == old else each for each in listed]


def moved(part: str, before: str) -> Repack:
    """Puts the members of that part before the first of the other."""

    def repack(listed: list[Member]) -> list[Member]:
        taken = [each for each in listed if part in each.name]
        left = [each for each in listed if part not in each.name]
        place = [before in each.name for each in left].index(True)
        return [*left[:place], *taken, *left[place:]]

    return repack


REFUSED: dict[str, tuple[Repack, str]] = {
    "no history": (without("versions/"), f"'{FIRST}' is missing, or stands after others"),
    "no beginning": (without(FIRST), f"'{SECOND}' stands where '{FIRST}' is expected"),
    "no end": (without("versions/0000000004"), "'versions/0000000004' is missing"),
    "no middle": (without("versions/0000000003"), "'versions/0000000004' stands where 'versions/0000000003' is"),
    "one again": (lambda listed: [*listed, listed[4]], "it is there twice"),
    "another order": (moved(SECOND, FIRST), f"'{SECOND}' stands where '{FIRST}' is expected"),
    "after others": (moved("emotions/", FIRST), f"'{FIRST}' is missing, or stands after others"),
    "before files": (moved("versions/", "references/"), "'references/.*' is missing, or stands after others"),
    "the present one": (
        lambda listed: [*listed[:7], Member("versions/0000000005", listed[6].content), *listed[7:]],
        "'versions/0000000005' is not before version 5, of which identity.json is",
    ),
    "more than it has": (told_as("identity.json", identity_version=4), "'versions/0000000004' is not before version 4"),
    "fewer than it has": (told_as("identity.json", identity_version=10_000), "'versions/0000000005' is missing"),
    "a version zero": (renamed(FIRST, "versions/0000000000"), f"stands where '{FIRST}' is expected"),
    "a short number": (renamed(FIRST, "versions/1"), "'versions/1' is none that an export writes"),
    "digits of others": (renamed(FIRST, "versions/000000000\u0661"), "cannot be read|is none that an export writes"),
    "another number": (told_as(FIRST, identity_version=2), f"{FIRST}.identity_version: 2; its name says 1"),
    "no number": (told_as(FIRST, identity_version="one"), f"'{FIRST}' cannot be read: identity_version"),
    "too many": (told_as("identity.json", identity_version=10_001), "identity_version: Input should be less than"),
    "beyond the wire": (told_as("identity.json", identity_version=2**32), "identity_version: Input should be less"),
    "a number without end": (told_as("identity.json", identity_version=10**4000), "cannot be read: .{0,200}$"),
    "none at all": (told_as("identity.json", identity_version=0), "identity_version: Input should be greater than"),
    "a negative one": (told_as("identity.json", identity_version=-1), "identity_version: Input should be greater"),
    "a time of no clock": (told_as(FIRST, changed_at_s=1e300), f"'{FIRST}' cannot be read: changed_at_s"),
    "a time that is none": (told_as(FIRST, changed_at_s=float("nan")), "cannot be read: changed_at_s"),
    "a present time that is none": (
        told_as("identity.json", changed_at_s=float("nan")),
        "cannot be read: changed_at_s",
    ),
    "a time before all": (told_as(FIRST, changed_at_s=-1), "cannot be read: changed_at_s"),
    "no time": (told_as(FIRST, changed_at_s=None), f"{FIRST}.changed_at_s: it is missing"),
    "another format": (told_as(FIRST, format="a zoo"), f"'{FIRST}' cannot be read: format"),
    "a newer format": (told_as(FIRST, version=3), f"{FIRST} is of version 3, this memory reads 2"),
    "no profile": (told_as(FIRST, profile=None), f"'{FIRST}' cannot be read: profile"),
    "a profile of two lines": (profiled(name="A\nB", language="en"), rf"{FIRST}.profile.name: 'A\\nB' has line breaks"),
    "a profile of no language": (profiled(language="x" * 9000), f"{FIRST}.profile.language: .{{,100}} is not a lang"),
    "an unknown use": (granted(use="sell"), rf"{FIRST}.grants\[0\].use: 'sell' is unknown"),
    "a day that is none": (granted(until="2026-02-30"), rf"{FIRST}.grants\[0\].until: '2026-02-30' is not a date"),
    "nobody who granted": (granted(granted_by=""), rf"{FIRST}.grants\[0\].granted_by: it is empty"),
    "a use twice": (
        told_as(FIRST, grants=[{"use": "keep_turns", "granted_by": "A", "granted_on": "2026-11-22"}] * 2),
        rf"{FIRST}.grants\[1\].use: 'keep_turns' is there twice",
    ),
    "a bank of no name": (told_as(FIRST, emotion_bank="../x"), rf"{FIRST}.emotion_bank: '\.\./x' is not a name"),
    "no files": (told_as(FIRST, references=[]), f"{FIRST}.references: no portrait"),
    "a digest that is none": (filed({"digest": "../x"}), rf"{FIRST}.references\[0\].digest: .* is not a SHA-256"),
    "a file twice": (filed({"digest": "c" * 64}, {"digest": "c" * 64}), f"{FIRST}.references: a file is there twice"),
    "a size of nothing": (filed({"size_bytes": 0}), rf"{FIRST}.references\[0\]: the portrait is empty"),
    "a size beyond": (filed({"size_bytes": 2**40}), rf"{FIRST}.references\[0\]: the portrait has 1099511627776 bytes"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_history_that_cannot_have_been_is_refused_and_nothing_is_kept(house: House, case: str) -> None:
    repack, problem = REFUSED[case]
    archive = b"".join(packed(repack(members(house.exported()))))
    other = House()
    with pytest.raises(InvalidRequest, match=problem):
        other.imported(archive)
    assert other.store.objects == {}


def test_an_earlier_version_tells_of_a_file_what_the_present_one_tells(house: House) -> None:
    voice = next(each for each in versions(house)[-1].references if each.kind is ReferenceKind.VOICE)
    repack = filed({}, {"digest": voice.digest, "size_bytes": voice.size_bytes + 1})
    with pytest.raises(InvalidRequest, match=r"references\[1\]: it is not what identity.json says of that file"):
        House().imported(b"".join(packed(repack(members(house.exported())))))


def test_an_earlier_version_that_is_too_large_is_refused(house: House) -> None:
    repack = told_as(FIRST, more="x" * 2**16)
    with pytest.raises(TooLarge, match=f"'{FIRST}' has 6[0-9]+ bytes; at most 65536 are allowed"):
        House().imported(b"".join(packed(repack(members(house.exported())))))


def test_the_largest_version_that_there_can_be_fits(house: House) -> None:
    registry = house.memory.registry
    now = registry.identity(TENANT, "ada")
    profile = replace(
        now.profile, name="\N{CAT FACE}" * 100, about="\N{CAT FACE}" * 500, speaking_style="\N{CAT FACE}" * 200
    )
    grants = tuple(Grant(use, "\N{CAT FACE}" * 100, "2026-11-22", "\N{CAT FACE}" * 500, "2027-01-01") for use in Use)
    more = tuple(File(ReferenceKind.PORTRAIT, PORTRAIT + bytes([number])) for number in range(14))
    registry.change(TENANT, "ada", Change(5, profile, grants, added=more))
    registry.change(TENANT, "ada", Change(6, grants=()))
    registry.change(TENANT, "ada", Change(7, grants=grants))
    house.imported(house.exported())
    assert registry.identity(OTHER, "ada", 6).references == tuple(
        Reference(each.digest, each.size_bytes, each.kind) for each in registry.identity(TENANT, "ada", 6).references
    )
