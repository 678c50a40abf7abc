"""A store of the version before the database is brought in as its users saw it."""

import hashlib
import json
import shutil
import sqlite3
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2
from services.common.errors import Damaged, FailedPrecondition
from services.memory.layout_2 import import_store
from tests.support.identities import listed
from tests.support.memory import Log, Stubs, green, joined, process_of, program, serving
from tests.support.object_store import ObjectStore
from tests.support.stacks import Stack, client_of

FIXTURE = Path(__file__).parents[1] / "layout_2"
STORE = FIXTURE / "store"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text("utf-8"))
TENANTS = EXPECTED["tenants"]


async def imported(stubs: Stubs, stack: Stack, source: str = str(STORE)) -> list[str]:
    assert stubs.inside
    return [line async for line in import_store(stubs.inside, source, stack.settings())]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def turns_of(stubs: Stubs, where: dict[str, str]) -> list[Any]:
    found: list[Any] = []
    token = ""
    while True:
        page = await stubs.memory.ListTurns(memory_pb2.ListTurnsRequest(**where, page_token=token))  # type: ignore[arg-type]
        found += page.turns
        if not (token := page.next_page_token):
            return found[::-1]


async def test_what_a_user_saw_is_there_again(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await imported(stubs, stack)
        for tenant, wanted in TENANTS.items():
            listed = await stubs.identities.ListIdentities(identities_pb2.ListIdentitiesRequest(tenant=tenant))
            assert [each.id for each in listed.identities] == [each["id"] for each in wanted["identities"]]
            for identity in wanted["identities"]:
                await check_identity(stubs, tenant, identity)
            retention = await stubs.erasure.GetRetention(erasure_pb2.GetRetentionRequest(tenant=tenant))
            assert {name: getattr(retention.retention, name) for name in wanted["retention"]} == wanted["retention"]
            audits = await stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=tenant))
            assert [(each.what, each.asked_by, each.begun_at_s) for each in audits.audits] == [
                (each["what"], each["asked_by"], each["begun_at_s"]) for each in wanted["audits"]
            ]
            assert all(each.done_at_s for each in audits.audits)
            examples = exemplars_pb2.ListExemplarsRequest(tenant=tenant)
            await check_examples(stubs, examples, wanted["examples"])
            references = identities_pb2.ListEmotionReferencesRequest(tenant=tenant)
            kept = (await stubs.identities.ListEmotionReferences(references)).references
            assert sorted(each.digest for each in kept) == sorted(e["sha256"] for e in wanted["emotion_references"])


async def check_identity(stubs: Stubs, tenant: str, wanted: dict[str, Any]) -> None:
    where = {"tenant": tenant, "identity": wanted["id"]}
    for number, version in enumerate(wanted["versions"], 1):
        found = (
            await stubs.identities.GetIdentity(identities_pb2.GetIdentityRequest(**where, version=number))
        ).identity
        assert {name: getattr(found.profile, name) for name in version["profile"]} == version["profile"]
        assert [{name: getattr(grant, name) for name in version["grants"][0]} for grant in found.grants] == version[
            "grants"
        ]
        assert [(each.digest, each.size_bytes) for each in found.references] == [
            (each["digest"], each["size_bytes"]) for each in version["references"]
        ]
    may_lend = {grant.use for grant in found.grants if not grant.until}
    for reference in found.references if {"animate_face", "clone_voice"} <= may_lend else ():
        request = identities_pb2.GetReferenceRequest(**where, digest=reference.digest)
        assert sha256(await joined(stubs.identities.GetReference(request))) == reference.digest
        for derived in wanted["derived"]:
            about = {name: derived[name] for name in ("reference_digests", "model_digest")}
            request_derived = identities_pb2.GetDerivedRequest(**where, **about)
            assert sha256(await joined(stubs.identities.GetDerived(request_derived))) == derived["sha256"]
    await check_examples(stubs, exemplars_pb2.ListExemplarsRequest(**where), wanted["examples"])
    for person in wanted["people"]:
        for conversation, turns in person["conversations"].items():
            talk = {**where, "person": person["name"] if person["kind"] == "p" else "", "conversation": conversation}
            await check_turns(stubs, talk, turns, may_lend)


async def check_turns(stubs: Stubs, talk: dict[str, str], wanted: list[Any], may_lend: set[str]) -> None:
    found = await turns_of(stubs, talk)
    assert [turn.id for turn in found] == [turn["id"] for turn in wanted]
    same = ("user_text", "user_emotion", "reply_text", "reply_emotion", "said_at_s")
    for turn, before in zip(found, wanted, strict=True):
        assert [getattr(turn, name) for name in same] == [before[name] for name in same]
        assert turn.vote_record.hex() == before["vote_record"]
        assert dict(turn.models) == before["variants"]  # until then the models of a turn were called so
        assert dict(turn.timings_s) == before["timings_s"]
        assert sorted(clip.digest for clip in turn.clips) == sorted(each["sha256"] for each in before["clips"].values())
        for clip in turn.clips if {"animate_face", "clone_voice"} <= may_lend else ():
            request = memory_pb2.GetClipRequest(**talk, turn=turn.id, kind=clip.kind)
            assert sha256(await joined(stubs.memory.GetClip(request))) == clip.digest


async def check_examples(stubs: Stubs, request: exemplars_pb2.ListExemplarsRequest, wanted: list[Any]) -> None:
    found = (await stubs.exemplars.ListExemplars(request)).exemplars
    texts = ("user_text", "user_emotion", "reply_text")
    assert sorted([getattr(each, name) for name in texts] for each in found) == sorted(
        [each[name] for name in texts] for each in wanted
    )


async def test_nothing_of_the_erased_comes_back(embedded: Stack) -> None:
    async with serving(embedded.settings()) as stubs:
        await imported(stubs, embedded)
    with sqlite3.connect(embedded.folder / "memory.db") as database:
        dump = "\n".join(database.iterdump())
    kept = [text for text in (*EXPECTED["erased_texts"], *EXPECTED["unreadable_texts"]) if text in dump]
    assert kept == []
    assert ("walter",) in database.execute("SELECT name FROM removed_identities").fetchall()


async def test_a_second_import_leaves_alone_what_is_there(embedded: Stack) -> None:
    async with serving(embedded.settings()) as stubs:
        await imported(stubs, embedded)
        objects = embedded.objects
        again = await imported(stubs, embedded)
        assert [line for line in again if "identity" in line and "left alone" not in line] == []
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        assert len(embedded.objects) == len(objects)


async def test_a_bucket_is_brought_in_like_a_folder(s3: ObjectStore, tmp_path: Path) -> None:
    old = s3.bucket()
    for path in (path for path in (STORE / "objects").rglob("*") if path.is_file()):
        content = path.read_bytes()
        key = path.relative_to(STORE / "objects").as_posix()
        client_of(old).put_object(old.name, key, BytesIO(content), len(content))
    stack = Stack("sqlite-s3", tmp_path / "memory", bucket=s3.bucket())
    async with serving(stack.settings()) as stubs:
        assert await imported(stubs, stack, old.name)
        await check_identity(stubs, "acme", TENANTS["acme"]["identities"][0])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda store: (store / "objects/layout").write_bytes(b'{"version": 1}'), FailedPrecondition, "name one of"),
        (lambda store: (store / "objects/layout").unlink(), FailedPrecondition, "it has no object 'layout'"),
        (shutil.rmtree, FailedPrecondition, "is no folder; for a bucket set"),
        (lambda store: next((store / "objects/tenants/acme/banks").iterdir()).write_bytes(b"x"), Damaged, "acme/banks"),
    ],
)
async def test_what_is_no_whole_store_is_refused(
    change: Any, error: type[Exception], text: str, embedded: Stack, tmp_path: Path
) -> None:
    store = shutil.copytree(STORE, tmp_path / "old")
    change(store)
    async with serving(embedded.settings()) as stubs:
        with pytest.raises(error, match=text):
            await imported(stubs, embedded, str(store))


async def test_a_start_on_the_old_folder_touches_nothing_and_names_the_command(tmp_path: Path) -> None:
    store = shutil.copytree(STORE, tmp_path / "old")
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    log = Log()
    async with process_of({"E3RG_MEMORY_FOLDER": str(store)}, log=log) as (_, process):
        assert await process.wait() == 1
    assert "bring it in with `python -m services.memory import-layout-2 --from FOLDER|BUCKET`" in log.text
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


async def test_the_command_brings_in_ready_identities_too_and_those_that_were_erased_stay_away(embedded: Stack) -> None:
    ended = await program(embedded.variables, "import-layout-2", "--from", str(STORE))
    assert (ended.status, ended.err) == (0, "")
    assert "default: identity anna: 1 versions, 67 turns\n" in ended.out
    async with process_of(embedded.variables) as (stubs, _):
        await green(stubs)
        names = (await listed(stubs, tenant="default"))[0]
        assert {"anna", "kenji"} <= set(names)
        assert "walter" not in names
