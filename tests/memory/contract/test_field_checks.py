"""Fields of turns, and strings that no database keeps: each refusal names the field and says what would be right."""

import itertools
import math
from typing import Any

import grpc

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2, turns_pb2
from tests.serving import refused
from tests.support.conversations import erase_user
from tests.support.identities import kept
from tests.support.memory import PORTRAIT, TENANT, VOICE, Stubs, header, parts, serving, turn
from tests.support.stacks import Stack

INVALID = grpc.StatusCode.INVALID_ARGUMENT
VOTE = memory_pb2.TurnVote(voter="text", label="sad", weight=1, latency_s=1)


def vote(**changes: Any) -> memory_pb2.TurnVote:
    changed = memory_pb2.TurnVote()
    changed.CopyFrom(VOTE)
    changed.MergeFrom(memory_pb2.TurnVote(**changes))
    return changed


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("turn.id: '' is not a name; use 1 to 63 letters A-Z a-z, digits, hyphens", {"id": ""}),
    ("turn.id: '../x'", {"id": "../x"}),
    ("turn.id: 'aaa", {"id": "a" * 64}),
    ("turn.id: '\\u0430'", {"id": "\u0430"}),
    ("turn.user_text: it is empty; give 1 to 32000 characters", {"user_text": ""}),
    ("turn.user_text: it has 32001 characters; give at most 32000", {"user_text": "x" * 32_001}),
    ("turn.user_text: it has the character U+0000", {"user_text": "a\0b"}),
    ("turn.reply_text: it is empty", {"reply_text": " "}),
    ("turn.reply_text: it has 32001 characters", {"reply_text": "x" * 32_001}),
    ("turn.user_emotion: 'meh' is unknown; use one of: neutral", {"user_emotion": "meh"}),
    ("turn.reply_emotion: '' is unknown; use one of: neutral", {"reply_emotion": ""}),
    ("turn.user_intensity: -0.1", {"user_intensity": -0.1}),
    ("turn.user_intensity: 1.1", {"user_intensity": 1.1}),
    ("turn.user_intensity: nan is not allowed; give 0 to 1", {"user_intensity": math.nan}),
    ("turn.vote_record: it has 65537 bytes; send at most 65536 (64 KiB)", {"vote_record": bytes(65_537)}),
    ("turn.models: it has 33 entries; give at most 32", {"models": {str(number): "x" for number in range(33)}}),
    ("turn.models['mllm']: it has 101 characters", {"models": {"mllm": "x" * 101}}),
    ("turn.models['mllm']: it has the character U+0000", {"models": {"mllm": "\0x"}}),
    ("turn.variants['mllm']: it is empty", {"variants": {"mllm": ""}}),
    ("turn.variants: name: it is empty", {"variants": {"": "a"}}),
    ("turn.timings_s: name: it has 101 characters", {"timings_s": {"x" * 101: 1.0}}),
    ("turn.timings_s['vote']: inf", {"timings_s": {"vote": math.inf}}),
    ("turn.timings_s['vote']: -1.0 is not allowed", {"timings_s": {"vote": -1.0}}),
    ("turn.votes: it has 33 entries", {"votes": [VOTE] * 33}),
    ("turn.votes[1].voter: it is empty", {"votes": [VOTE, memory_pb2.TurnVote(label="sad")]}),
    ("turn.votes[0].label: 'meh' is unknown", {"votes": [vote(label="meh")]}),
    ("turn.votes[0].weight: nan", {"votes": [vote(weight=math.nan)]}),
    ("turn.votes[0].latency_s: -1.0", {"votes": [vote(latency_s=-1)]}),
    ("turn.delivery.intensity: 2.0", {"delivery": memory_pb2.TurnDelivery(intensity=2)}),
    ("turn.delivery.decided_by: 'a\\nb' has line breaks", {"delivery": memory_pb2.TurnDelivery(decided_by="a\nb")}),
]
LARGEST: dict[str, Any] = {
    "user_text": "x" * 32_000,
    "reply_text": "x" * 32_000,
    "user_intensity": 1,
    "vote_record": bytes(65_536),
    "models": {f"service {number}": "x" * 100 for number in range(32)},
    "variants": {f"stage {number}": "x" * 100 for number in range(32)},
    "timings_s": {f"{number:100}": 1e9 for number in range(32)},
    "votes": [VOTE] * 32,
}


def with_fields(**changes: Any) -> memory_pb2.Turn:
    changed = turn(1)
    for name in changes:
        changed.ClearField(name)
    changed.MergeFrom(memory_pb2.Turn(**changes))
    return changed


async def remember(stubs: Stubs, new: memory_pb2.Turn, conversation: str = "talk") -> None:
    request = memory_pb2.RememberRequest(tenant=TENANT, identity="ada", conversation=conversation, turn=new)
    await stubs.memory.Remember(request)


async def test_a_wrong_turn_is_refused_with_the_field_and_nothing_is_kept(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        before = await kept(stubs, stack)
        for text, changes in WRONG:
            with refused(INVALID, text) as refusal:
                await remember(stubs, with_fields(**changes))
            assert (refusal.value.details() or "").isascii()
        for conversation in ("", "../talk"):
            with refused(INVALID, "conversation: "):
                await remember(stubs, turn(1), conversation)
        assert await kept(stubs, stack) == before


async def test_the_largest_turn_is_kept_and_comes_back(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header()))
        largest = with_fields(**LARGEST)
        await remember(stubs, largest)
        request = memory_pb2.ListTurnsRequest(tenant=TENANT, identity="ada", conversation="talk")
        (found,) = (await stubs.memory.ListTurns(request)).turns
        for name in LARGEST:
            assert getattr(found, name) == getattr(largest, name)


async def test_strings_that_no_database_keeps_are_refused_by_both_stacks(stack: Stack) -> None:
    example = {"user_text": "a dog", "user_emotion": "sad", "reply_text": "oh"}
    async with serving(stack.settings()) as stubs:
        for name in ("user_text", "reply_text"):
            cases = [exemplars_pb2.Exemplar(**(example | {name: "a\0b"}))]
            with refused(INVALID, f"exemplars[0].{name}: it has the character U+0000"):
                await stubs.exemplars.PutExemplars(exemplars_pb2.PutExemplarsRequest(tenant=TENANT, exemplars=cases))
        for wanted in (turns_pb2.TurnFilter(text="a\0"), turns_pb2.TurnFilter(stage="a\0")):
            with refused(INVALID, f"filter.{'text' if wanted.text else 'stage'}: it has the character U+0000"):
                await stubs.turns.QueryTurns(turns_pb2.QueryTurnsRequest(tenant=TENANT, filter=wanted))


async def test_a_page_token_is_taken_by_its_list_and_filter_only(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        for name in ("ada", "eve"):
            await stubs.add(parts(header(name), PORTRAIT[:100], VOICE))
        for person, number in itertools.product("abcd", (1, 2)):
            await stubs.say(number, person=person)
        for person in "cd":
            await erase_user(stubs, person)
        cases = [exemplars_pb2.Exemplar(user_text=text, user_emotion="sad", reply_text="oh") for text in ("cat", "dog")]
        await stubs.exemplars.PutExemplars(exemplars_pb2.PutExemplarsRequest(tenant=TENANT, exemplars=cases))
        where: dict[str, Any] = {"tenant": TENANT, "page_size": 1}
        talk: dict[str, Any] = {"identity": "ada", "conversation": "talk", "person": "a"}
        lists: list[tuple[Any, Any, dict[str, Any]]] = [
            (stubs.memory.ListTurns, memory_pb2.ListTurnsRequest(**where, **talk), {"person": "b"}),
            (stubs.identities.ListIdentities, identities_pb2.ListIdentitiesRequest(**where), {"tenant": "b"}),
            (stubs.exemplars.ListExemplars, exemplars_pb2.ListExemplarsRequest(**where), {"identity": "ada"}),
            (stubs.erasure.ListAudits, erasure_pb2.ListAuditsRequest(**where), {"tenant": "b"}),
            (stubs.turns.ListUsers, turns_pb2.ListUsersRequest(**where), {"identity": "ada"}),
            (stubs.turns.ListConversations, turns_pb2.ListConversationsRequest(**where), {"user": "a"}),
            (
                stubs.turns.QueryTurns,
                turns_pb2.QueryTurnsRequest(**where),
                {"order": turns_pb2.TURN_ORDER_OLDEST_FIRST},
            ),
        ]
        tokens = [(await call(request)).next_page_token for call, request, _ in lists]
        for place, (call, request, changes) in enumerate(lists):
            request.page_token = own = tokens[place]
            page = await call(request)
            assert page != await call(type(request)(**where, **(talk if place == 0 else {})))
            changed = type(request)()
            changed.CopyFrom(request)
            changed.MergeFrom(type(request)(**changes))
            with refused(INVALID, "page_token: "):
                await call(changed)
            mark = own.partition("-")[0]
            broken = [f"{mark}-{last}" for last in ("a\0 b", "0x1p0 -1", f"0x1p0 {2**63}", "0x1p99999 1", "1" * 6000)]
            for other in (*tokens[:place], *tokens[place + 1 :], mark, f"{mark}-", own[1:], "ada", *broken):
                if place == 4 and other in broken[1:4]:
                    continue  # Any two words are a user's name and kind.
                request.page_token = other
                with refused(INVALID, "page_token: ") as refusal:
                    await call(request)
                assert len(refusal.value.details() or "") < 250
