"""Nothing of one tenant, identity, person or conversation is ever told to another."""

import itertools
import random
from collections import defaultdict
from dataclasses import replace

import pytest

from services.common.errors import NotFound
from services.memory.domain import ClipKind, Sought, Turn
from tests.fake_store import FakeStore
from tests.talking import WAV, Replica, turn

Whom = tuple[str, str, str, str]
"""Tenant, identity, person and conversation."""

# Names that are beginnings of others, or the same at another level: what a join of keys could mix up.
TENANTS = ("a", "a-a", "b")
IDENTITIES = ("a", "a-a", "b")
PERSONS = ("", "a", "a-a", "b")
CONVERSATIONS = ("a", "a-a", "b")
TOGETHER = tuple(itertools.product(TENANTS, IDENTITIES, PERSONS, CONVERSATIONS))


def text_of(whom: Whom, turn_id: str) -> str:
    """A text that says whose it is; all texts share words, so that each is near to each."""
    return "the same words by {}; {}; {}; {}; ".format(*whom) + turn_id


@pytest.fixture(scope="module", params=[1, 2, 3])
def talked(request: pytest.FixtureRequest) -> tuple[Replica, dict[Whom, list[Turn]]]:
    """A memory of two processes in which all have said things in turns, and what each has said."""
    chance = random.Random(request.param)
    replicas = [Replica(store := FakeStore()), Replica(store)]
    for tenant, identity in itertools.product(TENANTS, IDENTITIES):
        replicas[0].add(identity, tenant)
    said: dict[Whom, list[Turn]] = defaultdict(list)
    for whom in chance.choices(TOGETHER, k=500):
        turn_id = f"turn-{len(said[whom])}"
        new = replace(turn(0), id=turn_id, user_text=text_of(whom, turn_id))
        memory = chance.choice(replicas)
        memory.talks.remember(*whom, new)
        memory.talks.put_clip(*whom, turn_id, ClipKind.SPEECH, WAV + new.user_text.encode())
        memory.talks.put_timings(*whom, turn_id, {new.user_text: 1.0})
        said[whom].append(new)
    return replicas[0], said


def texts(turns: list[Turn]) -> list[str]:
    return [each.user_text for each in turns]


def test_recall_and_list_tell_each_exactly_what_was_said_there(talked: tuple[Replica, dict[Whom, list[Turn]]]) -> None:
    memory, said = talked
    for tenant, identity, person, conversation in TOGETHER:
        own = texts(said.get((tenant, identity, person, conversation), []))
        scope = memory.scope(identity, tenant)
        assert texts(list(memory.talks.last(scope, person, conversation, 1000).turns)) == own
        listed = memory.talks.turns(tenant, identity, person, conversation, 200, "")
        page, following = listed.turns, listed.following
        assert (texts(list(page))[::-1], following) == (own, "")
        assert [each.timings_s for each in page] == [{each.user_text: 1.0} for each in page]


def test_search_finds_a_persons_own_turns_and_no_others(talked: tuple[Replica, dict[Whom, list[Turn]]]) -> None:
    memory, said = talked
    sought = Sought("the same words by", hits_max=32, similarity_min=-1)
    for tenant, identity, person, conversation in TOGETHER:
        own = texts(said.get((tenant, identity, person, conversation), []))
        hits = memory.talks.search(tenant, identity, person, conversation, sought)
        assert sorted(hit.turn.user_text for hit in hits) == sorted(own)
    for tenant, identity, person in itertools.product(TENANTS, IDENTITIES, PERSONS[1:]):
        everywhere = [texts(said.get((tenant, identity, person, name), [])) for name in CONVERSATIONS]
        hits = memory.talks.search(tenant, identity, person, "", sought)
        assert sorted(hit.turn.user_text for hit in hits) == sorted(itertools.chain(*everywhere))


def test_a_clip_is_that_of_the_turn_and_of_no_other(talked: tuple[Replica, dict[Whom, list[Turn]]]) -> None:
    memory, said = talked
    for whom in TOGETHER:
        for each in said.get(whom, []):
            assert memory.talks.clip(*whom, each.id, ClipKind.SPEECH) == WAV + each.user_text.encode()
        with pytest.raises(NotFound):
            memory.talks.clip(*whom, f"turn-{len(said.get(whom, []))}", ClipKind.SPEECH)
        page = memory.talks.turns(*whom, 200, "").turns
        assert [len(each.clips) for each in page] == [1] * len(page)
