"""Turns are listed in pages."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import InvalidRequest
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.store import Store
from services.memory.talks import conversation
from services.memory.talks.conversation import Turns
from tests.fake_store import FakeStore
from tests.talking import TENANT, Replica, turn


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


def replica(store: Store) -> Replica:
    made = Replica(store)
    made.add()
    return made


def test_turns_are_listed_in_pages_the_newest_first(store: Store) -> None:
    memory = replica(store)
    for number in range(7):
        memory.say(turn(number))
    pages, after = [], ""
    while True:
        listed = memory.talks.turns(TENANT, "ada", "ann", "talk", 3, after)
        page, after = listed.turns, listed.following
        pages.append([each.id for each in page])
        memory.say(turn(100 + len(pages)))  # What is said meanwhile stands before them.
        if not after:
            break
    assert pages == [["turn-6", "turn-5", "turn-4"], ["turn-3", "turn-2", "turn-1"], ["turn-0"]]
    listed = memory.talks.turns(TENANT, "ada", "ann", "talk", 10, "")
    page, after = listed.turns, listed.following
    assert (len(page), after) == (10, "")
    assert memory.talks.turns(TENANT, "ada", "bob", "talk", 10, "") == Turns()


def test_a_page_ends_where_a_message_is_full_and_the_next_goes_on_there() -> None:
    memory = replica(FakeStore())
    for number in range(9):
        memory.say(replace(turn(number), user_text="ö " * 16_000, reply_text="ö" * 32_000, vote_record="00" * 65_536))
    seen, after, pages = [], "", 0
    while pages == 0 or after:
        listed = memory.talks.turns(TENANT, "ada", "ann", "talk", 200, after)
        page, after = listed.turns, listed.following
        assert sum(len(each.vote_record) + 3 * 32_000 for each in page) < conversation.BYTES_MAX
        seen += [each.id for each in page]
        pages += 1
    assert seen == [f"turn-{number}" for number in reversed(range(9))]
    assert pages > 1


@pytest.mark.parametrize("token", ["x", "1-turn-1", "9999999999", "9999999999-", "9999999999-a/b", "../../etc", "é"])
def test_a_page_token_that_no_page_returned_is_refused(token: str) -> None:
    memory = replica(FakeStore())
    memory.say(turn(1))
    with pytest.raises(InvalidRequest, match=r"^page_token: .*send what the page before returned"):
        memory.talks.turns(TENANT, "ada", "ann", "talk", 3, token)


@pytest.mark.parametrize("size", [0, -1, 201])
def test_a_page_of_no_such_size_is_refused(size: int) -> None:
    with pytest.raises(InvalidRequest, match=r"^page_size: .*1 to 200"):
        replica(FakeStore()).talks.turns(TENANT, "ada", "ann", "talk", size, "")
