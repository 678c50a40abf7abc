"""Permissions: what is refused without one, from when to when one holds, what a refusal says."""

from datetime import UTC, datetime

import grpc
import pytest

from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.memory.v1 import memory_pb2
from tests.serving import refused
from tests.support.identities import change_of, derived, emotion, file, get, kept, put_derived, put_emotion
from tests.support.memory import FILM, PORTRAIT, USES, VOICE, Clock, Stubs, grants, header, parts, serving
from tests.support.stacks import Stack

LACKING = grpc.StatusCode.FAILED_PRECONDITION
ALL = (*USES, "research_export")


def at(time: str) -> Clock:
    return Clock(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp())


async def test_each_use_needs_its_own_permission(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(uses=ALL)))
        for version, use in enumerate(ALL, 1):
            await stubs.change(change_of(version, grants([use])))
            assert (await stubs.recall(uses=[use])).identity == (await stubs.recall()).identity
            for other in set(ALL) - {use}:
                with refused(LACKING, f"there is no permission for {other} (version {version + 1} of "):
                    await stubs.recall(uses=[use, other])
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "uses: 'fly' is unknown; use one of: animate_face, clone_v"):
            await stubs.recall(uses=["animate_face", "fly"])


async def test_a_refusal_names_what_lacks_since_when_what_is_allowed_and_what_to_do(stack: Stack) -> None:
    ended = pb.Grant(use="keep_turns", granted_by="Ada's mother", granted_on="2026-01-01", until="2026-01-31")
    async with serving(stack.settings(), clock=at("2026-02-28T12:00:00")) as stubs:
        added = await stubs.add(parts(header()))
        added.profile.name = "Augusta"
        await stubs.change(change_of(1, [*grants(["animate_face"]), ended], profile=added.profile))
        text = (
            "identity 'ada': there is no permission for clone_voice (version 2 of 2026-02-28); the permission for"
            " keep_turns by Ada's mother of 2026-01-01 ended with 2026-01-31; allowed is animate_face by the test since"
            " 2026-01-31; whoever may allow it does so with"
            " `e3rg identity change ada --grant clone_voice --grant keep_turns --granted-by NAME`"
        )
        with refused(LACKING, text):
            await stubs.recall(uses=["keep_turns", "animate_face", "clone_voice"])
        await stubs.change(change_of(2, []))
        with refused(LACKING, "allowed is nothing; whoever may allow it"):
            await stubs.recall(uses=["animate_face"])


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        ("2026-02-27T09:59:59", "of 2026-02-28 has not begun"),
        ("2026-02-27T10:00:00", ""),  # It is the 28th where the day begins first.
        ("2026-03-01T23:59:59.999", ""),
        ("2026-03-02T00:00:00", "of 2026-02-28 ended with 2026-03-01"),
        ("2030-01-01T00:00:00", "ended with 2026-03-01"),
    ],
)
async def test_a_permission_holds_from_its_first_day_to_the_end_of_its_last_for_every_use_of_it(
    embedded: Stack, time: str, problem: str
) -> None:
    head, clock = header(), at("2026-02-28T12:00:00")
    for grant in head.grants:
        grant.granted_on, grant.until = "2026-02-28", "2026-03-01"
    async with serving(embedded.settings(), clock=clock) as stubs:
        await stubs.add(parts(head))
        await put_derived(stubs, b"a voice")
        await put_emotion(stubs, b"sad", identity="ada")
        clock.now_s = at(time).now_s
        refusals = list[str]()
        for call in (
            stubs.recall(uses=["infer_emotion"]),
            file(stubs, VOICE),
            file(stubs, PORTRAIT),
            derived(stubs),
            put_derived(stubs, b"a voice"),
            emotion(stubs, identity="ada"),
            put_emotion(stubs, b"sad", identity="ada"),
            stubs.say(1),
        ):
            try:
                await call
            except grpc.aio.AioRpcError as error:
                assert error.code() is LACKING
                refusals.append(error.details() or "")
        assert len(refusals) == (8 if problem else 0)
        assert [text for text in refusals if problem not in text] == []


async def test_a_permission_for_one_day_is_one(embedded: Stack) -> None:
    head = header()
    for grant in head.grants:
        grant.until = grant.granted_on
    async with serving(embedded.settings(), clock=at("2026-01-31T23:59:59")) as stubs:
        await stubs.add(parts(head))
        assert await file(stubs, VOICE) == VOICE


async def test_files_and_what_was_derived_are_handed_out_for_what_is_allowed_only(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE, FILM))
        for content in (PORTRAIT, VOICE, FILM):
            await put_derived(stubs, content[:5], content)
        await stubs.change(change_of(1, grants(["animate_face"])))
        for content in (PORTRAIT, FILM):
            assert (await file(stubs, content), await derived(stubs, content)) == (content, content[:5])
        for call in (file(stubs, VOICE), derived(stubs, VOICE), put_derived(stubs, b"x", VOICE)):
            with refused(LACKING, "there is no permission for clone_voice"):
                await call
        await stubs.change(change_of(2, grants(["clone_voice"])))
        assert await file(stubs, VOICE) == VOICE
        for content in (PORTRAIT, FILM):
            with refused(LACKING, "there is no permission for animate_face"):
                await file(stubs, content)


async def test_what_was_derived_is_deleted_with_its_permission_and_the_files_stay(stack: Stack) -> None:
    async with serving(stack.settings(), clock=at("2026-02-28T12:00:00")) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE, FILM))
        for content in (PORTRAIT, VOICE, FILM):
            await put_derived(stubs, b"derived", content)
        ended = grants(["clone_voice"])[0]
        ended.until = "2026-02-27"
        await stubs.change(change_of(1, [*grants(["animate_face"]), ended]))
        assert len((await kept(stubs, stack))["derived_data"]) == 2
        await stubs.change(change_of(2, []))
        assert "derived_data" not in await kept(stubs, stack)
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        assert len(stack.objects) == 3
        assert len((await get(stubs)).references) == 3
        await stubs.change(change_of(3, grants()))
        for content in (PORTRAIT, VOICE, FILM):
            assert await file(stubs, content) == content
            with refused(grpc.StatusCode.NOT_FOUND, "has derived nothing from these files of identity 'ada'"):
                await derived(stubs, content)


async def test_without_keep_turns_nothing_said_is_kept_searched_or_recalled(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        await stubs.say(1, person="bob")
        await stubs.change(change_of(1, grants(["animate_face"])))
        search = memory_pb2.SearchRequest(tenant="acme", identity="ada", person="bob", text="question 1")
        for call in (stubs.say(2, person="bob"), stubs.memory.Search(search)):
            with refused(LACKING, "there is no permission for keep_turns"):
                await call
        assert not (await stubs.recall(person="bob")).turns
        await stubs.change(change_of(2, grants()))
        assert [turn.id for turn in (await stubs.recall(person="bob")).turns] == ["turn-1"]


@pytest.mark.parametrize(
    ("generator", "use"), [(pb.GENERATOR_VOICE, "clone_voice"), (pb.GENERATOR_FACE, "animate_face")]
)
async def test_an_emotional_reference_of_an_identity_is_kept_and_handed_out_with_its_permission_only(
    stack: Stack, generator: pb.Generator, use: str
) -> None:
    async def own(stubs: Stubs) -> bytes:
        return (await emotion(stubs, identity="ada", generator=generator))[1]

    others = grants(each for each in USES if each != use)
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(uses=[grant.use for grant in others])))
        await put_emotion(stubs, b"of all", generator=generator)
        assert await own(stubs) == b"of all"
        with refused(LACKING, f"there is no permission for {use}"):
            await put_emotion(stubs, b"her own", identity="ada", generator=generator)
        await stubs.change(change_of(1, grants()))
        await put_emotion(stubs, b"her own", identity="ada", generator=generator)
        await stubs.change(change_of(2, others))
        with refused(LACKING, f"there is no permission for {use}"):
            await own(stubs)
        await stubs.change(change_of(3, grants()))
        assert await own(stubs) == b"her own"
