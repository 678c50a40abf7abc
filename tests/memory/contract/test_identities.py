"""Identities: added, listed, changed, read as they were; two writers at once."""

import asyncio

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from tests.serving import refused
from tests.support.conversations import erase_identity
from tests.support.identities import change_of, derived, digest_of, file, get, kept, listed, put_derived
from tests.support.memory import (
    FILM,
    KINDS,
    PORTRAIT,
    TENANT,
    USES,
    VOICE,
    Clock,
    grants,
    header,
    parts,
    serving,
)
from tests.support.stacks import Stack

WIDE = "\U0001d4b3"
"""A character of four bytes."""


async def test_an_identity_is_kept_as_it_was_added_and_its_files_come_back(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        added = await stubs.add(parts(header(), PORTRAIT, VOICE, FILM))
        assert added == await get(stubs) == await get(stubs, version=1)
    assert (added.id, added.profile, list(added.grants)) == ("ada", header().profile, grants())
    assert (added.emotion_bank, added.version, added.changed_at_s) == ("default", 1, clock.now_s)
    assert len(added.generation) == 32
    assert list(added.references) == [
        pb.Reference(digest=digest_of(each), size_bytes=len(each), kind=KINDS[each]) for each in (PORTRAIT, VOICE, FILM)
    ]
    async with serving(stack.settings()) as again:
        assert await get(again) == added
        for content in (PORTRAIT, VOICE, FILM):
            assert await file(again, content) == content


async def test_pieces_of_an_upload_need_not_end_where_files_do(stack: Stack) -> None:
    whole = PORTRAIT + VOICE + FILM
    pieces = [b"", *(whole[at : at + 99_991] for at in range(0, len(whole), 99_991))]
    async with serving(stack.settings()) as stubs:
        added = await stubs.add(parts(header(), PORTRAIT, VOICE, FILM, pieced=pieces))
    assert [each.digest for each in added.references] == [digest_of(each) for each in (PORTRAIT, VOICE, FILM)]


async def test_identities_are_listed_by_id_in_pages(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        for name in ("zoe", "a-b", "ab", "a"):
            await stubs.add(parts(header(name), PORTRAIT[:100], VOICE))
        assert await listed(stubs) == (["a", "a-b", "ab", "zoe"], "")
        assert await listed(stubs, 4) == (["a", "a-b", "ab", "zoe"], "")
        names, token = await listed(stubs, 2)
        assert names == ["a", "a-b"]
        await erase_identity(stubs, "a-b")
        assert await listed(stubs, 2, token) == (["ab", "zoe"], "")
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "page_size: 201; send 1 to 200, or 0 for 50"):
            await listed(stubs, 201)
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "page_token: 'a' is none"):
            await listed(stubs, 2, "a")


async def test_pages_of_long_profiles_end_early_and_fit_into_a_message(stack: Stack) -> None:
    names = [f"a{number:03d}" for number in range(90)]
    async with serving(stack.settings()) as stubs:
        for name in names:
            head = header(name, (*USES, "research_export"))
            head.profile.name, head.profile.about, head.profile.speaking_style = WIDE * 100, WIDE * 500, WIDE * 200
            for grant in head.grants:
                grant.granted_by, grant.purpose = WIDE * 100, WIDE * 500
            await stubs.add(parts(head, PORTRAIT[:100], VOICE))
        seen, after, pages = list[str](), "", 0
        while after or not seen:
            page = await stubs.identities.ListIdentities(
                pb.ListIdentitiesRequest(tenant=TENANT, page_size=200, page_token=after)
            )
            assert page.ByteSize() <= 2**20
            seen, after, pages = [*seen, *(each.id for each in page.identities)], page.next_page_token, pages + 1
        assert seen == names
        assert pages == 2


async def test_a_change_is_the_next_version_and_earlier_ones_can_be_read(stack: Stack) -> None:
    clock = Clock()
    async with serving(stack.settings(), clock=clock) as stubs:
        first = await stubs.add(parts(header()))
        clock.now_s += 60
        profile = common.Profile()
        profile.CopyFrom(first.profile)
        profile.speaking_style = "in riddles"
        second = await stubs.change(change_of(1, grants(["animate_face"]), profile=profile), FILM)
        assert (second.version, second.generation, second.changed_at_s) == (2, first.generation, clock.now_s)
        assert (second.profile, list(second.grants)) == (profile, grants(["animate_face"]))
        assert [each.digest for each in second.references] == [digest_of(each) for each in (PORTRAIT, VOICE, FILM)]
        third = await stubs.change(change_of(2, removed=[digest_of(FILM)]))
        assert list(third.references) == list(first.references)
        assert (third.profile, third.grants, third.emotion_bank) == (profile, second.grants, "default")
    async with serving(stack.settings()) as again:
        assert [await get(again, version=version) for version in (1, 2, 3, 0)] == [first, second, third, third]
        with refused(grpc.StatusCode.NOT_FOUND, "identity 'ada' has no version 4; it is at 3"):
            await get(again, version=4)


async def test_a_change_to_what_it_is_already_makes_no_version(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        added = await stubs.add(parts(header()))
        before = await kept(stubs, stack)
        same = change_of(1, grants(), profile=added.profile, emotion_bank="")
        assert await stubs.change(same) == added
        assert await stubs.change(change_of(1)) == added
        assert await kept(stubs, stack) == before


async def test_removed_files_go_with_what_was_derived_from_them_and_nothing_else_goes(stack: Stack) -> None:
    two, three = VOICE + b"2", VOICE + b"3"
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE, two, three))
        voices = [(VOICE,), (two,), (VOICE, two, three), (two, three)]
        for number, files in enumerate([(PORTRAIT,), *voices]):
            await put_derived(stubs, bytes([number]), *files)
        await stubs.change(change_of(1, removed=[digest_of(VOICE)]))
        assert [await derived(stubs, *files) for files in ((PORTRAIT,), (two,), (two, three))] == [b"\0", b"\2", b"\4"]
        with refused(grpc.StatusCode.NOT_FOUND, f"has no file with SHA-256 {digest_of(VOICE)}"):
            await file(stubs, VOICE)
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        assert len(stack.objects) == 6
        assert not [key for key in stack.objects if digest_of(VOICE) in key]
        await stubs.change(change_of(2), VOICE)
        assert await file(stubs, VOICE) == VOICE
        with refused(grpc.StatusCode.NOT_FOUND, "has derived nothing"):
            await derived(stubs, VOICE)


@pytest.mark.parametrize(
    ("change", "files", "text"),
    [
        ({"profile": common.Profile(name="A")}, (), "header.profile.age: ''"),
        ({"grants": grants(["fly"])}, (), "header.grants[0].use: 'fly' is unknown"),
        ({"emotion_bank": "nobodys"}, (), "header.emotion_bank: 'nobodys' is unknown"),
        ({"removed": ["x"]}, (), "header.removed[0]: 'x' is not a SHA-256"),
        ({"removed": [digest_of(FILM)]}, (), "is the SHA-256 of none of its files"),
        ({"removed": [digest_of(VOICE)] * 2}, (VOICE + b"2",), "header.removed[1]: "),
        ({"removed": [digest_of(VOICE)]}, (FILM,), "header.removed: no voice among the identity's files"),
        ({"removed": [digest_of(PORTRAIT)]}, (), "header.removed: no portrait among the identity's files"),
        ({}, (FILM, VOICE), f"header.added[1]: the voice with SHA-256 {digest_of(VOICE)} is there already"),
        ({}, (FILM, FILM), "header.added[1]: "),
        ({"removed": [digest_of(VOICE)]}, (VOICE,), "header.added[0]: "),
        ({}, (FILM, *(VOICE + bytes([n]) for n in range(14))), "header.added: 17 files; an identity has at most 16"),
    ],
)
async def test_a_wrong_change_is_refused_with_the_field_and_changes_nothing(
    embedded: Stack, change: dict[str, object], files: tuple[bytes, ...], text: str
) -> None:
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header()))
        before = await kept(stubs, embedded)
        with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
            await stubs.change(change_of(1, **change), *files)  # type: ignore[arg-type]
        assert await kept(stubs, embedded) == before


async def test_a_change_of_a_version_that_is_over_is_refused_and_changes_nothing(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await stubs.change(change_of(1, []))
        before = await kept(stubs, stack)
        for stale in (1, 0, 3):
            with refused(grpc.StatusCode.ABORTED, f"identity 'ada' is at version 2, not {stale}; read it again"):
                await stubs.change(change_of(stale), FILM)
        assert await kept(stubs, stack) == before


async def test_of_two_changes_at_once_by_two_replicas_one_wins_and_nothing_of_the_other_is_kept(stack: Stack) -> None:
    async with serving(stack.settings()) as one, serving(stack.settings()) as other:
        await one.add(parts(header()))
        for version in range(1, 6):
            films = [FILM + bytes([version, number]) for number in range(4)]
            changes = [
                stubs.change(change_of(version), films[number]) for number, stubs in enumerate((one, other, one, other))
            ]
            ended = await asyncio.gather(*changes, return_exceptions=True)
            (won,) = (each for each in ended if isinstance(each, pb.Identity))
            lost = [each for each in ended if isinstance(each, grpc.aio.AioRpcError)]
            assert [each.code() for each in lost] == [grpc.StatusCode.ABORTED] * 3
            assert all(f"at version {version + 1}, not {version}" in (each.details() or "") for each in lost)
            assert won.version == version + 1
            assert await get(one) == await get(other) == won
            assert len(won.references) == 2 + version
            for reference in won.references:
                assert digest_of(await file(other, reference.digest)) == reference.digest
            assert len(stack.objects) == 2 + version


async def test_of_many_who_add_the_same_id_at_once_one_wins_and_nothing_of_the_others_is_kept(stack: Stack) -> None:
    async with serving(stack.settings()) as one, serving(stack.settings()) as other:
        portraits = [PORTRAIT[:100] + bytes([number]) for number in range(6)]
        adding = [
            stubs.add(parts(header(), portrait, VOICE))
            for portrait, stubs in zip(portraits, [one, other] * 3, strict=True)
        ]
        ended = await asyncio.gather(*adding, return_exceptions=True)
        codes = [each.code() for each in ended if isinstance(each, grpc.aio.AioRpcError)]
        assert codes == [grpc.StatusCode.ALREADY_EXISTS] * 5
        won = next(number for number, each in enumerate(ended) if isinstance(each, pb.Identity))
        assert await file(other, portraits[won]) == portraits[won]
        assert await get(one) == await get(other) == ended[won]
        assert len(stack.objects) == 2


async def test_an_id_that_was_erased_is_another_identity_when_it_is_added_again(stack: Stack) -> None:
    async with serving(stack.settings()) as one, serving(stack.settings()) as other:
        before = await one.add(parts(header(), PORTRAIT, VOICE, FILM))
        assert await other.recall()
        request = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="me")
        await one.erasure.EraseIdentity(request)
        for stubs in (one, other):
            for call in (get(stubs), stubs.recall(), file(stubs, FILM), stubs.change(change_of(1))):
                with refused(grpc.StatusCode.NOT_FOUND, "identity 'ada' is unknown"):
                    await call
        again = await other.add(parts(header()))
        assert (again.version, again.generation != before.generation) == (1, True)
        with refused(grpc.StatusCode.NOT_FOUND, f"has no file with SHA-256 {digest_of(FILM)}"):
            await file(one, FILM)
