"""The command `check`: database and objects that a restore brought back from different moments, and what was erased."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import asyncpg
import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2
from services.memory.domain import TENANT_READY
from services.memory.ready import ready_identities
from tests.serving import refused
from tests.support.conversations import erase_identity, erase_tenant, rows
from tests.support.identities import listed, put_emotion
from tests.support.memory import FILM, TENANT, WAV, Ended, Stubs, header, joined, parts, program, serving
from tests.support.stacks import Stack, client_of

PORTRAIT, VOICE = b"\x89PNG\r\n\x1a\nface", b"RIFF\0\0\0\0WAVEvoice"
SPEECH = memory_pb2.CLIP_KIND_SPEECH


@dataclass
class Backup:
    """A copy of the database, or of the objects, of a stack that nobody uses."""

    stack: Stack
    objects: dict[str, bytes] = field(default_factory=dict)

    async def take_database(self) -> None:
        if self.stack.urls:
            await self._admin(f"CREATE DATABASE {self._database}_backup TEMPLATE {self._database}")
        else:
            for path in self.stack.folder.glob("memory.db*"):
                shutil.copy(path, path.with_name(f"backup-{path.name}"))

    async def restore_database(self) -> None:
        if self.stack.urls:
            await self._admin(
                f"DROP DATABASE {self._database} WITH (FORCE)",
                f"ALTER DATABASE {self._database}_backup RENAME TO {self._database}",
            )
        else:
            for path in self.stack.folder.glob("memory.db*"):
                path.unlink()
            for path in self.stack.folder.glob("backup-*"):
                path.rename(path.with_name(path.name.removeprefix("backup-")))

    def take_objects(self) -> None:
        self.objects = self._objects()

    def restore_objects(self) -> None:
        """Also the records of erasures are those of the backup."""
        for key in self._objects():
            if self.stack.bucket:
                client_of(self.stack.bucket).remove_object(self.stack.bucket.name, key)
            else:
                (self._media / key).unlink()
        for key, content in self.objects.items():
            if self.stack.bucket:
                client = client_of(self.stack.bucket)
                client.put_object(self.stack.bucket.name, key, BytesIO(content), len(content))
            else:
                (self._media / key).parent.mkdir(parents=True, exist_ok=True)
                (self._media / key).write_bytes(content)

    def records(self, folder: Path) -> Path:
        """Copies the records of erasures into a folder, as an operator does who keeps them elsewhere."""
        for key, content in self._objects().items():
            if key.startswith("erasures/"):
                (folder / key).parent.mkdir(parents=True, exist_ok=True)
                (folder / key).write_bytes(content)
        return folder

    @property
    def _media(self) -> Path:
        return self.stack.folder / "media"

    @property
    def _database(self) -> str:
        assert self.stack.urls
        return self.stack.urls.admin.rpartition("/")[2]

    def _objects(self) -> dict[str, bytes]:
        if not self.stack.bucket:
            files = (path for path in self._media.rglob("*") if path.is_file())
            return {path.relative_to(self._media).as_posix(): path.read_bytes() for path in files}
        client, name = client_of(self.stack.bucket), self.stack.bucket.name
        found = {}
        for each in client.list_objects(name, recursive=True):
            response = client.get_object(name, each.object_name or "")
            found[each.object_name or ""] = response.read()
            response.close()
            response.release_conn()
        return found

    async def _admin(self, *statements: str) -> None:
        assert self.stack.urls
        connection = await asyncpg.connect(self.stack.urls.admin.rpartition("/")[0] + "/postgres")
        for statement in statements:
            await connection.execute(statement)
        await connection.close()


@asynccontextmanager
async def running(stack: Stack) -> AsyncIterator[Stubs]:
    async with serving(stack.settings(cache_bytes=0), orphan_s=0) as stubs:
        yield stubs


async def checked(stack: Stack, *arguments: str) -> Ended:
    ended = await program(stack.variables, "check", *arguments)
    assert ended.err == ""
    return ended


async def erase(stubs: Stubs, person: str) -> erasure_pb2.Audit:
    request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person=person, asked_by="the test")
    return (await stubs.erasure.ErasePerson(request)).audit


async def audits(stubs: Stubs) -> list[erasure_pb2.Audit]:
    return list((await stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT))).audits)


async def clip_of(stubs: Stubs, person: str) -> bytes:
    place = {"tenant": TENANT, "identity": "ada", "conversation": "talk", "person": person}
    return await joined(stubs.memory.GetClip(memory_pb2.GetClipRequest(**place, turn="turn-1", kind=SPEECH)))


async def talk(stubs: Stubs, person: str) -> None:
    await stubs.say(1, person=person)
    await stubs.put_clip(SPEECH, WAV + person.encode(), person=person)


async def is_refused(call: Callable[[], Awaitable[object]], code: grpc.StatusCode) -> None:
    with refused(code):
        await call()


CLEAN = [
    "rows without their object: 0",
    "objects without a row: 0",
    "erased, and back from a backup: 0",
    "reference files without their object: 0",
]


async def test_a_database_of_an_earlier_moment_is_checked_and_repaired(stack: Stack) -> None:
    backup = Backup(stack)
    async with running(stack) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE))
        for person in ("bob", "eve"):
            await talk(stubs, person)
    await backup.take_database()
    async with running(stack) as stubs:
        audit = await erase(stubs, "bob")
        await talk(stubs, "zoe")
        # Replaces an object that the restored row names.
        await stubs.put_clip(SPEECH, WAV + b"anew", person="eve")
        assert stubs.upkeep
        await stubs.upkeep.sweep()
    assert (await checked(stack)).out.splitlines() == CLEAN
    await backup.restore_database()
    found = await checked(stack)
    counts = {line.partition(":")[0]: line.partition(": ")[2] for line in found.out.splitlines() if line[0] != " "}
    assert found.status == 3
    to_do = "to be deleted: run with --repair"
    assert counts == {
        "rows without their object": f"2, {to_do}",
        "objects without a row": f"2, {to_do}",
        "erased, and back from a backup": f"1, {to_do}",
        "reference files without their object": "0",
    }
    # It has told, and touched nothing.
    assert (await checked(stack)).out == found.out
    repaired = await checked(stack, "--repair")
    assert (repaired.status, "erased, and back from a backup: 1, deleted" in repaired.out) == (0, True)
    again = await checked(stack)
    assert (again.status, again.out.splitlines()) == (0, CLEAN)
    async with running(stack) as stubs:
        assert [(each.id, each.counts) for each in await audits(stubs)] == [(audit.id, audit.counts)]
        for person in ("bob", "zoe"):
            assert not (await stubs.recall(person=person)).turns
        assert [turn.id for turn in (await stubs.recall(person="eve")).turns] == ["turn-1"]
        await is_refused(lambda: clip_of(stubs, "eve"), grpc.StatusCode.NOT_FOUND)
        await talk(stubs, "bob")


async def test_objects_of_an_earlier_moment_are_checked_and_repaired_but_for_reference_files(stack: Stack) -> None:
    backup = Backup(stack)
    async with running(stack) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE))
        for person in ("bob", "eve"):
            await talk(stubs, person)
    backup.take_objects()
    async with running(stack) as stubs:
        await erase(stubs, "bob")
        await talk(stubs, "zoe")
        await stubs.change(identities_pb2.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=1), FILM)
    backup.restore_objects()
    repaired = await checked(stack, "--repair")
    lines = repaired.out.splitlines()
    # Bob's clip came back, Zoe's is lost; a lost film is restored or taken out of the identity by a person.
    assert repaired.status == 3
    assert "rows without their object: 1, deleted" in lines
    assert "objects without a row: 1, deleted" in lines
    hint = "restore these objects, or change their identities"
    assert f"reference files without their object: 1, {hint}" in lines
    async with running(stack) as stubs:
        identity = (await stubs.recall()).identity
        assert len(identity.references) == 3
        assert await clip_of(stubs, "eve") == WAV + b"eve"
        film = identities_pb2.GetReferenceRequest(tenant=TENANT, identity="ada", digest=identity.references[2].digest)
        await is_refused(lambda: joined(stubs.identities.GetReference(film)), grpc.StatusCode.INTERNAL)
        change = identities_pb2.ChangeIdentityHeader(
            tenant=TENANT, id="ada", if_version=2, removed=[identity.references[2].digest]
        )
        await stubs.change(change)
    assert (await checked(stack)).out.splitlines() == CLEAN


async def test_who_was_erased_is_erased_again_from_records_kept_elsewhere(stack: Stack, tmp_path: Path) -> None:
    backup = Backup(stack)
    async with running(stack) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE))
        for person in ("bob", "eve"):
            await talk(stubs, person)
    await backup.take_database()
    backup.take_objects()
    async with running(stack) as stubs:
        audit = await erase(stubs, "bob")
    records = backup.records(tmp_path / "records")
    await backup.restore_database()
    backup.restore_objects()
    # Neither of the two knows of the erasure any more.
    assert (await checked(stack)).out.splitlines() == CLEAN
    assert "erased, and back from a backup: 1" in (await checked(stack, "--erasures", str(records))).out
    assert (await checked(stack, "--repair", "--erasures", str(records))).status == 0
    async with running(stack) as stubs:
        assert not (await stubs.recall(person="bob")).turns
        assert await clip_of(stubs, "eve") == WAV + b"eve"
        assert [each.id for each in await audits(stubs)] == [audit.id]
    assert not [key for key in stack.objects if "bob" in key]
    assert (await checked(stack, "--erasures", str(records))).out.splitlines() == CLEAN


@pytest.mark.parametrize("what", ["identity", "tenant"])
async def test_an_identity_or_a_tenant_is_erased_again_with_all_that_was_kept_of_it(
    stack: Stack, tmp_path: Path, what: str
) -> None:
    backup = Backup(stack)
    async with running(stack) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE))
        await talk(stubs, "bob")
        for identity in ("ada", ""):
            example = exemplars_pb2.Exemplar(user_text="my dog", user_emotion="sad", reply_text="Oh.")
            solved = exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity=identity, exemplars=[example])
            await stubs.exemplars.PutExemplars(solved)
            await put_emotion(stubs, WAV, identity=identity)
    await backup.take_database()
    backup.take_objects()
    async with running(stack) as stubs:
        await (erase_identity(stubs) if what == "identity" else erase_tenant(stubs))
    records = backup.records(tmp_path / "records")
    await backup.restore_database()
    backup.restore_objects()
    assert (await checked(stack, "--repair", "--erasures", str(records))).status == 0
    assert (await checked(stack, "--erasures", str(records))).out.splitlines() == CLEAN
    of_tenant = {"tenants": 1, "examples": 1, "emotion_references": 1}
    assert await rows(stack) == (of_tenant if what == "identity" else {"tenants": 1})
    assert len(stack.objects) == (what == "identity")


async def test_what_came_to_a_tenant_after_its_erasure_is_not_erased_again(stack: Stack) -> None:
    async with running(stack) as stubs:
        await put_emotion(stubs, WAV)
        await erase_tenant(stubs)
        await put_emotion(stubs, WAV + b"anew")
    before = await rows(stack)
    assert (await checked(stack, "--repair")).out.splitlines() == CLEAN
    assert await rows(stack) == before == {"tenants": 1, "emotion_references": 1}


async def test_a_ready_identity_that_was_erased_after_the_backup_stays_away(stack: Stack) -> None:
    backup, ready = Backup(stack), list(ready_identities())[:2]
    async with serving(stack.settings(), ready=ready) as stubs:
        pass
    await backup.take_database()
    async with serving(stack.settings(), ready=ready) as stubs:
        await erase_identity(stubs, ready[0].id, TENANT_READY)
    await backup.restore_database()
    assert (await checked(stack, "--repair")).status == 0
    assert (await checked(stack)).out.splitlines() == CLEAN
    async with serving(stack.settings(), ready=ready) as stubs:
        assert await listed(stubs, tenant=TENANT_READY) == ([ready[1].id], "")


@pytest.mark.parametrize("content", [b"", b"{}", b"no record"])
async def test_a_record_that_cannot_be_read_ends_the_check(embedded: Stack, tmp_path: Path, content: bytes) -> None:
    async with running(embedded):
        pass
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "one").write_bytes(content)
    ended = await program(embedded.variables, "check", "--erasures", str(tmp_path / "records"))
    assert ended.status == 1
    text = f"memory cannot start: {tmp_path / 'records' / 'one'} is no record of an erasure"
    assert ended.err.startswith(text)


async def test_a_folder_of_records_that_is_not_there_is_refused(embedded: Stack, tmp_path: Path) -> None:
    async with running(embedded):
        pass
    ended = await program(embedded.variables, "check", "--erasures", str(tmp_path / "none"))
    assert (ended.status, f"{tmp_path / 'none'} is no folder" in ended.err) == (1, True)
