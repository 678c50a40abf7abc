"""An identity leaves as one archive and comes back equal, or not at all."""

import json
from itertools import islice

import pytest

from services.common.errors import AlreadyExists, Conflict, Damaged, InvalidRequest, NotFound
from services.memory import keys
from services.memory.domain import Change, ClipKind, File, ReferenceKind, Use
from services.memory.forgetting.erasing import Eraser
from tests.archiving import OTHER, PORTRAIT, House, members, pieces
from tests.talking import MP4, TENANT, keys_of, once, turn


@pytest.fixture
def house() -> House:
    made = House()
    made.fill()
    return made


def test_what_is_exported_and_imported_elsewhere_is_equal(house: House) -> None:
    before = dict(house.store.objects)
    content = house.content()
    archive = house.exported()
    assert house.store.objects == before
    house.imported(archive, OTHER, "ada-2")
    assert house.content(OTHER, "ada-2") == content
    assert house.content() == content
    imported = house.memory.registry.identity(OTHER, "ada-2")
    assert (imported.version, imported.id) == (2, "ada-2")
    assert imported.generation != house.memory.registry.identity(TENANT, "ada").generation
    again = House()
    again.imported(archive, TENANT)
    assert again.content() == content
    assert members(again.exported()) == members(archive)


def test_what_was_imported_is_found_by_its_meaning_and_goes_on(house: House) -> None:
    house.imported(house.exported())
    talks = house.memory.talks
    rows = [key for key in keys_of(house.store, f"tenants/{OTHER}/") if "/people/" in key and "/vectors/" in key]
    assert len(rows) == 4
    (hit, *_) = house.exemplars.search(OTHER, "ada", "I lost my cat", 1)
    assert hit.exemplar.user_text == "I lost my cat"
    talks.remember(OTHER, "ada", "ann", "talk", turn(9))
    talks.remember(OTHER, "ada", "ann", "talk", turn(1))
    page = talks.turns(OTHER, "ada", "ann", "talk", 50, "").turns
    assert [each.id for each in page] == ["turn-9", "turn-2", "turn-1", "turn-0"]


def test_a_person_who_is_known_to_the_tenant_is_the_same_person(house: House) -> None:
    archive = house.exported()
    Eraser(house.store, 70).identity(TENANT, "ada", "the test")
    house.memory.add("bob")
    house.memory.say(turn(7), identity="bob")
    house.imported(archive, TENANT)
    assert len({key.split("/")[-1] for key in keys_of(house.store, "/persons/p-ann")}) == 1
    Eraser(house.store, 70).person(TENANT, "ann", "", "the test")
    assert [key for key in keys_of(house.store, "p-ann") if not key.startswith(keys.ERASING)] == []


def test_an_archive_begins_with_who_it_is_and_any_program_unpacks_it(house: House) -> None:
    listed = members(house.exported())
    assert listed[0].name == "identity.json"
    assert json.loads(listed[0].content)["profile"]["name"] == "Ada"
    # Nothing that models made: it is made anew.
    folders = list(dict.fromkeys(member.name.split("/")[0] for member in listed[1:]))
    assert folders == ["references", "versions", "emotions", "exemplars", "people"]
    assert not [member.name for member in listed if "vectors" in member.name]
    (said,) = (member.content for member in listed if member.name == "people/p-bob/turns/000000")
    assert [json.loads(line)["turn"]["id"] for line in said.splitlines()] == ["turn-0", "turn-1", "turn-2"]


def test_what_a_late_writer_left_of_an_erased_person_is_not_exported(house: House) -> None:
    talk = house.memory.talk("bob")
    content = house.store.objects[talk.turn("talk", "9999999999-turn-0")]
    Eraser(house.store, 70).person(TENANT, "bob", "", "the test")
    house.store.put(talk.turn("talk", "9999999999-turn-0"), content)
    assert not [member.name for member in members(house.exported()) if "p-bob" in member.name]


def test_an_archive_comes_in_pieces_of_at_most_a_mebibyte(house: House) -> None:
    house.memory.talks.put_clip(TENANT, "ada", "bob", "talk", "turn-1", ClipKind.VIDEO, MP4 + bytes(3 * 2**20))
    sizes = [len(piece) for piece in house.archive.export(TENANT, "ada")]
    assert max(sizes) == 2**20


def test_what_nobody_may_use_is_exported_and_stays_unused(house: House) -> None:
    registry = house.memory.registry
    grants = tuple(grant for grant in registry.identity(TENANT, "ada").grants if grant.use == Use.ANIMATE_FACE)
    registry.change(TENANT, "ada", Change(2, grants=grants))
    house.imported(house.exported())
    assert registry.identity(OTHER, "ada").grants == grants
    assert len(registry.identity(OTHER, "ada").references) == 2


# Others meanwhile.


def test_a_taken_id_is_refused_and_what_is_there_stays(house: House) -> None:
    archive, content = house.exported(), house.content()
    before = dict(house.store.objects)
    left = pieces(archive)
    with pytest.raises(AlreadyExists, match="'ada'"):
        house.archive.import_(TENANT, "", left)
    assert sum(map(len, left)) > len(archive) / 2  # It is refused before its files are read.
    assert house.store.objects == before
    entered = once(house.store, "create", f"tenants/{OTHER}/identities/", lambda: house.memory.add(tenant=OTHER))
    with pytest.raises(AlreadyExists, match="'ada'"):
        house.imported(archive, OTHER)
    assert entered
    assert len(keys_of(house.store, f"tenants/{OTHER}/")) == 3
    assert house.content() == content


def test_an_identity_that_is_erased_meanwhile_ends_its_export_with_an_error() -> None:
    whole = House()
    whole.fill()
    total = len(list(whole.archive.export(TENANT, "ada")))
    assert total > 30
    for number in range(total):
        house = House()
        house.fill()
        export = house.archive.export(TENANT, "ada")
        got = list(islice(export, number))
        Eraser(house.store, 70).identity(TENANT, "ada", "the test")
        with pytest.raises(NotFound, match=r"erased|unknown"):
            got += list(export)
        with pytest.raises(InvalidRequest):
            House().imported(b"".join(got))


def test_a_person_who_is_erased_meanwhile_ends_the_import_and_nothing_is_kept(house: House) -> None:
    archive = house.exported()
    other = House()
    entered = once(
        other.store, "create", "/turns/walk/", lambda: Eraser(other.store, 70).person(OTHER, "ann", "", "the test")
    )
    with pytest.raises(NotFound, match="erased meanwhile"):
        other.imported(archive)
    assert entered
    assert [key for key in keys_of(other.store) if "/audits/" not in key and not key.startswith(keys.ERASING)] == []


def test_a_file_that_is_missing_or_damaged_ends_the_export(house: House) -> None:
    registry = house.memory.registry
    first = registry.identity(TENANT, "ada").references[0].digest
    export = house.archive.export(TENANT, "ada")
    next(export)
    (key,) = keys_of(house.store, first + "-1")
    content = house.store.objects.pop(key)
    with pytest.raises(Damaged, match=first):
        list(export)
    house.store.objects[key] = content[:-1]
    with pytest.raises(Damaged, match=first):
        list(house.archive.export(TENANT, "ada"))


def test_a_file_that_is_removed_by_a_change_meanwhile_ends_the_export(house: House) -> None:
    registry = house.memory.registry
    export = house.archive.export(TENANT, "ada")
    next(export)
    old = registry.identity(TENANT, "ada")
    change = Change(2, removed=(old.references[0].digest,), added=(File(ReferenceKind.PORTRAIT, PORTRAIT),))
    registry.change(TENANT, "ada", change)
    with pytest.raises(Conflict, match="changed while it was exported"):
        list(export)


def test_an_unknown_identity_has_no_archive(house: House) -> None:
    with pytest.raises(NotFound, match="'bob'"):
        house.archive.export(TENANT, "bob")
