"""Past turns are found by what the user said, with what a caller may ask for beside."""

from dataclasses import replace

import pytest

from services.common.errors import FailedPrecondition, InvalidRequest, NotFound, TooLarge
from services.memory import keys
from services.memory.domain import Hit, Sought, Use
from services.memory.talks.conversation import BYTES_MAX, Conversation
from services.memory.vectors.embedding import KEPT_MAX, Embedding
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock, Replica, WordEmbedder, keys_of, once, turn

DOG = "my dog died last week"
SAID = (DOG, "the sale ends", "my dog barks", "rain again today", "a dog is a friend")


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def memory(store: FakeStore) -> Replica:
    """Ann has said it all in one conversation, one thing a minute, and one more in an other."""
    made = Replica(store)
    made.add()
    for number, text in enumerate(SAID, start=1):
        made.say(turn(number, text))
        made.clock.now_s += 60
    made.say(replace(turn(1, "the dog of my aunt"), user_emotion="content"), "other")
    return made


def search(
    memory: Replica, text: str = "my dog", conversation: str = "", person: str = "ann", **more: object
) -> list[Hit]:
    sought = Sought(text, **more)  # type: ignore[arg-type]
    return list(memory.talks.search(TENANT, "ada", person, conversation, sought))


def names(hits: list[Hit]) -> list[str]:
    return [f"{hit.turn.conversation}/{hit.turn.id}" for hit in hits]


def test_the_turns_most_like_the_text_are_found_the_nearest_first(memory: Replica) -> None:
    hits = search(memory, "my dog died last week", hits_max=2)
    assert names(hits) == ["talk/turn-1", "talk/turn-3"]
    assert hits[0].similarity == pytest.approx(1, abs=1e-3)
    assert hits[0].similarity > hits[1].similarity
    assert replace(hits[0].turn, said_at_s=0.0, conversation="") == turn(1, DOG)


def test_a_hit_has_no_vote_record(memory: Replica) -> None:
    memory.say(replace(turn(9, "seldom words"), vote_record="00"))
    assert search(memory, "seldom words", hits_max=1)[0].turn == replace(
        turn(9, "seldom words"), said_at_s=memory.clock.now_s, conversation="talk"
    )


def test_a_conversation_narrows_the_search(memory: Replica) -> None:
    assert names(search(memory, conversation="other", similarity_min=-1)) == ["other/turn-1"]
    assert names(search(memory, conversation="never", similarity_min=-1)) == []
    assert len(search(memory, similarity_min=-1, hits_max=32)) == 6


def test_what_is_left_out_is_that_of_the_conversation_that_goes_on(memory: Replica) -> None:
    left_out = frozenset({"turn-1", "turn-3"})
    found = names(search(memory, here="talk", without=left_out, hits_max=2))
    assert found == ["other/turn-1", "talk/turn-5"]
    assert names(search(memory, conversation="talk", without=left_out, hits_max=1)) == ["talk/turn-5"]


def test_hits_say_how_many_turns_ago_they_were_in_the_conversation_that_goes_on(memory: Replica) -> None:
    hits = search(memory, here="talk", similarity_min=-1, hits_max=6)
    ago = {f"talk/turn-{number}": 6 - number for number in range(1, 6)}
    assert dict(zip(names(hits), [hit.turns_ago for hit in hits], strict=True)) == ago | {"other/turn-1": 0}
    assert [hit.turns_ago for hit in search(memory, similarity_min=-1, hits_max=6)] == [0] * 6
    assert [hit.turns_ago for hit in search(memory, conversation="other")] == [1]


def test_turns_far_back_are_counted_by_places_and_near_ones_by_keys(store: FakeStore, memory: Replica) -> None:
    entered = once(store, "create", "/turn-ids/", lambda: memory.say(turn(7)))
    memory.say(turn(6))
    assert entered
    placed = [key.rpartition("/")[2] for key in keys_of(store, "/turns/talk/")]
    talk = Conversation(store, memory.talk(), "talk")
    exact = {each: number for number, each in enumerate(placed, start=1)}
    assert talk.turns_ago(placed) == talk.turns_ago(placed, counted_max=3) == exact
    # Two that share a place count as one where only places are known.
    assert talk.turns_ago([placed[-1]], counted_max=1) == {placed[-1]: 6}


def test_age_and_emotion_narrow_the_search(memory: Replica) -> None:
    recent = set(names(search(memory, age_max_s=200, similarity_min=-1, hits_max=6)))
    assert recent == {"other/turn-1", "talk/turn-3", "talk/turn-4", "talk/turn-5"}
    assert names(search(memory, user_emotions=frozenset({"content", "happy"}), similarity_min=-1)) == ["other/turn-1"]
    assert names(search(memory, "quite unlike", similarity_min=0.9)) == []


def test_a_row_without_its_turn_is_passed_over(store: FakeStore, memory: Replica) -> None:
    (key,) = [key for key in keys_of(store, "/turns/talk/") if key.endswith("-turn-1")]
    store.delete([key])
    assert names(search(memory, DOG, hits_max=1)) == ["talk/turn-3"]


def test_only_the_turns_of_the_hits_are_read(store: FakeStore, memory: Replica) -> None:
    search(memory)
    asked: list[str] = []
    store.before = lambda operation, key: asked.append(f"{operation} {key}")
    search(memory, hits_max=2, here="talk")
    assert [each.split("/")[0].split(" ")[0] for each in asked].count("list") == 2
    assert len([each for each in asked if "/turns/" in each]) == 2 + 1
    assert len(asked) == 6


def test_long_turns_are_found_only_as_far_as_one_message_holds_them(memory: Replica) -> None:
    for number in range(30):
        memory.say(replace(turn(100 + number), user_text="dog " * 8000, reply_text="ö" * 32_000))
    hits = search(memory, "dog", hits_max=32)
    assert {hit.turn.user_text for hit in hits} == {"dog " * 8000}
    assert len(hits) == BYTES_MAX // 96_000


def test_what_else_is_kept_of_turns_counts_too(memory: Replica) -> None:
    variants = {f"service-{number:02d}": "v" * 100 for number in range(32)}
    for number in range(40):
        memory.say(replace(turn(200 + number), user_text="dog " * 6000, reply_text="x" * 24_000, variants=variants))
    hits = search(memory, "dog", hits_max=32)
    assert len(hits) == BYTES_MAX // (48_000 + 32 * 118 + 512)


@pytest.mark.parametrize("text", ["?!", "nowhere"])
def test_a_text_without_meaning_finds_nothing(memory: Replica, text: str) -> None:
    assert search(memory, text, similarity_min=-1) == []


def test_who_has_said_nothing_is_told_nothing(memory: Replica) -> None:
    assert search(memory, person="bob") == []
    assert search(memory, person="", conversation="talk") == search(memory, person="", here="talk") == []


def test_without_the_permission_or_the_identity_nothing_is_searched(memory: Replica) -> None:
    memory.add("mute", uses=(Use.ANIMATE_FACE,))
    with pytest.raises(FailedPrecondition, match="keep_turns"):
        memory.talks.search(TENANT, "mute", "ann", "", Sought("dog"))
    with pytest.raises(NotFound, match="'nobody'"):
        memory.talks.search(TENANT, "nobody", "ann", "", Sought("dog"))


@pytest.mark.parametrize(
    ("field", "sought", "error"),
    [
        ("text", Sought(" "), InvalidRequest),
        ("text", Sought("x" * 4001), TooLarge),
        ("hits_max", Sought("x", hits_max=0), InvalidRequest),
        ("hits_max", Sought("x", hits_max=33), InvalidRequest),
        ("similarity_min", Sought("x", similarity_min=1.1), InvalidRequest),
        ("similarity_min", Sought("x", similarity_min=float("nan")), InvalidRequest),
        ("age_max_s", Sought("x", age_max_s=-1), InvalidRequest),
        ("age_max_s", Sought("x", age_max_s=float("inf")), InvalidRequest),
        ("user_emotions", Sought("x", user_emotions=frozenset({"meh"})), InvalidRequest),
        ("without", Sought("x", without=frozenset(map(str, range(1001)))), TooLarge),
        ("here", Sought("x", here="a/b"), InvalidRequest),
    ],
)
def test_a_wrong_wish_is_refused_by_name(memory: Replica, field: str, sought: Sought, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^{field}: "):
        memory.talks.search(TENANT, "ada", "ann", "", sought)


def test_what_was_searched_by_is_not_read_again_to_be_kept(memory: Replica) -> None:
    memory.embedder.read.clear()
    search(memory, "a new thing")
    memory.say(turn(20, "a new thing"))
    assert memory.embedder.read == ["a new thing"]


def test_what_nobody_asks_for_is_dropped_from_memory(memory: Replica) -> None:
    search(memory)
    memory.idle.now_s += 30
    memory.talks.drop_idle(40)
    held_bytes = memory.vectors.held_bytes
    assert held_bytes > 0
    memory.idle.now_s += 30
    memory.talks.drop_idle(40)
    assert memory.vectors.held_bytes == 0
    memory.embedder.read.clear()
    assert names(search(memory, DOG, hits_max=1)) == ["talk/turn-1"]
    assert memory.embedder.read == [DOG]
    assert memory.vectors.held_bytes == held_bytes


def test_an_erased_identity_leaves_nothing_in_memory_once_it_is_asked_for(store: FakeStore, memory: Replica) -> None:
    memory.add("bob")
    memory.say(turn(1), identity="bob")
    search(memory)
    held_bytes = memory.vectors.held_bytes
    store.delete([keys.head(TENANT, "bob")])
    with pytest.raises(NotFound):
        memory.say(turn(2), identity="bob")
    assert 0 < memory.vectors.held_bytes < held_bytes
    assert names(search(memory, DOG, hits_max=1)) == ["talk/turn-1"]


def test_an_embedding_reads_each_text_once_and_remembers_the_last() -> None:
    embedder = WordEmbedder()
    embedding = Embedding(embedder, Clock())
    one, none, again = embedding.of_all(["a dog", "...", "a dog"])
    assert one is again is embedding.of("a dog")
    assert none is None
    assert embedder.read == ["a dog"]
    embedding.of_all([f"text {number}" for number in range(KEPT_MAX)])
    embedding.of("a dog")
    assert embedder.read.count("a dog") == 2
