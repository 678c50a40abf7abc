"""What is erased is gone, all of it and nothing else, and the record says so."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import InvalidRequest, NotFound
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import ClipKind, Generator
from services.memory.forgetting.audits import Audits
from services.memory.forgetting.erasing import CLOSED_AFTER_S, Eraser
from services.memory.keys import Scope
from services.memory.registry.emotion_references import EmotionReferences
from services.memory.registry.registry import Registry
from services.memory.store import Store, content_of
from services.memory.vectors.block import unit
from tests.fake_store import FakeStore
from tests.talking import MP4, TENANT, WAV, Clock, Replica, keys_of, new, turn

MARKER = "zanzibar"
"""A word that is said nowhere else."""
MODEL = "a" * 64


def eraser(memory: Replica, store: Store, **options: object) -> Eraser:
    return Eraser(store, 70, clock=memory.clock, forget=memory.vectors.forget, **options)  # type: ignore[arg-type]


def fill(memory: Replica, identity: str = "ada") -> None:
    """All that an identity can have."""
    memory.add(identity)
    registry = memory.registry
    first = registry.identity(TENANT, identity)
    portrait, voice = (reference.digest for reference in first.references)
    registry.keep_derived(TENANT, identity, [portrait], MODEL, MARKER.encode())
    registry.keep_derived(TENANT, identity, [voice], MODEL, MARKER.encode())
    EmotionReferences(memory.store, registry).put(
        TENANT, identity, Generator.VOICE, "cheerful", "audio/wav", WAV + MARKER.encode()
    )
    for person, conversation in (("ann", "talk"), ("ann", "walk"), ("bob", "talk"), ("", "talk")):
        for number in range(3):
            said = replace(turn(number), user_text=f"{MARKER} {number}", vote_record=MARKER.encode().hex())
            memory.say(said, conversation, person, identity)
    memory.talks.put_clip(TENANT, identity, "ann", "talk", "turn-1", ClipKind.SPEECH, WAV + MARKER.encode())
    memory.talks.put_clip(TENANT, identity, "", "talk", "turn-2", ClipKind.VIDEO, MP4 + MARKER.encode())
    memory.talks.put_timings(TENANT, identity, "ann", "talk", "turn-1", {MARKER: 1.0})


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fake(clock: Clock) -> FakeStore:
    return FakeStore(clock)


def others(store: Store) -> list[str]:
    """What is there beside records and marks."""
    return [key for key in keys_of(store) if "/audits/" not in key and not key.startswith(keys.ERASING)]


def close(store: FakeStore, memory: Replica, clock: Clock) -> None:
    """Lets the time pass in which late writers are looked for."""
    clock.now_s += CLOSED_AFTER_S + 1
    eraser(memory, store).resume()


def bytes_of_all(store: Store) -> bytes:
    return b"\n".join(content_of(store.get(key)) or b"" for key in keys_of(store))


def test_after_an_erasure_is_there_what_was_there_before_the_addition_and_the_record(store: Store) -> None:
    memory = Replica(store)
    memory.add("bob")
    before = keys_of(store)
    fill(memory)
    assert len(keys_of(store)) - len(before) > 40
    audit = eraser(memory, store).identity(TENANT, "ada", "the test")
    assert others(store) == before
    eraser(memory, store, closed_after_s=-1.0).resume()
    assert [key for key in keys_of(store) if key not in before] == keys_of(store, "/audits/")
    assert Audits(store).list(TENANT, 50) == ((audit,), "")
    with pytest.raises(NotFound, match="'ada'"):
        memory.last()


def test_no_word_and_no_vector_of_what_was_erased_is_in_any_object(fake: FakeStore) -> None:
    store, memory = fake, Replica(fake)
    fill(memory)
    words = MARKER.encode()
    vector = unit(memory.embedder.embed([f"{MARKER} 1"])).astype("<f2").tobytes()
    assert words in bytes_of_all(store)
    assert vector in bytes_of_all(store)
    eraser(memory, store).identity(TENANT, "ada", "the test")
    assert words not in bytes_of_all(store)
    assert words.hex().encode() not in bytes_of_all(store)
    assert vector not in bytes_of_all(store)
    assert len(vector) == 2 * memory.embedder.embed(["a"]).shape[1] == 128
    assert memory.vectors.held_bytes == 0


def test_the_record_counts_every_object_and_byte_by_kind(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    memory.add("bob")
    before = dict(fake.objects)
    fill(memory)
    gone = {key: len(content) for key, content in fake.objects.items() if key not in before}
    audit = eraser(memory, fake).identity(TENANT, "ada", "the test")
    objects = {row.kind: row.objects for row in audit.counts}
    assert objects == {
        "head": 1,
        "references": 2,
        "derived": 2,
        "emotions": 1,
        "persons": 6,
        "turn-ids": 12,
        "turns": 12,
        "vectors": 12,
        "timings": 1,
        "clips": 2,
    }
    assert sum(objects.values()) == len(gone)
    assert sum(row.size_bytes for row in audit.counts) == sum(gone.values())


def test_the_record_names_what_was_erased_and_holds_nothing_of_it(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    fill(memory)
    begun_s = clock.now_s
    eraser(memory, fake).identity(TENANT, "ada", "Mo, by mail")
    (key,) = keys_of(fake, "/audits/")
    record = json.loads(fake.objects[key].partition(b"\n")[2])
    assert {name: record[name] for name in record if name not in ("id", "counts")} == {
        "what": "identity ada",
        "asked_by": "Mo, by mail",
        "begun_at_s": begun_s,
        "done_at_s": begun_s,
        "caches_gone_by_s": begun_s + 70,
    }
    assert all(set(row) == {"kind", "objects", "size_bytes"} for row in record["counts"])


def test_a_person_is_erased_with_every_identity_and_nobody_else_is(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    for identity in ("ada", "bob-2"):
        fill(memory, identity)
    before = others(fake)
    audit = eraser(memory, fake).person(TENANT, "ann", "", "the test")
    assert [key for key in before if key not in others(fake)] == [key for key in before if "p-ann" in key]
    assert others(fake) == [key for key in before if "p-ann" not in key]
    assert audit.what == "person ann"
    counts = {row.kind: row.objects for row in audit.counts}
    assert counts == {"persons": 3, "turn-ids": 12, "turns": 12, "vectors": 12, "timings": 2, "clips": 2}
    assert memory.last(person="ann") == []
    assert memory.last(person="bob") == ["turn-0", "turn-1", "turn-2"]


def test_somebody_without_a_name_is_erased_by_their_conversation(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    fill(memory)
    before = others(fake)
    audit = eraser(memory, fake).person(TENANT, "", "talk", "the test")
    assert audit.what == "conversation talk"
    assert others(fake) == [key for key in before if "c-talk" not in key]
    assert memory.last("talk", "ann") == ["turn-0", "turn-1", "turn-2"]


def test_a_person_who_comes_back_at_once_is_another_and_loses_nothing(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    memory.add()
    memory.say(turn(1))
    eraser(memory, fake).person(TENANT, "ann", "", "the test")
    memory.say(turn(2))
    assert memory.last() == ["turn-2"]
    kept = others(fake)
    eraser(memory, fake).resume()
    close(fake, memory, clock)
    assert others(fake) == kept
    assert memory.last() == ["turn-2"]


def test_who_talks_with_another_identity_too_is_still_known_after_the_erasure_of_one(fake: FakeStore) -> None:
    memory = Replica(fake)
    for identity in ("ada", "bob"):
        memory.add(identity)
        memory.say(turn(1), identity=identity)
    memory.say(turn(1), person="only-ada")
    deleted: list[str] = []
    fake.before = lambda operation, key: deleted.append(key) if operation == "delete" else None
    eraser(memory, fake).identity(TENANT, "ada", "the test")
    memory.say(turn(2), identity="bob")
    turns = memory.talks.turns(TENANT, "bob", "ann", "talk", 50, "").turns
    assert [each.id for each in turns] == ["turn-2", "turn-1"]
    assert keys_of(fake, "only-ada") == []
    assert keys.person(TENANT, "p-only-ada") in deleted
    assert keys.person(TENANT, "p-ann") not in deleted


def test_nothing_of_an_erased_identity_is_in_the_next_of_that_name(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    fill(memory)
    eraser(memory, fake).identity(TENANT, "ada", "the test")
    memory.add()
    kept = others(fake)
    assert memory.last() == []
    close(fake, memory, clock)
    assert others(fake) == kept
    assert keys_of(fake, keys.ERASING) == []


def test_a_tenant_erases_its_own_identity_only(fake: FakeStore) -> None:
    memory = Replica(fake)
    memory.add()
    memory.add(tenant="other")
    kept = keys_of(fake, "tenants/other/")
    eraser(memory, fake).identity(TENANT, "ada", "the test")
    assert keys_of(fake, "tenants/other/") == kept
    assert Audits(fake).list("other", 50) == ((), "")


def test_what_is_not_there_is_not_found_and_leaves_no_record(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    fill(memory)
    eraser(memory, fake).identity(TENANT, "ada", "the test")
    before = keys_of(fake)
    asks: list[tuple[str, Callable[[], object]]] = [
        ("identity ada", lambda: eraser(memory, fake).identity(TENANT, "ada", "again")),
        ("identity eve", lambda: eraser(memory, fake).identity(TENANT, "eve", "the test")),
        ("identity ada", lambda: eraser(memory, fake).identity("other", "ada", "the test")),
        ("person eve", lambda: eraser(memory, fake).person(TENANT, "eve", "", "the test")),
        ("person talk", lambda: eraser(memory, fake).person(TENANT, "talk", "", "the test")),
        ("conversation never", lambda: eraser(memory, fake).person(TENANT, "", "never", "the test")),
    ]
    for what, ask in asks:
        with pytest.raises(NotFound, match=what):
            ask()
    assert keys_of(fake) == before


def test_a_wrong_field_is_named_and_nothing_is_erased(fake: FakeStore) -> None:
    memory = Replica(fake)
    fill(memory)
    before = keys_of(fake)
    asks: list[tuple[str, Callable[[], object]]] = [
        ("tenant", lambda: eraser(memory, fake).identity("../x", "ada", "the test")),
        ("identity", lambda: eraser(memory, fake).identity(TENANT, "ada/..", "the test")),
        ("asked_by", lambda: eraser(memory, fake).identity(TENANT, "ada", " ")),
        ("asked_by", lambda: eraser(memory, fake).identity(TENANT, "ada", "x" * 101)),
        ("asked_by", lambda: eraser(memory, fake).identity(TENANT, "ada", "Mo\x1b[2J")),
        ("asked_by", lambda: eraser(memory, fake).person(TENANT, "ann", "", "Mo\nof nobody")),
        ("tenant", lambda: eraser(memory, fake).person("", "ann", "", "the test")),
        ("person", lambda: eraser(memory, fake).person(TENANT, "a/b", "", "the test")),
        ("conversation", lambda: eraser(memory, fake).person(TENANT, "", "", "the test")),
        ("conversation", lambda: eraser(memory, fake).person(TENANT, "ann", "talk", "the test")),
        ("conversation", lambda: eraser(memory, fake).person(TENANT, "", "é", "the test")),
    ]
    for field, ask in asks:
        with pytest.raises(InvalidRequest, match=f"^{field}: "):
            ask()
    assert keys_of(fake) == before


def test_a_ready_identity_that_is_erased_on_purpose_stays_away_and_can_be_added_again(fake: FakeStore) -> None:
    memory = Replica(fake)
    memory.registry.prepare(TENANT, [new()])
    eraser(memory, fake, ready={keys.head(TENANT, "ada")}).identity(TENANT, "ada", "the test")
    assert others(fake) == [keys.removed(TENANT, "ada")]
    Registry(fake).prepare(TENANT, [new()])
    assert Registry(fake).identities(TENANT, 10, "").identities == ()
    memory.add()
    assert memory.registry.identity(TENANT, "ada").version == 1


@pytest.mark.parametrize("what", ["identity", "person"])
def test_what_has_a_damaged_head_can_be_erased(fake: FakeStore, what: str) -> None:
    store, memory = fake, Replica(fake)
    memory.add("bob")
    before = keys_of(store)
    fill(memory)
    head = keys.head(TENANT, "ada") if what == "identity" else keys.person(TENANT, "p-ann")
    store.put(head, (content_of(store.get(head)) or b"")[:-1])
    if what == "identity":
        eraser(memory, store).identity(TENANT, "ada", "the test")
        assert others(store) == before
    else:
        eraser(memory, store).person(TENANT, "ann", "", "the test")
        assert keys_of(store, "p-ann") == keys_of(store, keys.ERASING)


def test_what_a_killed_addition_left_can_be_erased(fake: FakeStore) -> None:
    fake.put(Scope(TENANT, "ada", "0" * 32).reference("0" * 64), b"portrait")
    audit = eraser(Replica(fake), fake).identity(TENANT, "ada", "the test")
    assert {row.kind: row.objects for row in audit.counts} == {"references": 1}
    assert others(fake) == []


def test_records_are_listed_the_newest_first_and_by_pages(fake: FakeStore, clock: Clock) -> None:
    memory = Replica(fake, clock)
    names = [f"person-{number}" for number in range(5)]
    memory.add()
    for name in names:
        memory.say(turn(1), person=name)
        clock.now_s += 0.5
        eraser(memory, fake).person(TENANT, name, "", "the test")
    pages: list[list[str]] = []
    after = ""
    while len(pages) < 9:
        page, after = Audits(fake).list(TENANT, 2, after)
        pages.append([audit.what for audit in page])
        if not after:
            break
    assert pages == [
        ["person person-4", "person person-3"],
        ["person person-2", "person person-1"],
        ["person person-0"],
    ]
    for size, token, field in ((0, "", "page_size"), (201, "", "page_size"), (2, "../x", "page_token")):
        with pytest.raises(InvalidRequest, match=f"^{field}: "):
            Audits(fake).list(TENANT, size, token)
