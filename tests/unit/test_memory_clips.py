"""Generated speech and video of turns: one of each kind, whole or not at all."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import Damaged, FailedPrecondition, InvalidRequest, NotFound, TooLarge
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Clip, ClipKind, Turn, Use
from services.memory.records import digest_of
from services.memory.store import Store
from services.memory.talks import clips
from tests.fake_store import FakeStore
from tests.talking import MP4, TENANT, WAV, Replica, keys_of, killed_at, once, turn

SPEECH = ClipKind.SPEECH


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def replica(store: Store) -> Replica:
    memory = Replica(store)
    memory.add()
    memory.say(turn(1))
    return memory


def put(memory: Replica, content: bytes = WAV, kind: ClipKind = SPEECH, turn_id: str = "turn-1") -> Clip:
    return memory.talks.put_clip(TENANT, "ada", "ann", "talk", turn_id, kind, content)


def get(memory: Replica, kind: ClipKind = SPEECH, turn_id: str = "turn-1", person: str = "ann") -> bytes:
    return memory.talks.clip(TENANT, "ada", person, "talk", turn_id, kind)


def test_clips_are_read_as_they_were_kept_and_listed_with_their_turn(store: Store) -> None:
    memory = replica(store)
    memory.say(turn(2))
    speech, video = put(memory), put(memory, MP4, ClipKind.VIDEO)
    assert speech == Clip(SPEECH, digest_of(WAV), len(WAV))
    assert (get(memory), get(memory, ClipKind.VIDEO)) == (WAV, MP4)
    second, first = memory.talks.turns(TENANT, "ada", "ann", "talk", 50, "").turns
    assert (first.clips, second.clips) == ((speech, video), ())


def test_turns_that_were_said_at_the_same_moment_keep_their_clips_apart(store: Store) -> None:
    memory = replica(store)
    twins = [replace(turn(2), id=name) for name in ("ab", "ab-c", "ab-z", "ab-speech", "ab-speech-x")]
    placed = {each.id: f"5000000000-{each.id}" for each in twins}
    memory.talks.restore(memory.talk(), "talk", [(placed[each.id], each) for each in twins])
    kept = {}
    for kind, content in ((ClipKind.VIDEO, MP4), (SPEECH, WAV), (SPEECH, WAV + b"!")):
        for each in twins:
            kept[each.id, kind] = put(memory, content + each.id.encode(), kind, each.id)
    listed: list[Turn] = []
    after = ""
    while not listed or after:
        read = memory.talks.turns(TENANT, "ada", "ann", "talk", 1, after)
        page, after = read.turns, read.following
        listed += page
    assert {(each.id, clip.kind): clip for each in listed for clip in each.clips} == kept
    assert [get(memory, SPEECH, each.id) for each in twins] == [WAV + b"!" + each.id.encode() for each in twins]


def test_a_page_of_turns_asks_once_for_all_its_clips(fake: FakeStore) -> None:
    memory = replica(fake)
    for number in range(2, 30):
        memory.say(turn(number))
        put(memory, WAV, SPEECH, f"turn-{number}")
        put(memory, MP4, ClipKind.VIDEO, f"turn-{number}")
    listings: list[str] = []
    fake.before = lambda operation, key: listings.append(key) if operation == "list" and "/clips/" in key else None
    listed = memory.talks.turns(TENANT, "ada", "ann", "talk", 20, "")
    page, after = listed.turns, listed.following
    assert [len(each.clips) for each in page] == [2] * 20
    page = memory.talks.turns(TENANT, "ada", "ann", "talk", 20, after).turns
    assert [len(each.clips) for each in page] == [2] * 8 + [0]
    assert len(listings) == 2


def test_clips_that_were_replaced_and_not_yet_deleted_do_not_hide_those_of_later_turns(fake: FakeStore) -> None:
    memory = replica(fake)
    memory.say(turn(2))
    for turn_id in ("turn-1", "turn-2"):
        put(memory, turn_id=turn_id)
    (first, second) = sorted(keys_of(fake, "/clips/"))
    for number in range(20):
        fake.put(f"{first[:-64]}{number:064x}", WAV)
    two, one = memory.talks.turns(TENANT, "ada", "ann", "talk", 50, "").turns
    assert [clip.digest for clip in two.clips] == [f"{19:064x}"]
    assert [clip.digest for clip in one.clips] == [second[-64:]]


def test_a_clip_that_is_replaced_is_gone_and_the_other_kind_stays(store: Store) -> None:
    memory = replica(store)
    put(memory, MP4, ClipKind.VIDEO)
    put(memory)
    put(memory, WAV + b"!")
    put(memory, WAV + b"!")
    assert (get(memory), get(memory, ClipKind.VIDEO)) == (WAV + b"!", MP4)
    assert len(keys_of(store, "/clips/")) == 2


def test_a_clip_killed_at_any_step_leaves_the_old_one_or_the_new_one() -> None:
    for step in range(100):
        store = FakeStore()
        memory = replica(store)
        put(memory)
        killed = killed_at(store, step, lambda memory=memory: put(memory, WAV + b"!"))  # type: ignore[misc]
        after = Replica(store)
        assert get(after) in (WAV, WAV + b"!")
        put(after, WAV + b"!")
        assert get(after) == WAV + b"!"
        assert len(keys_of(store, "/clips/")) == 1
        if not killed:
            assert step > 5
            return
    pytest.fail("the clip was never kept")


@pytest.mark.parametrize("other", [WAV + b"2", WAV])
@pytest.mark.parametrize("operation", ["put", "list", "delete"])
def test_of_two_that_replace_a_clip_at_once_one_stays(fake: FakeStore, operation: str, other: bytes) -> None:
    memory = replica(fake)
    put(memory)
    entered = once(fake, operation, "/clips/", lambda: put(Replica(fake), other))
    put(memory, WAV + b"1")
    assert entered
    assert get(memory) in (WAV + b"1", other)
    assert len(keys_of(fake, "/clips/")) == 1


def test_a_damaged_clip_is_never_served_and_the_error_names_it(store: Store) -> None:
    memory = replica(store)
    put(memory)
    (key,) = keys_of(store, "/clips/")
    store.put(key, WAV[:-1] + b"?")
    with pytest.raises(Damaged, match=re.escape(key)):
        get(memory)


def test_what_is_not_there_is_not_found(fake: FakeStore) -> None:
    memory = replica(fake)
    put(memory)
    objects = dict(fake.objects)
    for ask in (
        lambda: get(memory, ClipKind.VIDEO),
        lambda: get(memory, turn_id="turn-2"),
        lambda: get(memory, person="bob"),
        lambda: put(memory, turn_id="turn-2"),
    ):
        with pytest.raises(NotFound, match="ListTurns"):
            ask()
    fake.delete(keys_of(fake, "/turns/"))
    for ask in (lambda: get(memory), lambda: put(memory)):
        with pytest.raises(NotFound, match="turn 'turn-1' is unknown"):
            ask()
    assert all(key in objects for key in fake.objects)


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        (SPEECH, b"", "it is missing"),
        (SPEECH, MP4, "send a WAV file"),
        (SPEECH, b"RIFF\x00\x00\x00\x00AVI ", "send a WAV file"),
        (ClipKind.VIDEO, WAV, "send an MP4 file"),
        (ClipKind.VIDEO, b"", "send an MP4 file"),
    ],
)
def test_what_is_no_clip_of_its_kind_is_refused(fake: FakeStore, kind: ClipKind, content: bytes, said: str) -> None:
    memory = replica(fake)
    with pytest.raises(InvalidRequest, match=f"^content: .*{said}"):
        put(memory, content, kind)
    assert keys_of(fake, "/clips/") == []


def test_a_clip_over_the_limit_is_refused_and_one_at_the_limit_is_kept(fake: FakeStore) -> None:
    memory = replica(fake)
    largest = WAV + bytes(clips.CLIP_BYTES_MAX - len(WAV))
    with pytest.raises(TooLarge, match=r"^content: .*64 MiB"):
        put(memory, largest + b"!")
    assert put(memory, largest).size_bytes == 64 * 2**20


def test_without_the_permission_no_clip_is_kept(fake: FakeStore) -> None:
    memory = Replica(fake)
    memory.add(uses=(Use.CLONE_VOICE,))
    with pytest.raises(FailedPrecondition, match="keep_turns"):
        put(memory)
