"""Stores of layout 2 are read as their users saw them; the store in the folder beside was written by that version."""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from minio import Minio
from minio.error import S3Error

from services.common.errors import Damaged, FailedPrecondition
from services.memory import layout_2
from services.memory.layout_2 import Identity, User
from services.memory.layout_2_source import BucketSource, FolderSource, Source

FIXTURE = Path(__file__).parents[1] / "layout_2"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text("utf-8"))


class FakeBucket:
    """A bucket with the objects of a folder, as the S3 client tells of it."""

    def __init__(self, folder: Path) -> None:
        self._objects = folder / "objects"

    def list_objects(self, bucket: str, prefix: str, recursive: bool = False) -> Iterator[SimpleNamespace]:
        assert bucket == "memory"
        seen = set()
        paths = (path for path in self._objects.rglob("*") if path.is_file())
        for key in sorted(path.relative_to(self._objects).as_posix() for path in paths):
            if not key.startswith(prefix):
                continue
            name, slash, _ = key.removeprefix(prefix).partition("/")
            folder = f"{prefix}{name}/"
            if recursive or not slash:
                changed = datetime.fromtimestamp((self._objects / key).stat().st_mtime, UTC)
                yield SimpleNamespace(object_name=key, last_modified=changed, is_dir=False)
            elif folder not in seen:
                seen.add(folder)
                yield SimpleNamespace(object_name=folder, last_modified=None, is_dir=True)

    def get_object(self, bucket: str, key: str) -> Any:
        assert bucket == "memory"
        path = self._objects / key
        if not path.is_file():
            raise S3Error(cast("Any", None), "NoSuchKey", "there is none", key, None, None)
        response = io.BytesIO(path.read_bytes())
        return SimpleNamespace(read=response.read, close=response.close, release_conn=lambda: None)


class Watched(FolderSource):
    """Notes the objects that are read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.keys_read: list[str] = []

    def read(self, key: str) -> bytes:
        self.keys_read.append(key)
        return super().read(key)


def in_bucket(folder: Path) -> Source:
    return BucketSource(cast("Minio", FakeBucket(folder)), "memory")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(FIXTURE / "store", tmp_path / "store"))


def described(content: bytes) -> dict[str, object]:
    return {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def turns_of(source: Source, user: User, conversation: str) -> list[dict[str, Any]]:
    read = layout_2.turns(source, user, conversation)
    return [turn | {"clips": {kind: described(clip) for kind, clip in clips.items()}} for turn, clips in read]


def identity_of(source: Source, identity: Identity) -> dict[str, Any]:
    for reference, content in layout_2.references(source, identity):
        assert described(content) == {"size_bytes": reference["size_bytes"], "sha256": reference["digest"]}
    users = [
        {
            "kind": user.kind,
            "name": user.name,
            "generation": user.generation,
            "conversations": {name: turns_of(source, user, name) for name in layout_2.conversations(source, user)},
        }
        for user in layout_2.users(source, identity)
    ]
    versions = list(layout_2.versions(source, identity))
    assert {(each.pop("id"), each.pop("generation")) for each in versions} == {(identity.id, identity.generation)}
    return {
        "id": identity.id,
        "generation": identity.generation,
        "versions": versions,
        "derived": [row | described(content) for row, content in layout_2.derived(source, identity)],
        "emotion_references": [
            row | described(content) for row, content in layout_2.emotion_references(source, identity)
        ],
        "examples": list(layout_2.examples(source, identity)),
        "people": users,
    }


def tenant_of(source: Source, tenant: str) -> dict[str, Any]:
    return {
        "retention": layout_2.retention(source, tenant),
        "banks": list(layout_2.banks(source, tenant)),
        "emotion_references": [
            row | described(content) for row, content in layout_2.emotion_references(source, tenant)
        ],
        "examples": list(layout_2.examples(source, tenant)),
        "audits": list(layout_2.audits(source, tenant)),
        "removed": list(layout_2.removed(source, tenant)),
        "identities": [identity_of(source, identity) for identity in layout_2.identities(source, tenant)],
    }


def everything_in(source: Source) -> dict[str, Any]:
    return {tenant: tenant_of(source, tenant) for tenant in layout_2.tenants(source)}


def in_one_order(tenants: dict[str, Any]) -> dict[str, Any]:
    """Sorts derived data and users, which have no order."""
    for identity in (identity for tenant in tenants.values() for identity in tenant["identities"]):
        identity["derived"].sort(key=lambda row: row["sha256"])
        identity["people"].sort(key=lambda user: (user["kind"], user["name"]))
    return tenants


def identity(source: Source, name: str) -> Identity:
    return next(each for each in layout_2.identities(source, "default") if each.id == name)


def user(source: Source, avatar: str, name: str) -> User:
    return next(each for each in layout_2.users(source, identity(source, avatar)) if each.name == name)


def the_path(store: Path, pattern: str) -> Path:
    (path,) = (store / "objects").glob(pattern)
    return path


@pytest.mark.parametrize("opened", [FolderSource, in_bucket])
def test_everything_is_read_as_its_users_saw_it(opened: Callable[[Path], Source]) -> None:
    source = opened(FIXTURE / "store")
    layout_2.check_layout(source)
    assert in_one_order(everything_in(source)) == in_one_order(json.loads(json.dumps(EXPECTED["tenants"])))


def test_what_was_erased_or_left_behind_is_not_read() -> None:
    source = Watched(FIXTURE / "store")
    text = json.dumps(everything_in(source), ensure_ascii=False)
    read = b"".join(FolderSource(FIXTURE / "store").read(key) for key in source.keys_read)
    stored = b"".join(path.read_bytes() for path in (FIXTURE / "store").rglob("*") if path.is_file())
    for erased in EXPECTED["erased_texts"]:
        assert erased.encode() not in stored
        assert erased not in text
    for unreadable in EXPECTED["unreadable_texts"]:
        assert unreadable.encode() in stored
        assert unreadable.encode() not in read
        assert unreadable not in text


def test_the_order_of_turns_is_that_of_their_places_though_a_clock_was_set_back() -> None:
    source = FolderSource(FIXTURE / "store")
    turns = turns_of(source, user(source, "anna", "Mia-1"), "monday")
    assert [turn["reply_text"].split(":")[0] for turn in turns] == [f"Number {number}" for number in range(1, 25)]
    times = [turn["said_at_s"] for turn in turns]
    assert times != sorted(times)


def test_one_turn_is_read_at_a_time() -> None:
    source = Watched(FIXTURE / "store")
    turns = layout_2.turns(source, user(source, "anna", "Mia-1"), "monday")
    source.keys_read.clear()
    next(turns)
    assert [key for key in source.keys_read if "/turns/" in key] == [source.keys_read[1]]


@pytest.mark.parametrize("content", [None, b'{"version": 3}', b"no layout"])
def test_another_layout_is_refused(store: Path, content: bytes | None) -> None:
    layout = store / "objects" / "layout"
    if content is None:
        layout.unlink()
    else:
        layout.write_bytes(content)
    for source in (FolderSource(store), in_bucket(store)):
        with pytest.raises(FailedPrecondition, match="name"):
            layout_2.check_layout(source)


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="no object 'layout'"):
        layout_2.check_layout(FolderSource(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "pattern",
    [
        "retentions/acme",
        "erasing/default/i-boris",
        "tenants/acme/audits/*-9*",
        "tenants/default/banks/calm",
        "tenants/default/emotions/voice/sad",
        "tenants/acme/exemplars/items/*",
        "tenants/default/identities/mara",
        "tenants/default/kept/mara/*/versions/0000000003",
        "tenants/default/kept/mara/*/references/*-6",
        "tenants/default/kept/mara/*/derived/film/*",
        "tenants/default/persons/p-Jo",
        "tenants/default/kept/mara/*/people/p-Jo-*/turns/*/*",
        "tenants/default/kept/mara/*/people/p-Jo-*/turn-ids/*/young-1",
        "tenants/default/kept/anna/*/people/*/timings/monday/*-mon-05-*",
        "tenants/default/kept/anna/*/people/*/clips/monday/*-video-*",
    ],
)
def test_a_damaged_object_is_named(store: Path, pattern: str) -> None:
    path = the_path(store, pattern)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(Damaged, match=path.relative_to(store / "objects").as_posix()):
        everything_in(FolderSource(store))


@pytest.mark.parametrize("pattern", ["mara/*/versions/0000000002", "mara/*/references/*-6"])
def test_a_missing_object_is_named(store: Path, pattern: str) -> None:
    path = the_path(store, f"tenants/default/kept/{pattern}")
    path.unlink()
    for source in (FolderSource(store), in_bucket(store)):
        with pytest.raises(Damaged, match=f"{path.name}' is damaged: it is missing"):
            everything_in(source)


def test_the_head_of_another_identity_is_named(store: Path) -> None:
    heads = store / "objects" / "tenants" / "default" / "identities"
    shutil.copy(heads / "mara", heads / "nora")
    with pytest.raises(Damaged, match="identities/nora' is damaged: it is the head of 'mara'"):
        list(layout_2.identities(FolderSource(store), "default"))


def test_a_clip_with_a_strange_name_is_named(store: Path) -> None:
    path = the_path(store, "tenants/default/kept/anna/*/people/*/clips/monday/*-video-*")
    path.rename(path.with_name("video"))
    with pytest.raises(Damaged, match="not that of a clip"):
        everything_in(FolderSource(store))


def sealed(record: object) -> bytes:
    body = json.dumps(record).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def test_an_identity_and_a_user_whose_erasure_has_begun_are_left_out(store: Path) -> None:
    source = FolderSource(store)
    mia = user(source, "anna", "Mia-1")
    folder = f"tenants/default/persons-of/p-Mia-1-{mia.generation}/"
    for name, folders in (("p-Mia-1", [folder]), ("i-theo", ["tenants/default/kept/theo/of-an-earlier-one/"])):
        mark = {"audit": {"done_at_s": 0.0}, "folders": folders}
        (store / "objects" / "erasing" / "default" / name).write_bytes(sealed(mark))
    assert [each.id for each in layout_2.identities(source, "default")] == ["anna", "boris", "mara"]
    names = {each.name for each in layout_2.users(source, identity(source, "mara"))}
    assert names == {"Jo", "walk-in"}


def test_an_identity_of_which_only_the_head_is_left_of_an_erasure_is_left_out(store: Path) -> None:
    boris = identity(FolderSource(store), "boris")
    mark = {"audit": {"done_at_s": 1.0}, "folders": [boris.folder]}
    (store / "objects" / "erasing" / "default" / "i-boris").write_bytes(sealed(mark))
    assert "boris" not in {each.id for each in layout_2.identities(FolderSource(store), "default")}


def test_a_turn_of_an_expired_id_is_left_out(store: Path) -> None:
    path = the_path(store, "tenants/default/kept/mara/*/people/p-Jo-*/turn-ids/*/young-1")
    path.write_bytes(sealed({"countdown": 0, "said_at_s": 0.0}))
    source = FolderSource(store)
    assert turns_of(source, user(source, "mara", "Jo"), "long-ago") == []


@pytest.mark.parametrize("opened", [FolderSource, in_bucket])
def test_of_two_clips_the_one_that_was_written_last_is_read(store: Path, opened: Callable[[Path], Source]) -> None:
    path = the_path(store, "tenants/default/kept/theo/*/people/*/clips/only/*")
    later = b"RIFF of a later clip"
    digest = hashlib.sha256(later).hexdigest()
    other = path.with_name(f"9999999999-1-speech-{digest}")
    other.write_bytes(later)
    source = opened(store)
    for changed_s, clip in ((2e9, later), (1e9, path.read_bytes())):
        os.utime(other, (changed_s, changed_s))
        ((_, clips),) = layout_2.turns(source, user(source, "theo", "Mia-1"), "only")
        assert clips == {"speech": clip}


def test_a_tenant_that_has_set_a_retention_only_is_found(store: Path) -> None:
    shutil.copy(store / "objects" / "retentions" / "acme", store / "objects" / "retentions" / "zoo")
    source = FolderSource(store)
    assert list(layout_2.tenants(source)) == ["acme", "default", "zoo"]
    assert layout_2.retention(source, "nobody") is None
