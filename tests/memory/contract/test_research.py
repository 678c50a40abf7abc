"""Questions across conversations: users, conversations, turns, counts and ratings of a tenant."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import memory_pb2, turns_pb2
from tests.serving import refused
from tests.support.conversations import allow, listed, remember
from tests.support.memory import MP4, TENANT, Clock, Stubs, header, parts, serving
from tests.support.stacks import Stack

INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
START_S = 1_800_000_000.0
Record = turns_pb2.TurnRecord


@pytest.fixture
async def stubs(stack: Stack) -> AsyncIterator[Stubs]:
    """A memory with 24 turns of three users, one of whom has no name, with two identities; one a minute."""
    clock = Clock(START_S)
    async with serving(stack.settings(), clock=clock) as stubs:
        for name in ("ada", "eve"):
            await stubs.add(parts(header(name)))
        await stubs.add(parts(header(tenant="other")))
        await remember(stubs, 99, where={"tenant": "other", "person": "bob"})
        for number in range(24):
            where = {
                "identity": ("ada", "eve")[number % 2],
                "person": ("bob", "ann", "")[number % 3],
                "conversation": ("monday", "friday")[number // 12],
            }
            await remember(
                stubs,
                number,
                f"50% of DOGS_{number}" if number % 4 else f"a \u00c4rger {number}",
                where,
                user_emotion=("sad", "happy", "angry")[number % 5 % 3],
                reply_emotion=("caring", "hopeful")[number % 7 % 2],
                reply_text=f"Cats {number}",
                variants={"tts": ("default", "new")[number // 8 % 2], "video": "default"},
            )
            clock.now_s += 60
        yield stubs


async def query(stubs: Stubs, page_size: int = 0, order: Any = 0, **wanted: Any) -> list[Record]:
    """All turns that match a filter, by pages."""
    chosen = turns_pb2.TurnFilter(**wanted)
    request = turns_pb2.QueryTurnsRequest(tenant=TENANT, filter=chosen, order=order, page_size=page_size)
    records: list[Record] = []
    while True:
        page = await stubs.turns.QueryTurns(request)
        assert len(page.turns) <= (page_size or 50)
        records += page.turns
        if not page.next_page_token:
            return records
        request.page_token = page.next_page_token


def numbers(records: list[Record]) -> list[int]:
    return [int(each.turn.id.removeprefix("turn-")) for each in records]


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ({}, lambda record: True),
        ({"identity": "ada"}, lambda record: record.identity == "ada"),
        ({"user": "bob"}, lambda record: record.user == "bob"),
        ({"user": "monday"}, lambda record: False),
        ({"conversation": "monday"}, lambda record: record.turn.conversation == "monday"),
        ({"from_s": START_S + 300}, lambda record: record.turn.said_at_s >= START_S + 300),
        ({"until_s": START_S + 300}, lambda record: record.turn.said_at_s < START_S + 300),
        ({"user_emotions": ["sad", "angry"]}, lambda record: record.turn.user_emotion in ("sad", "angry")),
        ({"reply_emotions": ["hopeful"]}, lambda record: record.turn.reply_emotion == "hopeful"),
        ({"stage": "tts", "variant": "new"}, lambda record: record.turn.variants["tts"] == "new"),
        ({"stage": "vote", "variant": "default"}, lambda record: False),
        ({"text": "dogs"}, lambda record: "DOGS" in record.turn.user_text),
        ({"text": "cATS 1"}, lambda record: "Cats 1" in record.turn.reply_text),
        ({"text": "0% of"}, lambda record: "50%" in record.turn.user_text),
        ({"text": "S_1"}, lambda record: "S_1" in record.turn.user_text),
        ({"text": "D%S"}, lambda record: False),
        ({"text": "\u00e4RGER"}, lambda record: "\u00c4rger" in record.turn.user_text),
        (
            {"identity": "eve", "user": "ann", "user_emotions": ["happy"], "from_s": START_S + 60, "text": "dogs"},
            lambda record: (
                (record.identity, record.user, record.turn.user_emotion) == ("eve", "ann", "happy")
                and record.turn.said_at_s >= START_S + 60
                and "DOGS" in record.turn.user_text
            ),
        ),
    ],
)
async def test_the_turns_that_match_a_filter_are_told_by_pages_in_order(
    stubs: Stubs, wanted: dict[str, Any], matches: Callable[[Record], bool]
) -> None:
    everything = await query(stubs)
    assert numbers(everything) == list(range(23, -1, -1))
    expected = [number for number, record in zip(range(23, -1, -1), everything, strict=True) if matches(record)]
    assert numbers(await query(stubs, **wanted)) == expected
    assert numbers(await query(stubs, 5, turns_pb2.TURN_ORDER_NEWEST_FIRST, **wanted)) == expected
    assert numbers(await query(stubs, 5, turns_pb2.TURN_ORDER_OLDEST_FIRST, **wanted)) == expected[::-1]


async def test_a_turn_is_told_whole_with_its_context(stubs: Stubs) -> None:
    await stubs.put_clip(memory_pb2.CLIP_KIND_VIDEO, MP4, "turn-0", person="bob", conversation="monday")
    for rater in ("zoe", "abe"):
        await rate(stubs, rater)
    (record,) = await query(stubs, user="bob", until_s=START_S + 1)
    (turn,) = [each for each in await listed(stubs, person="bob", conversation="monday") if each.id == "turn-0"]
    assert (record.turn, record.identity, record.user) == (turn, "ada", "bob")
    assert (turn.vote_record, len(turn.timings_s), len(turn.clips)) == (b"how the panel decided", 1, 1)
    assert [each.rater for each in record.ratings] == ["abe", "zoe"]
    nameless = await query(stubs, conversation="friday", order=turns_pb2.TURN_ORDER_OLDEST_FIRST)
    assert [(each.user, each.identity) for each in nameless[:3]] == [("bob", "ada"), ("ann", "eve"), ("", "ada")]


async def test_turns_of_one_moment_are_each_told_once(stack: Stack) -> None:
    async with serving(stack.settings(), clock=Clock()) as stubs:
        await stubs.add(parts(header()))
        for number in range(7):
            await remember(stubs, number, where={"conversation": str(number)})
        assert numbers(await query(stubs, 2)) == [6, 5, 4, 3, 2, 1, 0]
        assert numbers(await query(stubs, 2, turns_pb2.TURN_ORDER_OLDEST_FIRST)) == [0, 1, 2, 3, 4, 5, 6]
        talks = await stubs.turns.ListConversations(turns_pb2.ListConversationsRequest(tenant=TENANT, page_size=3))
        request = turns_pb2.ListConversationsRequest(tenant=TENANT, page_token=talks.next_page_token)
        more = await stubs.turns.ListConversations(request)
        assert {each.name for each in [*talks.conversations, *more.conversations]} == set("0123456")


async def test_long_turns_come_on_as_many_pages_as_messages_need(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        long = "\N{GRINNING FACE}" * 32_000
        for number in range(20):
            await remember(stubs, number, long, reply_text=long)
        assert numbers(await query(stubs, 200)) == list(range(19, -1, -1))


async def test_users_are_listed_by_name_with_how_much_is_kept_of_them(stubs: Stubs) -> None:
    request = turns_pb2.ListUsersRequest(tenant=TENANT, page_size=2)
    users: list[turns_pb2.User] = []
    while not users or request.page_token:
        page = await stubs.turns.ListUsers(request)
        users += page.users
        request.page_token = page.next_page_token
    assert [(each.name, each.conversations, each.turns) for each in users] == [
        ("ann", 4, 8),
        ("bob", 4, 8),
        ("", 2, 4),
        ("", 2, 4),
    ]
    assert [each.first_turn_at_s - START_S for each in users] == [60, 0, 14 * 60, 2 * 60]
    assert [each.last_turn_at_s - START_S for each in users] == [22 * 60, 21 * 60, 23 * 60, 11 * 60]
    with_eve = await stubs.turns.ListUsers(turns_pb2.ListUsersRequest(tenant=TENANT, identity="eve"))
    assert [(each.name, each.turns) for each in with_eve.users] == [("ann", 4), ("bob", 4), ("", 2), ("", 2)]


async def test_a_user_who_is_called_like_a_conversation_is_listed_beside_the_one_who_is_known_in_it_only(
    stack: Stack,
) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        for number in (1, 2):
            await remember(stubs, number, where={"person": "monday"})
        await remember(stubs, 3, where={"conversation": "monday"})
        request = turns_pb2.ListUsersRequest(tenant=TENANT, page_size=1)
        first = await stubs.turns.ListUsers(request)
        request.page_token = first.next_page_token
        second = await stubs.turns.ListUsers(request)
        assert [(each.name, each.turns) for each in (*first.users, *second.users)] == [("", 1), ("monday", 2)]
        assert (len(first.users), second.next_page_token) == (1, "")


async def test_conversations_are_listed_the_newest_first(stubs: Stubs) -> None:
    request = turns_pb2.ListConversationsRequest(tenant=TENANT, page_size=5)
    talks: list[turns_pb2.Conversation] = []
    while not talks or request.page_token:
        page = await stubs.turns.ListConversations(request)
        talks += page.conversations
        request.page_token = page.next_page_token
    assert len(talks) == 12
    assert {each.turns for each in talks} == {2}
    times = [each.last_turn_at_s for each in talks]
    assert times == sorted(times, reverse=True)
    last = talks[0]
    assert (last.name, last.identity, last.user) == ("friday", "eve", "")
    assert (last.first_turn_at_s, last.last_turn_at_s) == (START_S + 17 * 60, START_S + 23 * 60)
    wanted = turns_pb2.ListConversationsRequest(tenant=TENANT, identity="ada", user="bob")
    found = (await stubs.turns.ListConversations(wanted)).conversations
    assert [(each.name, each.identity, each.user) for each in found] == [
        ("friday", "ada", "bob"),
        ("monday", "ada", "bob"),
    ]


@pytest.mark.parametrize("bucket_s", [0, 600, 3600.5])
@pytest.mark.parametrize(
    ("group", "wanted", "name_of"),
    [
        ("USER_EMOTION", {}, lambda turn: turn.user_emotion),
        ("REPLY_EMOTION", {"user": "bob"}, lambda turn: turn.reply_emotion),
        ("VARIANT", {"stage": "tts"}, lambda turn: turn.variants["tts"]),
        ("VARIANT", {"stage": "mllm"}, lambda turn: ""),
    ],
)
async def test_turns_are_counted_by_time_and_emotion_or_variant(
    stubs: Stubs, group: str, wanted: dict[str, Any], name_of: Callable[[memory_pb2.Turn], str], bucket_s: float
) -> None:
    request = turns_pb2.CountTurnsRequest(
        tenant=TENANT,
        filter=turns_pb2.TurnFilter(**wanted),
        group=f"TURN_GROUP_{group}",
        bucket_s=bucket_s,
    )
    expected: dict[tuple[float, str], int] = {}
    for record in await query(stubs, user=wanted.get("user", "")):
        at_s = record.turn.said_at_s // bucket_s * bucket_s if bucket_s else 0.0
        key = at_s, name_of(record.turn)
        expected[key] = expected.get(key, 0) + 1
    counts = (await stubs.turns.CountTurns(request)).counts
    assert [((each.from_s, each.name), each.turns) for each in counts] == sorted(expected.items())


async def rate(stubs: Stubs, rater: str, scale: int = 3, **where: str) -> turns_pb2.Rating:
    rating = turns_pb2.Rating(rater=rater, expressiveness=1, consistency=5, naturalness=scale, rated_at_s=7)
    values = {"identity": "ada", "user": "bob", "conversation": "monday", "turn": "turn-0"} | where
    request = turns_pb2.RateTurnRequest(tenant=TENANT, rating=rating, **values)
    return (await stubs.turns.RateTurn(request)).rating


async def test_more_counts_than_an_answer_holds_are_refused_with_the_remedy(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.memory.repositories.research.COUNTS_MAX", 24)
    request = turns_pb2.CountTurnsRequest(tenant=TENANT, group="TURN_GROUP_USER_EMOTION", bucket_s=60)
    assert len((await stubs.turns.CountTurns(request)).counts) == 24
    monkeypatch.setattr("services.memory.repositories.research.COUNTS_MAX", 23)
    with refused(INVALID, "bucket_s: 60 gives more than 23 counts; ask for wider buckets"):
        await stubs.turns.CountTurns(request)


async def test_a_turn_is_rated_once_by_each_rater(stubs: Stubs) -> None:
    kept = await rate(stubs, "r1")
    assert (kept.rater, kept.expressiveness, kept.consistency, kept.naturalness) == ("r1", 1, 5, 3)
    assert kept.rated_at_s == START_S + 24 * 60
    assert await rate(stubs, "r1") == kept
    with refused(grpc.StatusCode.ALREADY_EXISTS, "'r1' has rated turn 'turn-0'"):
        await rate(stubs, "r1", 4)
    other = await rate(stubs, "r2", 4)
    (record,) = await query(stubs, until_s=START_S + 1)
    assert list(record.ratings) == [kept, other]


@pytest.mark.parametrize(
    ("wrong", "code", "text"),
    [
        ({"scale": 0}, INVALID, "rating.naturalness: 0"),
        ({"scale": 6}, INVALID, "rating.naturalness: 6"),
        ({"rater": ""}, INVALID, "rating.rater: "),
        ({"rater": "a b"}, INVALID, "rating.rater: "),
        ({"turn": "turn-1"}, NOT_FOUND, "turn 'turn-1'"),
        ({"user": "ann"}, NOT_FOUND, "turn 'turn-0'"),
        ({"user": ""}, NOT_FOUND, "turn 'turn-0'"),
        ({"identity": "max"}, NOT_FOUND, "'max'"),
    ],
)
async def test_a_wrong_rating_is_refused(stubs: Stubs, wrong: dict[str, Any], code: grpc.StatusCode, text: str) -> None:
    with refused(code, text):
        await rate(stubs, **({"rater": "r1"} | wrong))
    assert not [each for each in await query(stubs) if each.ratings]


@pytest.mark.parametrize(
    ("text", "request_of"),
    [
        ("filter.identity: ", {"filter": {"identity": "Ada"}}),
        ("filter.user: ", {"filter": {"user": "a b"}}),
        ("filter.conversation: ", {"filter": {"conversation": "a/b"}}),
        ("filter.from_s: ", {"filter": {"from_s": float("nan")}}),
        ("filter.user_emotions: ", {"filter": {"user_emotions": ["meh"]}}),
        ("filter.reply_emotions: ", {"filter": {"reply_emotions": ["meh"]}}),
        ("filter.stage: ", {"filter": {"variant": "new"}}),
        ("filter.text: ", {"filter": {"text": "x" * 201}}),
        ("page_token: ", {"page_token": "7"}),
        ("page_size: 201", {"page_size": 201}),
        ("order: 9 is unknown", {"order": 9}),
        ("tenant: ", {"tenant": ""}),
        ("group: 0 is unknown", {"group": 0}),
        ("bucket_s: 59", {"group": 1, "bucket_s": 59}),
        ("bucket_s: nan", {"group": 1, "bucket_s": float("nan")}),
        ("filter.stage: missing", {"group": 3}),
    ],
)
async def test_a_wrong_question_is_refused_with_the_field(
    embedded: Stack, text: str, request_of: dict[str, Any]
) -> None:
    async with serving(embedded.settings()) as stubs:
        values = {"tenant": TENANT} | request_of | {"filter": turns_pb2.TurnFilter(**request_of.get("filter", {}))}
        with refused(INVALID, text):
            if "group" in request_of:
                await stubs.turns.CountTurns(turns_pb2.CountTurnsRequest(**values))
            else:
                await stubs.turns.QueryTurns(turns_pb2.QueryTurnsRequest(**values))


async def test_an_unknown_identity_is_not_found(stubs: Stubs) -> None:
    chosen = turns_pb2.TurnFilter(identity="max")
    for call in (
        stubs.turns.ListUsers(turns_pb2.ListUsersRequest(tenant=TENANT, identity="max")),
        stubs.turns.ListConversations(turns_pb2.ListConversationsRequest(tenant=TENANT, identity="max")),
        stubs.turns.QueryTurns(turns_pb2.QueryTurnsRequest(tenant=TENANT, filter=chosen)),
        stubs.turns.CountTurns(
            turns_pb2.CountTurnsRequest(tenant=TENANT, filter=chosen, group=turns_pb2.TURN_GROUP_USER_EMOTION)
        ),
    ):
        with refused(NOT_FOUND, "'max'"):
            await call
    await allow(stubs, ())
    assert len(await query(stubs, identity="ada")) == 12
