"""The rules of the memory, over the store in the test's memory and over the one on disk."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import emotions
from services.common.errors import (
    AlreadyExists,
    Damaged,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    NotReady,
    TooLarge,
)
from services.memory import checks, conversation
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import (
    Consent,
    EmotionBank,
    NewIdentity,
    Profile,
    ReferenceKind,
    Turn,
    Use,
)
from services.memory.memory import Memory
from services.memory.ready import ready_identities
from services.memory.store import Store, content_of
from tests.fake_store import FakeStore

ADA = NewIdentity(
    id="ada",
    profile=Profile("Ada", "young", "female", "mid", "en", "Likes engines."),
    consent=Consent("the test", "2026-01-31", tuple(Use)),
    portrait=b"\x89PNG\r\n\x1a\n" + b"portrait" * 100,
    voice=b"RIFF\x00\x00\x00\x00WAVE" + b"voice" * 100,
)


def turn(number: int) -> Turn:
    return Turn(f"turn-{number}", f"question {number}", "sad", f"answer {number}", "caring")


def keys(store: Store, folder: str = "") -> list[str]:
    return [entry.key for entry in store.list(folder)]


def read(store: Store, key: str) -> bytes:
    content = content_of(store.get(key))
    assert content is not None
    return content


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


# Identities.


def test_an_added_identity_is_there_as_it_was_added(store: Store) -> None:
    memory = Memory(store)
    added = memory.add(ADA)
    assert (added.id, added.profile, added.emotion_bank) == ("ada", ADA.profile, "default")
    assert set(added.consent.uses) == set(Use)
    assert added.portrait.size_bytes == len(ADA.portrait)
    again = Memory(store)
    assert again.identity("ada") == added
    assert again.identities() == (added,)
    assert again.reference("ada", ReferenceKind.PORTRAIT) == ADA.portrait
    assert again.reference("ada", ReferenceKind.VOICE) == ADA.voice


def test_identities_are_listed_by_id(store: Store) -> None:
    memory = Memory(store)
    for name in ("zoe", "a-b", "ab", "a"):
        memory.add(replace(ADA, id=name))
    assert [identity.id for identity in memory.identities()] == ["a", "a-b", "ab", "zoe"]


def test_an_unknown_identity_is_not_found_and_never_another(store: Store) -> None:
    memory = Memory(store)
    memory.add(ADA)
    for ask in (
        lambda: memory.identity("bob"),
        lambda: memory.recall("bob", "talk", 4),
        lambda: memory.remember("bob", "talk", turn(1)),
        lambda: memory.reference("bob", ReferenceKind.VOICE),
        lambda: memory.remove("bob"),
    ):
        with pytest.raises(NotFound, match="'bob'"):
            ask()


def test_a_taken_id_is_refused_and_what_is_there_stays(store: Store) -> None:
    memory = Memory(store)
    added = memory.add(ADA)
    objects = store.list("")
    with pytest.raises(AlreadyExists, match="'ada'"):
        memory.add(replace(ADA, profile=replace(ADA.profile, name="Other"), portrait=ADA.portrait + b"!"))
    assert memory.identity("ada") == added
    assert store.list("") == objects


def test_of_many_who_add_the_same_id_at_once_one_wins_and_nothing_of_the_others_is_kept(store: Store) -> None:
    replicas = [Memory(store) for _ in range(6)]

    def add(number: int) -> bool:
        try:
            replicas[number].add(replace(ADA, portrait=ADA.portrait + bytes([number])))
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        won = list(threads.map(add, range(6)))
    assert won.count(True) == 1
    kept = replicas[0].reference("ada", ReferenceKind.PORTRAIT)
    assert kept == ADA.portrait + bytes([won.index(True)])
    assert len(store.list("")) == 3


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../ada",
        "..",
        ".",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "ada\n",
        "ada\x00",
        "Ada",
        "1ada",
        "-ada",
        "ad a",
        "a" * 64,
        "аda",  # noqa: RUF001 - the first letter is Cyrillic
        "adα",  # noqa: RUF001 - the last letter is Greek
        "ad\u200ba",
        "%2e%2e",
    ],
)
def test_a_name_that_is_not_allowed_is_refused_with_field_value_and_remedy(fake: FakeStore, name: str) -> None:
    memory = Memory(fake)
    asks: list[tuple[str, Callable[[], object]]] = [
        ("identity", lambda: memory.identity(name)),
        ("identity", lambda: memory.recall(name, "talk", 4)),
        ("identity", lambda: memory.remember(name, "talk", turn(1))),
        ("identity", lambda: memory.reference(name, ReferenceKind.VOICE)),
        ("identity", lambda: memory.remove(name)),
        ("header.id", lambda: memory.add(replace(ADA, id=name))),
        ("header.emotion_bank", lambda: memory.add(replace(ADA, emotion_bank=name))),
    ]
    for field, ask in asks:
        with pytest.raises(InvalidRequest) as refusal:
            ask()
        shown = ascii(name) if len(name) <= 63 else "aaaa"
        assert str(refusal.value).startswith(f"{field}: ")
        assert shown in str(refusal.value)
        assert "use 1 to 63 lower-case letters" in str(refusal.value)
    assert fake.objects == {}


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "é", "a" * 64, "a_b", "a\n"])
def test_a_conversation_or_turn_name_that_is_not_allowed_is_refused(store: Store, name: str) -> None:
    memory = Memory(store)
    memory.add(ADA)
    objects = store.list("")
    for field, ask in (
        ("conversation", lambda: memory.remember("ada", name, turn(1))),
        ("conversation", lambda: memory.recall("ada", name, 4)),
        ("turn.id", lambda: memory.remember("ada", "talk", replace(turn(1), id=name))),
    ):
        with pytest.raises(InvalidRequest, match=f"^{field}: .*use 1 to 63 letters"):
            ask()
    assert store.list("") == objects


@pytest.mark.parametrize("name", ["a", "-", "A-1", "x" * 63])
def test_every_allowed_conversation_name_works(store: Store, name: str) -> None:
    memory = Memory(store)
    memory.add(ADA)
    memory.remember("ada", name, replace(turn(1), id=name))
    assert [row.id for row in memory.recall("ada", name, 4).turns] == [name]


@pytest.mark.parametrize(
    ("field", "new"),
    [
        ("header.profile.name", replace(ADA, profile=replace(ADA.profile, name=" "))),
        ("header.profile.name", replace(ADA, profile=replace(ADA.profile, name="x" * 101))),
        ("header.profile.age", replace(ADA, profile=replace(ADA.profile, age="old"))),
        ("header.profile.gender", replace(ADA, profile=replace(ADA.profile, gender=""))),
        ("header.profile.timbre", replace(ADA, profile=replace(ADA.profile, timbre="MID"))),
        ("header.profile.language", replace(ADA, profile=replace(ADA.profile, language="eng"))),
        ("header.profile.about", replace(ADA, profile=replace(ADA.profile, about="x" * 501))),
        ("header.consent.granted_by", replace(ADA, consent=replace(ADA.consent, granted_by=""))),
        ("header.consent.granted_on", replace(ADA, consent=replace(ADA.consent, granted_on="2026-02-30"))),
        ("header.consent.granted_on", replace(ADA, consent=replace(ADA.consent, granted_on="20260203"))),
        ("header.consent.uses", replace(ADA, consent=replace(ADA.consent, uses=("fly",)))),
        ("header.emotion_bank", replace(ADA, emotion_bank="nobodys")),
        ("portrait", replace(ADA, portrait=b"")),
        ("portrait", replace(ADA, portrait=b"GIF89a")),
        ("voice", replace(ADA, voice=b"")),
        ("voice", replace(ADA, voice=b"ID3 mp3")),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_kept(fake: FakeStore, field: str, new: NewIdentity) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(field)}: "):
        Memory(fake).add(new)
    assert fake.objects == {}


def test_a_reference_over_the_limit_is_refused_and_one_at_the_limit_is_kept(fake: FakeStore) -> None:
    padding = b"\0" * (checks.REFERENCE_BYTES_MAX - len(ADA.portrait))
    with pytest.raises(TooLarge, match=r"^portrait: .*16 MiB"):
        Memory(fake).add(replace(ADA, portrait=ADA.portrait + padding + b"\0"))
    assert fake.objects == {}
    assert Memory(fake).add(replace(ADA, portrait=ADA.portrait + padding)).portrait.size_bytes == 16 * 2**20


# Damage.


@pytest.mark.parametrize("kind", list(ReferenceKind))
def test_a_damaged_reference_is_never_served_and_the_error_names_it(store: Store, kind: ReferenceKind) -> None:
    memory = Memory(store)
    added = memory.add(ADA)
    digest = (added.portrait if kind is ReferenceKind.PORTRAIT else added.voice).digest
    (key,) = (key for key in keys(store, "kept/ada/") if key.endswith(digest))
    content = bytearray(read(store, key))
    content[-1] ^= 1
    store.put(key, bytes(content))
    with pytest.raises(Damaged, match=re.escape(key)):
        memory.reference("ada", kind)
    store.delete([key])
    with pytest.raises(Damaged, match=f"{re.escape(key)}.*missing"):
        memory.reference("ada", kind)


def test_a_damaged_record_or_turn_is_never_served_and_the_identity_can_be_removed(store: Store) -> None:
    memory = Memory(store)
    memory.add(ADA)
    memory.remember("ada", "talk", turn(1))
    (turn_key,) = (key for key in keys(store, "kept/ada/") if "/turns/" in key)
    store.put(turn_key, read(store, turn_key).replace(b"question", b"Question"))
    with pytest.raises(Damaged, match=re.escape(turn_key)):
        memory.recall("ada", "talk", 4)
    store.put("identities/ada", read(store, "identities/ada")[:-1])
    with pytest.raises(Damaged, match="identities/ada"):
        memory.identity("ada")
    memory.remove("ada")
    assert store.list("") == ()


# Emotion banks.


def test_the_default_bank_has_all_that_the_wheel_has(store: Store) -> None:
    memory = Memory(store)
    memory.add(ADA)
    bank = memory.recall("ada", "", 0).emotion_bank
    wheel = emotions.load()
    assert bank == EmotionBank("default", wheel.classes, wheel.styles)
    assert (len(bank.face_classes), len(bank.voice_styles)) == (8, 9)


def test_a_stored_bank_is_recalled_with_the_identities_that_use_it(store: Store) -> None:
    memory = Memory(store)
    calm = EmotionBank("calm", ("neutral", "sad"), ("default", "whispering"))
    memory.banks.put(calm)
    memory.add(replace(ADA, emotion_bank="calm"))
    memory.add(replace(ADA, id="bob"))
    assert memory.recall("ada", "", 0).emotion_bank == calm
    assert memory.recall("bob", "", 0).emotion_bank.name == "default"


@pytest.mark.parametrize(
    ("field", "bank"),
    [
        ("emotion_bank.name", EmotionBank("../x", ("happy",), ("default",))),
        ("emotion_bank.name", EmotionBank("default", ("happy",), ("default",))),
        ("emotion_bank.face_classes", EmotionBank("few", (), ("default",))),
        ("emotion_bank.face_classes", EmotionBank("few", ("joyful",), ("default",))),
        ("emotion_bank.voice_styles", EmotionBank("few", ("happy",), ("singing",))),
    ],
)
def test_a_bank_that_the_wheel_does_not_know_is_refused(fake: FakeStore, field: str, bank: EmotionBank) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(field)}: "):
        Memory(fake).banks.put(bank)
    assert fake.objects == {}


# Turns.


def test_the_last_turns_are_recalled_oldest_first(store: Store) -> None:
    memory = Memory(store)
    memory.add(ADA)
    for number in range(1, 13):
        memory.remember("ada", "talk", turn(number))
    memory.remember("ada", "other", turn(99))
    assert memory.recall("ada", "talk", 3).turns == (turn(10), turn(11), turn(12))
    assert memory.recall("ada", "talk", 1000).turns == tuple(turn(number) for number in range(1, 13))
    assert memory.recall("ada", "talk", 0).turns == ()
    assert memory.recall("ada", "", 4).turns == ()
    assert memory.recall("ada", "never", 4).turns == ()


def test_recalling_the_last_turns_reads_only_those(fake: FakeStore) -> None:
    memory = Memory(fake)
    memory.add(ADA)
    for number in range(50):
        memory.remember("ada", "talk", turn(number))
    read: list[str] = []
    fake.before = lambda operation, key: read.append(key) if operation == "get" else None
    assert len(memory.recall("ada", "talk", 3).turns) == 3
    assert len([key for key in read if "/turns/" in key]) == 3
    assert len(read) == 4


def test_long_turns_are_recalled_only_as_far_as_one_message_holds_them(fake: FakeStore) -> None:
    memory = Memory(fake)
    memory.add(ADA)
    for number in range(30):
        memory.remember("ada", "talk", replace(turn(number), user_text="x" * 32_000, reply_text="y" * 32_000))
    turns = memory.recall("ada", "talk", 30).turns
    assert [row.id for row in turns] == [f"turn-{number}" for number in range(30 - len(turns), 30)]
    assert 10 < len(turns) < conversation.RECALL_BYTES_MAX / 64_000


def test_keeping_the_same_turn_id_again_changes_nothing(store: Store) -> None:
    memory = Memory(store)
    memory.add(ADA)
    memory.remember("ada", "talk", turn(1))
    memory.remember("ada", "talk", turn(2))
    objects = store.list("")
    memory.remember("ada", "talk", turn(1))
    memory.remember("ada", "talk", replace(turn(1), reply_text="something else"))
    assert store.list("") == objects
    assert memory.recall("ada", "talk", 4).turns == (turn(1), turn(2))


def test_writers_at_once_lose_nothing_and_every_reader_sees_one_order(store: Store) -> None:
    replicas = [Memory(store) for _ in range(4)]
    replicas[0].add(ADA)

    def write(replica: int) -> None:
        for number in range(8):
            replicas[replica].remember("ada", "talk", turn(100 * replica + number))
            replicas[replica].remember("ada", "talk", turn(9999))  # all of them, many times, the same

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    seen = {memory.recall("ada", "talk", 1000).turns for memory in (*replicas, Memory(store))}
    (turns,) = seen
    names = [row.id for row in turns]
    assert sorted(names) == sorted([f"turn-{100 * r + n}" for r in range(4) for n in range(8)] + ["turn-9999"])
    for replica in range(4):
        own = [f"turn-{100 * replica + number}" for number in range(8)]
        assert [name for name in names if name in own] == own


def test_a_writer_between_the_two_steps_of_another_gets_the_same_place_and_the_id_decides(fake: FakeStore) -> None:
    memory = Memory(fake)
    memory.add(ADA)
    memory.remember("ada", "talk", turn(1))
    entered: list[str] = []

    def come_between(operation: str, key: str) -> None:
        if operation == "create" and "/turn-ids/" in key and not entered:
            entered.append(key)
            memory.remember("ada", "talk", turn(3))

    fake.before = come_between
    memory.remember("ada", "talk", turn(2))
    assert entered
    assert set(memory.recall("ada", "talk", 2).turns) == {turn(2), turn(3)}
    assert memory.recall("ada", "talk", 3).turns[0] == turn(1)
    assert memory.recall("ada", "talk", 3).turns == Memory(fake).recall("ada", "talk", 3).turns


def test_the_same_turn_id_from_two_writers_at_once_is_one_turn(fake: FakeStore) -> None:
    memory = Memory(fake)
    memory.add(ADA)
    entered: list[str] = []

    def come_between(operation: str, key: str) -> None:
        if operation == "create" and "/turn-ids/" in key and not entered:
            entered.append(key)
            memory.remember("ada", "talk", turn(2))
            memory.remember("ada", "talk", turn(1))

    fake.before = come_between
    memory.remember("ada", "talk", replace(turn(1), reply_text="the slower one"))
    assert memory.recall("ada", "talk", 4).turns == (turn(2), turn(1))


@pytest.mark.parametrize("field", ["id", "user_text", "user_emotion", "reply_text", "reply_emotion"])
def test_a_turn_with_an_empty_field_is_refused(store: Store, field: str) -> None:
    memory = Memory(store)
    memory.add(ADA)
    objects = store.list("")
    broken = Turn(**{**vars(turn(1)), field: ""})
    with pytest.raises(InvalidRequest, match=f"^turn.{field}: "):
        memory.remember("ada", "talk", broken)
    assert store.list("") == objects


@pytest.mark.parametrize("field", ["user_emotion", "reply_emotion"])
def test_a_feeling_that_is_no_label_of_the_wheel_is_refused(fake: FakeStore, field: str) -> None:
    memory = Memory(fake)
    memory.add(ADA)
    with pytest.raises(InvalidRequest, match=f"^turn.{field}: 'meh' is unknown; use one of: neutral"):
        memory.remember("ada", "talk", Turn(**{**vars(turn(1)), field: "meh"}))


def test_without_the_permission_no_turn_is_kept(store: Store) -> None:
    memory = Memory(store)
    memory.add(replace(ADA, consent=replace(ADA.consent, uses=(Use.ANIMATE_FACE, Use.CLONE_VOICE))))
    objects = store.list("")
    with pytest.raises(FailedPrecondition, match="keep_turns"):
        memory.remember("ada", "talk", turn(1))
    assert store.list("") == objects


# Removal.


def test_a_removal_leaves_no_object_and_touches_no_other_identity(store: Store) -> None:
    memory = Memory(store)
    memory.add(replace(ADA, id="ada-2"))
    memory.remember("ada-2", "talk", turn(1))
    others = store.list("")
    memory.add(ADA)
    memory.remember("ada", "talk", turn(1))
    memory.remember("ada", "walk", turn(2))
    added = len(store.list("")) - len(others)
    assert memory.remove("ada") == added == 7
    assert store.list("") == others
    with pytest.raises(NotFound):
        memory.recall("ada", "talk", 4)


def test_nothing_of_a_removed_identity_is_in_the_next_of_that_name(store: Store) -> None:
    memory = Memory(store)
    memory.add(ADA)
    memory.remember("ada", "talk", turn(1))
    memory.remove("ada")
    memory.add(ADA)
    assert memory.recall("ada", "talk", 4).turns == ()


@pytest.mark.parametrize("step", ["turn-ids", "turns"])
def test_a_turn_that_comes_during_the_removal_is_not_kept(fake: FakeStore, step: str) -> None:
    memory = Memory(fake)
    memory.add(ADA)
    entered: list[str] = []

    def remove(operation: str, key: str) -> None:
        if operation == "create" and f"/{step}/" in key and not entered:
            entered.append(key)
            Memory(fake).remove("ada")

    fake.before = remove
    with pytest.raises(NotFound):
        memory.remember("ada", "talk", turn(1))
    assert entered
    assert fake.objects == {}


@pytest.mark.parametrize("moment", ["before the record", "after the record"])
def test_an_addition_that_a_removal_elsewhere_meets_is_whole_or_gone(fake: FakeStore, moment: str) -> None:
    memory = Memory(fake)
    entered: list[str] = []

    def remove(operation: str, key: str) -> None:
        wanted = ("create", "identities/ada") if moment == "before the record" else ("get", "removing/ada")
        written = any(name.startswith("kept/") for name in fake.objects)
        if (operation, key) == wanted and written and not entered:
            entered.append(key)
            Memory(fake).remove("ada")

    fake.before = remove
    with pytest.raises(AlreadyExists, match="removed while it was being added"):
        memory.add(ADA)
    assert entered
    assert fake.objects == {}


class SlowRemoval:
    """A removal by another process that stops when it has looked for the record, until it may go on."""

    def __init__(self, store: FakeStore) -> None:
        store.objects["kept/ada/0/references/0"] = b"of a killed addition"
        self._stopped = threading.Event()
        self._may_go_on = threading.Event()
        self._store = store
        self._thread = threading.Thread(target=lambda: Memory(store).remove("ada"))

    def __call__(self, operation: str, key: str) -> None:
        marked = "removing/ada" in self._store.objects
        if threading.current_thread() is self._thread and marked and operation == "list":
            self._stopped.set()
            assert self._may_go_on.wait(10)

    def start(self) -> None:
        self._thread.start()
        assert self._stopped.wait(10)

    def finish(self) -> None:
        self._may_go_on.set()
        self._thread.join(10)


def test_an_addition_is_taken_back_when_a_removal_elsewhere_is_about_to_delete_its_references(fake: FakeStore) -> None:
    removal = SlowRemoval(fake)

    def before(operation: str, key: str) -> None:
        removal(operation, key)
        if operation == "put" and key.startswith("kept/") and "removing/ada" not in fake.objects:
            removal.start()

    fake.before = before
    with pytest.raises(AlreadyExists, match="removed while it was being added"):
        Memory(fake).add(ADA)
    removal.finish()
    assert fake.objects == {}


def test_a_removal_takes_the_record_of_what_it_deleted_with_it(fake: FakeStore) -> None:
    removal = SlowRemoval(fake)
    fake.before = removal
    removal.start()
    Memory(fake).remove("ada")
    Memory(fake).add(ADA)
    removal.finish()
    assert fake.objects == {}


# Crashes: the process ends before its n-th step, for every n.


class Killed(BaseException):
    """The end of the process."""


def killed_at(store: FakeStore, step: int, work: Callable[[], object]) -> bool:
    """Runs `work` until its step of that number, from 0; tells whether it was killed."""
    steps = 0

    def count(operation: str, key: str) -> None:
        nonlocal steps
        steps += 1
        if steps > step:
            raise Killed

    store.before = count
    try:
        work()
    except Killed:
        return True
    finally:
        store.before = lambda operation, key: None
    return False


def test_an_addition_killed_at_any_step_is_there_whole_or_not_at_all_and_can_be_made_again() -> None:
    for step in range(100):
        store = FakeStore()
        killed = killed_at(store, step, lambda store=store: Memory(store).add(ADA))  # type: ignore[misc]
        memory = Memory(store)
        memory.prepare()
        if not memory.identities():
            memory.add(ADA)
        assert memory.reference("ada", ReferenceKind.PORTRAIT) == ADA.portrait
        assert memory.reference("ada", ReferenceKind.VOICE) == ADA.voice
        assert len(store.list("")) == 3
        memory.remove("ada")
        assert store.objects == {}
        if not killed:
            assert step > 5
            return
    pytest.fail("the addition never ended")


def test_what_a_killed_addition_left_can_be_removed(fake: FakeStore) -> None:
    assert killed_at(fake, 4, lambda: Memory(fake).add(ADA))
    assert [key.split("/")[0] for key in fake.objects] == ["kept", "kept"]
    assert Memory(fake).remove("ada") == 2
    assert fake.objects == {}


def test_a_removal_killed_at_any_step_has_happened_or_not_and_is_ended_at_the_next_start() -> None:
    for step in range(100):
        store = FakeStore()
        memory = Memory(store)
        memory.add(ADA)
        memory.remember("ada", "talk", turn(1))
        before = dict(store.objects)
        killed = killed_at(store, step, lambda memory=memory: memory.remove("ada"))  # type: ignore[misc]
        after = Memory(store)
        after.prepare()
        assert store.objects in ({}, before)
        if not killed:
            assert store.objects == {}
            assert step > 5
            return
    pytest.fail("the removal never ended")


def test_a_turn_killed_at_any_step_is_kept_or_not_and_kept_once_when_sent_again() -> None:
    for step in range(100):
        store = FakeStore()
        memory = Memory(store)
        memory.add(ADA)
        memory.remember("ada", "talk", turn(1))
        killed = killed_at(store, step, lambda memory=memory: memory.remember("ada", "talk", turn(2)))  # type: ignore[misc]
        after = Memory(store)
        assert after.recall("ada", "talk", 4).turns in ((turn(1),), (turn(1), turn(2)))
        after.remember("ada", "talk", turn(2))
        after.remember("ada", "talk", turn(3))
        assert after.recall("ada", "talk", 4).turns == (turn(1), turn(2), turn(3))
        if not killed:
            assert step > 4
            return
    pytest.fail("the turn was never kept")


def test_a_store_that_fails_in_the_middle_of_an_addition_leaves_nothing(fake: FakeStore) -> None:
    def fail(operation: str, key: str) -> None:
        if (operation, key) == ("create", "identities/ada"):
            raise NotReady("the store is away")

    fake.before = fail
    with pytest.raises(NotReady, match="away"):
        Memory(fake).add(ADA)
    assert fake.objects == {}


# Ready identities.


def test_the_ready_identities_are_there_from_the_start(store: Store) -> None:
    memory = Memory(store, [ADA, replace(ADA, id="bob")])
    memory.prepare()
    assert [identity.id for identity in memory.identities()] == ["ada", "bob"]
    objects = store.list("")
    Memory(store, [ADA, replace(ADA, id="bob")]).prepare()
    assert store.list("") == objects


def test_a_removed_ready_identity_stays_removed_and_can_be_added_again(store: Store) -> None:
    Memory(store, [ADA]).prepare()
    Memory(store, [ADA]).remove("ada")
    again = Memory(store, [ADA])
    again.prepare()
    assert again.identities() == ()
    assert keys(store) == ["removed/ada"]
    again.add(ADA)
    assert again.identity("ada").profile == ADA.profile


def test_replicas_that_start_at_once_share_the_ready_identities(store: Store) -> None:
    replicas = [Memory(store, [ADA]) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(Memory.prepare, replicas))
    assert [identity.id for identity in replicas[0].identities()] == ["ada"]
    assert len(store.list("")) == 3


def test_the_people_who_come_with_the_project_pass_every_check_and_differ() -> None:
    store = FakeStore()
    memory = Memory(store, ready_identities())
    memory.prepare()
    people = memory.identities()
    assert [person.id for person in people] == ["amara", "anna", "ingrid", "kenji", "leila", "marcus", "walter"]
    assert len({person.voice.digest for person in people}) == len({person.portrait.digest for person in people}) == 7
    assert {person.profile.gender for person in people} == {"female", "male"}
    assert len({person.profile.age for person in people}) >= 3
    assert all(set(person.consent.uses) == set(Use) for person in people)
