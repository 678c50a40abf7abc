"""Examples of answers: kept once, found by meaning, an identity's own beside its tenant's, gone when removed."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import InvalidRequest, NotFound
from services.memory.domain import Exemplar, File, Grant, NewIdentity, Profile, ReferenceKind
from services.memory.registry.exemplars import Exemplars
from services.memory.registry.registry import Registry
from services.memory.vectors.embedder import SentenceEmbedder
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from tests.fake_store import FakeStore

DOG = Exemplar("My dog is very ill.", "sad", "Poor thing. I hope he gets well.")
JOB = Exemplar("They let me go at work today.", "disappointed", "That is a hard blow.")
WON = Exemplar("I won the race!", "joyful", "You did it!")
NEW = NewIdentity(
    "anna",
    Profile("Anna", "young", "female", "high", "en"),
    (Grant("animate_face", "the project", "2026-11-22"),),
    (
        File(ReferenceKind.PORTRAIT, b"\x89PNG\r\n\x1a\n portrait"),
        File(ReferenceKind.VOICE, b"RIFF....WAVE voice"),
    ),
)


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    return Embedding(SentenceEmbedder(Path(".models")))


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def replica(store: FakeStore, embedding: Embedding) -> Exemplars:
    return Exemplars(store, Registry(store), Vectors(store), embedding)


@pytest.fixture
def exemplars(store: FakeStore, embedding: Embedding) -> Exemplars:
    Registry(store).add("shop", NEW)
    return replica(store, embedding)


def found(exemplars: Exemplars, identity: str, text: str, **wanted: float | set[str]) -> list[str]:
    hits = exemplars.search("shop", identity, text, 4, **wanted)  # type: ignore[arg-type]
    assert [hit.similarity for hit in hits] == sorted((hit.similarity for hit in hits), reverse=True)
    return [hit.exemplar.user_text for hit in hits]


def test_an_identity_finds_its_own_and_its_tenants_by_meaning_the_nearest_first(exemplars: Exemplars) -> None:
    exemplars.put("shop", "anna", [DOG])
    exemplars.put("shop", "", [JOB, WON])
    assert found(exemplars, "anna", "My puppy is sick.", similarity_min=0.3) == [DOG.user_text]
    assert found(exemplars, "anna", "They fired me at work.", similarity_min=0.5) == [JOB.user_text]
    assert found(exemplars, "", "My puppy is sick.", similarity_min=0.3) == []
    assert set(found(exemplars, "anna", "I lost my job.")) == {DOG.user_text, JOB.user_text, WON.user_text}
    assert found(exemplars, "anna", "I lost my job.", user_emotions={"joyful"}) == [WON.user_text]
    assert found(exemplars, "anna", "...") == []


def test_nothing_of_one_tenant_or_identity_is_found_by_another(exemplars: Exemplars, store: FakeStore) -> None:
    Registry(store).add("shop", replace(NEW, id="bea"))
    Registry(store).add("other", NEW)
    exemplars.put("shop", "anna", [DOG])
    exemplars.put("other", "", [JOB])
    assert found(exemplars, "bea", DOG.user_text) == []
    assert [hit.exemplar.user_text for hit in exemplars.search("other", "anna", DOG.user_text, 4)] == [JOB.user_text]


def test_the_same_example_again_keeps_its_id_and_is_there_once(exemplars: Exemplars, store: FakeStore) -> None:
    ids = exemplars.put("shop", "anna", [DOG, JOB, DOG])
    assert ids[0] == ids[2] != ids[1]
    before = dict(store.objects)
    assert exemplars.put("shop", "anna", [JOB, DOG]) == (ids[1], ids[0])
    assert store.objects == before
    assert sorted(one.id for one in exemplars.list("shop", "anna", 50, "")[0]) == sorted(set(ids))


def test_it_is_listed_by_pages(exemplars: Exemplars) -> None:
    many = [replace(DOG, reply_text=f"Oh no, {number}.") for number in range(7)]
    ids = sorted(exemplars.put("shop", "", many))
    first, following = exemplars.list("shop", "", 3, "")
    exemplars.remove("shop", "", [ids[3]])
    then, end = exemplars.list("shop", "", 10, following)
    assert (len(first), len(then), end) == (3, 3, "")
    assert [one.id for one in (*first, *then)] == [*ids[:3], *ids[4:]]
    assert {one.reply_text for one in (*first, *then)} < {one.reply_text for one in many}


def test_a_page_of_which_one_went_meanwhile_is_not_the_last(exemplars: Exemplars, store: FakeStore) -> None:
    ids = sorted(exemplars.put("shop", "", [replace(DOG, reply_text=f"Oh no, {number}.") for number in range(4)]))
    going = next(key for key in store.objects if key.endswith(ids[0]))

    def before(operation: str, key: str) -> None:
        if (operation, key) == ("get", going):
            del store.objects[going]

    store.before = before
    page, following = exemplars.list("shop", "", 2, "")
    assert ([one.id for one in page], following) == ([ids[1]], ids[1])


def test_a_removed_example_is_gone_with_its_vector_and_can_be_kept_anew(
    exemplars: Exemplars, store: FakeStore, embedding: Embedding
) -> None:
    (dog, job) = exemplars.put("shop", "anna", [DOG, JOB])
    assert exemplars.remove("shop", "anna", [dog, dog, "unknown"]) == 1
    assert exemplars.remove("shop", "anna", [dog]) == 0
    assert found(exemplars, "anna", DOG.user_text) == [JOB.user_text]
    assert not any(DOG.reply_text.encode() in content for content in store.objects.values())
    (again,) = exemplars.put("shop", "anna", [DOG])
    assert again not in (dog, job)
    assert found(replica(store, embedding), "anna", DOG.user_text)[0] == DOG.user_text


def test_a_crash_at_any_step_leaves_each_example_findable_or_absent_and_the_next_try_completes_it(
    embedding: Embedding,
) -> None:
    class Killed(BaseException):
        pass

    for steps in range(100):
        store = FakeStore()
        Registry(store).add("shop", NEW)
        left = [steps]

        def before(operation: str, key: str, left: list[int] = left) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        store.before = before
        try:
            replica(store, embedding).put("shop", "anna", [DOG, JOB])
            done = True
        except Killed:
            done = False
        store.before = lambda operation, key: None
        after = replica(store, embedding)
        listed = {one.user_text for one in after.list("shop", "anna", 50, "")[0]}
        assert set(found(after, "anna", DOG.user_text)) == listed <= {DOG.user_text, JOB.user_text}
        after.put("shop", "anna", [DOG, JOB])
        assert set(found(after, "anna", DOG.user_text)) == {DOG.user_text, JOB.user_text}
        if done:
            break
    assert 5 < steps < 99


@pytest.mark.parametrize(
    ("exemplar", "problem"),
    [
        (replace(DOG, user_text=" "), r"exemplars\[1\].user_text: it is empty"),
        (replace(DOG, user_text="..."), r"exemplars\[1\].user_text: it has no meaning"),
        (replace(DOG, user_text="x" * 1001), r"exemplars\[1\].user_text: it has 1001 characters"),
        (replace(DOG, reply_text=""), r"exemplars\[1\].reply_text: it is empty"),
        (replace(DOG, user_emotion="meh"), r"exemplars\[1\].user_emotion: 'meh' is unknown"),
    ],
)
def test_a_wrong_example_is_named_and_none_of_the_call_is_kept(
    exemplars: Exemplars, exemplar: Exemplar, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        exemplars.put("shop", "anna", [JOB, exemplar])
    assert exemplars.list("shop", "anna", 50, "") == ((), "")


def test_who_and_how_many_is_checked(exemplars: Exemplars) -> None:
    with pytest.raises(InvalidRequest, match="exemplars: 0 of them; send 1 to 200"):
        exemplars.put("shop", "anna", [])
    with pytest.raises(InvalidRequest, match="exemplars: 201 of them"):
        exemplars.put("shop", "anna", [DOG] * 201)
    with pytest.raises(InvalidRequest, match="ids: 0 of them"):
        exemplars.remove("shop", "anna", [])
    with pytest.raises(InvalidRequest, match=r"ids\[0\]: '\.\./x'"):
        exemplars.remove("shop", "anna", ["../x"])
    with pytest.raises(InvalidRequest, match="page_token: '/'"):
        exemplars.list("shop", "anna", 50, "/")
    with pytest.raises(InvalidRequest, match="tenant: ''"):
        exemplars.put("", "", [DOG])
    with pytest.raises(NotFound, match="'bob'"):
        exemplars.put("shop", "bob", [DOG])
