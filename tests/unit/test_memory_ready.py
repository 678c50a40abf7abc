"""The identities that come with the project are there from the start, unless they were erased on purpose."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import ReferenceKind, Use
from services.memory.forgetting.erasing import Eraser
from services.memory.memory import Memory
from services.memory.registry.ready import file_of, ready_identities
from services.memory.registry.registry import Registry
from services.memory.store import Store
from tests.avatars import ADA, named, reader_of, registry
from tests.fake_store import FakeStore
from tests.talking import TENANT, WordEmbedder, keys_of

HEAD = keys.head(TENANT, "ada")


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def erase(store: Store, *ready: str) -> None:
    Eraser(store, 0.0, [keys.head(TENANT, name) for name in ready]).identity(TENANT, "ada", "the test")


def kept(store: Store) -> set[str]:
    """All that is there but what erasures say of themselves."""
    return {key for key in keys_of(store) if "/audits/" not in key and not key.startswith(keys.ERASING)}


def test_the_ready_identities_are_there_from_the_start(store: Store) -> None:
    for _ in range(2):
        registry(store).prepare(TENANT, [ADA, replace(ADA, id="bob")])
        assert [identity.id for identity in registry(store).identities(TENANT, 50, "").identities] == ["ada", "bob"]
    assert all(identity.version == 1 for identity in registry(store).identities(TENANT, 50, "").identities)
    assert len(kept(store)) == 6


def test_an_erased_ready_identity_stays_away_and_can_be_added_again(store: Store) -> None:
    registry(store).prepare(TENANT, [ADA])
    erase(store, "ada")
    registry(store).prepare(TENANT, [ADA])
    assert reader_of(store) == ()
    assert kept(store) == {keys.removed(TENANT, "ada")}
    assert registry(store).add(TENANT, ADA).profile == ADA.profile


def test_a_damaged_ready_identity_is_left_as_it_is_and_told_of(fake: FakeStore) -> None:
    registry(fake).prepare(TENANT, [ADA])
    fake.objects[HEAD] = b"damage"
    registry(fake).prepare(TENANT, [ADA, replace(ADA, id="bob")])
    assert fake.objects[HEAD] == b"damage"
    page = registry(fake).identities(TENANT, 50, "")
    assert ([identity.id for identity in page.identities], [each.id for each in page.damaged]) == (["bob"], ["ada"])


def test_replicas_that_start_at_once_share_the_ready_identities(store: Store) -> None:
    replicas = [registry(store) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda replica: replica.prepare(TENANT, [ADA]), replicas))
    (identity,) = reader_of(store)
    assert kept(store) == named(identity)


def test_the_people_who_come_with_the_project_pass_every_check_and_differ() -> None:
    memory, people = Registry(FakeStore()), tuple(ready_identities())
    memory.prepare(TENANT, people)
    found = memory.identities(TENANT, 50, "").identities
    assert [person.id for person in found] == ["amara", "anna", "ingrid", "kenji", "leila", "marcus", "walter"]
    assert len({reference.digest for person in found for reference in person.references}) == 14
    assert {person.profile.gender for person in found} == {"female", "male"}
    assert len({person.profile.age for person in found}) >= 3
    assert len({person.profile.speaking_style for person in found}) == 7
    assert all({grant.use for grant in person.grants} == set(Use) for person in found)
    assert all(memory.found(TENANT, person.id, tuple(Use)) for person in found)
    assert all(file_of(person, ReferenceKind.VOICE)[:4] == b"RIFF" for person in people)


def test_a_damaged_object_of_one_ready_identity_keeps_no_other_away(
    fake: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    mark = keys.erasing_identity(TENANT, "ada")
    fake.put(mark, b"torn")
    registry(fake).prepare(TENANT, [ADA, replace(ADA, id="bob")])
    assert [identity.id for identity in registry(fake).identities(TENANT, 50, "").identities] == ["bob"]
    (said,) = caplog.records
    assert (said.message, said.identity) == ("a ready identity is not added", "ada")  # type: ignore[attr-defined]
    assert mark in said.why  # type: ignore[attr-defined]


def test_nothing_stays_of_an_identity_of_another_tenant_that_is_named_like_a_ready_one(fake: FakeStore) -> None:
    memory = Memory(fake, WordEmbedder(), [ADA])
    for tenant in ("default", "shop"):
        memory.registry.add(tenant, ADA)
        memory.eraser.identity(tenant, "ada", "the test")
    memory.close()
    assert [key for key in fake.objects if "/removed/" in key] == [keys.removed("default", "ada")]
