"""An identity leaves as one archive and comes back equal, or not at all."""

import json
from dataclasses import replace
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, memory_pb2
from services.common.tar import Member
from tests.serving import refused
from tests.support.archives import FACE, OTHER, archive_of, content, filled, members
from tests.support.conversations import listed
from tests.support.identities import (
    change_of,
    digest_of,
    exported,
    file,
    get,
    imported,
    kept,
)
from tests.support.memory import (
    FILM,
    PORTRAIT,
    USES,
    VOICE,
    WAV,
    grants,
    header,
    parts,
    serving,
)
from tests.support.stacks import Stack

CAT = "\N{CAT FACE}"


def sorted_members(archive: bytes) -> list[tuple[str, str, list[bytes]]]:
    return sorted((each.name, each.media_type, sorted(each.content.splitlines())) for each in members(archive))


async def test_what_is_exported_and_imported_elsewhere_is_equal_under_a_generation_of_its_own(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        archive = await filled(stubs)
        before, whole = await kept(stubs, stack), await content(stubs)
        assert await exported(stubs) == archive
        assert await kept(stubs, stack) == before
        came = await imported(stubs, archive, name="eva", piece_bytes=1000)
        assert (came.id, came.version, came) == ("eva", 5, await get(stubs, "eva", tenant=OTHER))
        assert came.generation != (await get(stubs)).generation
        assert await content(stubs, "eva", OTHER) == whole == await content(stubs)
        again = await exported(stubs, "eva", OTHER)
        assert sorted_members(again.replace(b'"id":"eva"', b'"id":"ada"')) == sorted_members(archive)
        with refused(grpc.StatusCode.NOT_FOUND, f"has no file with SHA-256 {digest_of(FACE)}"):
            await file(stubs, FACE, "eva", OTHER)


async def test_what_was_imported_is_found_by_its_meaning_and_goes_on(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await imported(stubs, await filled(stubs))
        place: dict[str, Any] = {"tenant": OTHER, "identity": "ada"}
        wanted = exemplars_pb2.SearchExemplarsRequest(**place, text="my cat", hits_max=1)
        (example,) = (await stubs.exemplars.SearchExemplars(wanted)).hits
        assert example.exemplar.user_text == "my cat"
        sought = memory_pb2.SearchRequest(**place, person="ann", text="question 2", hits_max=2)
        assert {hit.turn.conversation for hit in (await stubs.memory.Search(sought)).hits} == {"talk", "walk"}
        for number in (9, 1):
            await stubs.say(number, person="ann", tenant=OTHER)
        turns = (await stubs.recall(person="ann", tenant=OTHER)).turns
        assert [said.id for said in turns] == ["turn-0", "turn-1", "turn-2", "turn-9"]
        tried = memory_pb2.RecallRequest(**place, person="ann", conversation="talk", experiment="voice-2")
        assert not (await stubs.memory.Recall(tried)).assigned
        with refused(grpc.StatusCode.ABORTED, "is at version 5, not 1"):
            await stubs.change(change_of(1, [], tenant=OTHER))
        assert (await stubs.change(change_of(5, [], tenant=OTHER), FILM + b"2")).version == 6


async def test_a_person_who_is_known_to_the_tenant_is_the_same_person(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        archive = await filled(stubs)
        await stubs.add(parts(header("eva", tenant=OTHER)))
        await stubs.say(1, "eva", person="ann", tenant=OTHER)
        await imported(stubs, archive)
        request = erasure_pb2.ErasePersonRequest(tenant=OTHER, person="ann", asked_by="ann")
        audit = (await stubs.erasure.ErasePerson(request)).audit
        assert {count.kind: count.objects for count in audit.counts}["turns"] == 7


async def test_conversations_of_more_turns_than_are_read_at_once_come_whole(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("archive", "archive_format"):
        monkeypatch.setattr(f"services.memory.{module}.LINES_MAX", 2)
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        talks = ("talk", "walk")
        for number in range(5):
            for talk in talks:
                await stubs.say(number, person="bob", conversation=talk)
        await imported(stubs, await exported(stubs))
        for talk in talks:
            came = await listed(stubs, tenant=OTHER, person="bob", conversation=talk)
            assert came == await listed(stubs, person="bob", conversation=talk)
            assert [turn.id for turn in came] == [f"turn-{number}" for number in (4, 3, 2, 1, 0)]


async def test_an_archive_has_nothing_that_was_said_to_another_identity(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        for name in ("ada", "eve"):
            await stubs.add(parts(header(name)))
        await stubs.say(1, person="bob")
        for number, person in ((2, "bob"), (3, "ann")):
            await stubs.say(number, "eve", person=person)
            await stubs.put_clip(
                memory_pb2.CLIP_KIND_SPEECH, WAV, f"turn-{number}", identity="eve", person=person, conversation="talk"
            )
        archive = await exported(stubs)
        names = [member.name for member in members(archive) if member.name.startswith("people/")]
        assert names == ["people/p-bob/turns/000000"]
        assert [f"question {number}".encode() in archive for number in (1, 2, 3)] == [True, False, False]


async def test_any_program_unpacks_an_archive_and_nothing_in_it_was_made_by_a_model(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        found = members(await filled(stubs))
    names = [member.name for member in found]
    about = json.loads(found[0].content)
    assert (names[0], about["profile"]["name"], about["version"]) == ("identity.json", "Ada", 4)
    folders = list(dict.fromkeys(name.split("/")[0] for name in names[1:]))
    assert folders == ["references", "versions", "emotions", "exemplars", "people"]
    assert names[4:8] == [f"versions/{number:010d}" for number in range(1, 5)]
    (said,) = (member.content for member in found if member.name == "people/p-bob/turns/000000")
    assert [json.loads(line)["turn"]["id"] for line in said.splitlines()] == ["turn-0", "turn-1", "turn-2"]
    assert b"a fitted voice" not in [member.content for member in found]
    assert not [member.name for member in found if b"vector" in member.content]


def of_format(version: int, archive: bytes) -> bytes:
    """Return an archive as an earlier version of the format had it."""
    rewritten = list[Member]()
    for member in members(archive):
        if member.name == "identity.json" or member.name.startswith("versions/"):
            about = json.loads(member.content) | {"version": version}
            if version == 1:
                del about["identity_version"], about["changed_at_s"]
            rewritten.append(replace(member, content=json.dumps(about).encode()))
        elif "/risks/" in member.name:
            continue
        elif "/turns/" in member.name and version < 3:
            lines = [json.loads(line) for line in member.content.splitlines()]
            for line in lines:  # The models of a turn were called its variants.
                line["turn"]["variants"] = line["turn"].pop("models")
                del line["turn"]["votes"], line["turn"]["delivery"]
            content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            rewritten.append(replace(member, content=content))
        else:
            rewritten.append(member)
    return archive_of(each for each in rewritten if version > 1 or not each.name.startswith("versions/"))


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_archives_of_earlier_versions_are_still_read(stack: Stack, version: int) -> None:
    async with serving(stack.settings()) as stubs:
        archive = await filled(stubs)
        whole = await content(stubs)
        came = await imported(stubs, of_format(version, archive))
        found = await content(stubs, tenant=OTHER)
    assert came.version == (1 if version == 1 else 5)
    if version == 1:
        last = whole["versions"][-1]
        (found["versions"][0].version, found["versions"][0].changed_at_s) = (5, last.changed_at_s)
        whole["versions"] = [last]
    whole["risks"] = [[] for _ in whole["risks"]]
    for said in whole["turns"] if version < 3 else []:
        assert (dict(said.models), dict(said.variants)) == ({"tts": "embedded 0123"}, {"tts": "default"})
        for name in ("variants", "votes", "delivery"):
            said.ClearField(name)
        said.delivery.SetInParent()
    assert found == whole


async def test_the_largest_version_that_there_can_be_fits_into_an_archive(stack: Stack) -> None:
    head = header(uses=(*USES, "research_export"))
    head.profile.name, head.profile.about, head.profile.speaking_style = CAT * 100, CAT * 500, CAT * 200
    for grant in head.grants:
        grant.granted_by, grant.purpose, grant.until = CAT * 100, CAT * 500, "2999-01-01"
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(head, PORTRAIT, *(VOICE + bytes([number]) for number in range(15))))
        await stubs.change(change_of(1, grants(["keep_turns"])))
        came = await imported(stubs, await exported(stubs))
        first = await get(stubs, version=1)
        first.generation = came.generation
        assert await get(stubs, version=1, tenant=OTHER) == first


async def test_what_nobody_may_use_is_exported_and_stays_unused(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(uses=["animate_face"])))
        came = await imported(stubs, await exported(stubs))
        assert list(came.grants) == grants(["animate_face"])
        assert await file(stubs, PORTRAIT, tenant=OTHER) == PORTRAIT
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "there is no permission for clone_voice"):
            await file(stubs, VOICE, tenant=OTHER)
