"""What holds of every store of the memory: the tests, for a module of each back-end to take up."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from services.common.errors import NotReady
from services.memory.store import SAME, Object, Store, content_of

NO_KEYS = [
    "",
    "/a",
    "a/",
    "a//b",
    "../a",
    "a/../b",
    ".",
    "a/.",
    "a/b.c",
    "a\\b",
    "a\0",
    "é",
    "a\n",
    "a" * 201,
    "a b",
    "a?b",
]


@dataclass
class Distant:
    """A store that goes away, and comes back with what it holds."""

    store: Store
    leave: Callable[[], object]
    come_back: Callable[[], object]


def keys(store: Store, folder: str = "") -> list[str]:
    return [entry.key for entry in store.list(folder)]


def read(store: Store, key: str) -> bytes | None:
    return content_of(store.get(key))


class StorePromises:
    """Whoever takes this up has a fixture `store`, an empty one, and one `distant`, which is empty as well."""

    page_keys = 10
    """As many keys as the store handles at once."""

    def test_what_was_put_is_got_and_the_newest_counts(self, store: Store) -> None:
        assert store.get("a/b") is None
        store.put("a/b", b"old")
        store.put("a/b", b"")
        assert read(store, "a/b") == b""
        content = bytes(range(256)) * 40_000
        store.put("a/b", content)
        assert read(store, "a/b") == content

    def test_an_etag_changes_with_the_content_and_every_write_and_read_tells_it(self, store: Store) -> None:
        first = store.create("a/b", b"first")
        assert first
        assert store.get("a/b") == Object(b"first", first)
        second = store.put("a/b", b"second")
        third = store.replace("a/b", b"third", second)
        assert third
        assert store.get("a/b") == Object(b"third", third)
        assert len({first, second, third}) == 3

    def test_what_the_reader_has_already_is_not_sent_again(self, store: Store) -> None:
        etag = store.put("a/b", b"first")
        assert store.get("a/b", unless=etag) is SAME
        second = store.put("a/b", b"second")
        assert store.get("a/b", unless=etag) == Object(b"second", second)
        store.delete(["a/b"])
        assert store.get("a/b", unless=second) is None

    def test_creating_never_replaces(self, store: Store) -> None:
        assert store.create("a/b", b"first")
        assert store.create("a/b", b"second") is None
        assert store.create("a/b", b"first") is None, "the same content, but not by this call"
        assert read(store, "a/b") == b"first"
        store.delete(["a/b"])
        assert store.create("a/b", b"third")

    def test_of_many_who_create_at_once_one_wins(self, store: Store) -> None:
        for round_ in range(5):
            with ThreadPoolExecutor(8) as threads:
                etags = list(threads.map(lambda n, r=round_: store.create(f"a/{r}", bytes([n])), range(8)))
            (winner,) = (number for number, etag in enumerate(etags) if etag)
            assert store.get(f"a/{round_}") == Object(bytes([winner]), etags[winner] or "")

    def test_only_who_has_seen_the_object_replaces_it(self, store: Store) -> None:
        assert store.replace("a/b", b"new", "0" * 64) is None
        assert store.get("a/b") is None
        old = store.put("a/b", b"old")
        new = store.replace("a/b", b"new", old)
        assert new
        assert store.replace("a/b", b"stale", old) is None
        assert read(store, "a/b") == b"new"
        store.delete(["a/b"])
        assert store.replace("a/b", b"back", new) is None
        assert store.get("a/b") is None

    def test_of_many_who_replace_at_once_none_loses_what_another_wrote(self, store: Store) -> None:
        store.put("a/count", b"0 nobody")

        def count(writer: int) -> None:
            done = 0
            while done < 6:
                found = store.get("a/count")
                assert isinstance(found, Object)
                number = int(found.content.split()[0]) + 1
                done += store.replace("a/count", b"%d %d-%d" % (number, writer, done), found.etag) is not None

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(count, range(4)))
        assert (read(store, "a/count") or b"").split()[0] == b"24"

    def test_a_listing_has_what_is_in_the_folder_and_below_and_nothing_else(self, store: Store) -> None:
        every = ["a/b", "a-b/c", "a/b-c/d", "a/bc", "A/b", "a/b0/z", "a/b0/a", "z"]
        for key in every:
            store.put(key, key.encode())
        assert sorted(keys(store)) == sorted(every)
        assert sorted(keys(store, "a/")) == ["a/b", "a/b-c/d", "a/b0/a", "a/b0/z", "a/bc"]
        assert keys(store, "a/b0/") == ["a/b0/a", "a/b0/z"]
        assert keys(store, "nothing/") == []
        assert {entry.key: entry.size_bytes for entry in store.list("")} == {key: len(key) for key in every}

    def test_the_objects_of_a_folder_ascend_and_come_page_by_page(self, store: Store) -> None:
        names = ["10-b", "2", "A", "a", "a-b", "a0", "ab", "b"]
        for name in reversed(names):
            store.create(f"f/{name}", b"")
        every = [f"f/{name}" for name in names]
        assert keys(store, "f/") == every
        for limit in (1, 3, 8, 9):
            assert [entry.key for entry in store.list("f/", limit)] == every[:limit]
        assert store.list("f/", limit=0) == ()
        assert [entry.key for entry in store.list("f/", 2, "f/2")] == ["f/A", "f/a"]
        assert [entry.key for entry in store.list("f/", after="f/a-a")] == every[4:]
        assert store.list("f/", after="f/b") == ()

    def test_more_than_a_page_is_listed_and_deleted_whole(self, store: Store) -> None:
        every = [f"many/{number:04d}" for number in range(self.page_keys + 50)]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda key: store.put(key, b""), every))
        assert keys(store, "many/") == every
        assert [entry.key for entry in store.list("many/", self.page_keys + 20)] == every[: self.page_keys + 20]
        store.delete(every)
        assert store.list("") == ()

    def test_an_entry_tells_when_the_object_was_written_by_one_clock(self, store: Store) -> None:
        store.put("a/first", b"")
        store.put("a/second", b"")
        first, second = store.list("a/")
        assert 0 <= second.modified_s - first.modified_s < 60
        assert first.modified_s > 1.7e9

    def test_what_was_deleted_is_gone_and_the_absent_is_no_error(self, store: Store) -> None:
        for key in ("a/b/c", "a/d", "e"):
            store.put(key, b"x")
        store.delete(["a/b/c"])
        store.delete(["a/b/c"])
        store.delete(["e", "never/there"])
        store.delete([])
        assert store.get("a/b/c") is None
        assert keys(store) == ["a/d"]

    def test_writes_and_deletions_of_neighbours_at_once_disturb_nobody(self, store: Store) -> None:
        def work(number: int) -> None:
            for _ in range(20):
                assert store.put(f"a/b/{number}", b"x")
                store.delete([f"a/b/{number}"])

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(work, range(6)))
        assert store.list("") == ()

    def test_a_store_that_keeps_its_promises_says_so_and_leaves_nothing_of_the_trial(self, store: Store) -> None:
        store.check()
        assert store.list("") == ()

    def test_a_store_that_is_away_is_not_ready_whatever_it_is_asked_and_has_lost_nothing_when_it_is_back(
        self, distant: Distant
    ) -> None:
        store = distant.store
        etag = store.put("a/b", b"x")
        distant.leave()
        asks: dict[str, Callable[[], object]] = {
            "get": lambda: store.get("a/b"),
            "get what is the same": lambda: store.get("a/b", unless=etag),
            "get what is not there": lambda: store.get("a/c"),
            "list": lambda: store.list(""),
            "list a folder": lambda: store.list("a/", limit=1),
            "put": lambda: store.put("a/b", b"y"),
            "create": lambda: store.create("c/d", b"y"),
            "replace": lambda: store.replace("a/b", b"y", etag),
            "delete": lambda: store.delete(["a/b"]),
            "check": store.check,
        }

        def refused(name: str) -> bool:
            try:
                asks[name]()
            except NotReady:
                return True
            return False

        with ThreadPoolExecutor(len(asks)) as threads:
            assert [
                name for name, is_refused in zip(asks, threads.map(refused, asks), strict=True) if not is_refused
            ] == []
        distant.come_back()
        assert store.get("a/b") == Object(b"x", etag)
        assert keys(store) == ["a/b"]
        assert store.create("c/d", b"y")

    def test_a_sweep_leaves_the_objects(self, store: Store) -> None:
        store.put("a/b", b"x")
        store.sweep()
        assert keys(store) == ["a/b"]

    @pytest.mark.parametrize("key", NO_KEYS)
    def test_what_is_no_key_is_refused(self, store: Store, key: str) -> None:
        for ask in (
            store.get,
            lambda key: store.delete([key]),
            lambda key: store.put(key, b"x"),
            lambda key: store.create(key, b"x"),
            lambda key: store.replace(key, b"x", "0"),
            lambda key: store.list(key + "/"),
        ):
            with pytest.raises(ValueError, match="is not a key"):
                ask(key)
        assert store.list("") == ()

    def test_a_folder_is_named_by_its_slash(self, store: Store) -> None:
        with pytest.raises(ValueError, match="end it with '/'"):
            store.list("a")
