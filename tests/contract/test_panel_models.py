"""Which model a vote is of, when voters are replaced, several behind one name, or perceive little: real channels."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from tests.fakes import PATIENCE_S
from tests.odd_voters import WHEEL, Odd, Panel, answer, card, understand
from tests.samples import film


@pytest.fixture
async def panel() -> AsyncIterator[Panel]:
    panel = Panel()
    yield panel
    await panel.stop()


async def test_a_turn_does_not_wait_for_a_voter_to_say_what_it_is_but_who_asks_for_the_panel_does(panel: Panel) -> None:
    panel.odd.known.clear()
    stub = await panel.start()
    record = (await understand(stub)).record
    assert (record.votes[0].status, record.votes[0].card.model) == (pb.VOTE_STATUS_VOTED, "odd-1")
    seat = (await stub.GetPanel(pb.GetPanelRequest())).seats[0]
    assert seat.problem == "mllm odd: it did not tell its card within 2 s"


async def test_each_vote_names_the_one_that_gave_it_of_two_behind_one_name(panel: Panel) -> None:
    second = Odd("odd-2")
    second.answer = answer({"sad": 1.0}, label="sad", face_class="sad")
    panel.more_odds = [second]
    stub = await panel.start()
    seen: dict[str, set[str]] = {}
    async with asyncio.timeout(PATIENCE_S):
        while len(seen) < 2:  # replicas that are equally idle are chosen at random
            (vote, *_) = (await understand(stub)).record.votes
            assert vote.prediction.card == vote.card
            seen.setdefault(vote.card.model, set()).add(vote.prediction.label)
    assert seen == {"odd-1": {"furious"}, "odd-2": {"sad"}}


async def test_a_vote_of_the_one_that_is_asked_in_place_of_another_is_its_own(panel: Panel) -> None:
    panel.odd.is_leaving = True
    panel.more_odds = [Odd("odd-2")]
    stub = await panel.start()
    while not panel.odd.asked.is_set():
        vote = (await understand(stub)).record.votes[0]
        assert (vote.status, vote.card.model) == (pb.VOTE_STATUS_VOTED, "odd-2")


async def test_nobody_guesses_which_of_two_models_was_late(panel: Panel) -> None:
    panel.cast.vote_deadline_s = 0.5
    panel.more_odds = [Odd("odd-2")]
    for odd in (panel.odd, *panel.more_odds):
        odd.ready.clear()
    late = (await understand(await panel.start())).record.votes[0]
    assert (late.status, late.HasField("card")) == (pb.VOTE_STATUS_LATE, False)


async def test_a_voter_that_is_replaced_over_a_vote_sits_on_the_panel_as_what_it_is_now(panel: Panel) -> None:
    panel.odd.ready.clear()
    stub = await panel.start()
    understanding = asyncio.ensure_future(understand(stub))
    await asyncio.wait_for(panel.odd.asked.wait(), PATIENCE_S)
    await panel.replace_odd(Odd("odd-2"))
    # Its call broke off; made again it reaches the successor, or nobody.
    first = (await understanding).record.votes[0]
    assert (first.status, first.card.model) in [(pb.VOTE_STATUS_VOTED, "odd-2"), (pb.VOTE_STATUS_FAILED, "odd-1")]
    second = (await understand(stub)).record.votes[0]
    assert (second.status, second.card.model) == (pb.VOTE_STATUS_VOTED, "odd-2")


async def test_a_voter_with_another_wheel_is_not_asked(panel: Panel) -> None:
    panel.odd.model = card(ontology_hash="0" * 64)
    record = (await understand(await panel.start())).record
    assert record.votes[0].status == pb.VOTE_STATUS_FAILED
    assert record.votes[0].reason == (
        f"mllm odd uses emotion wheel 000000000000, the panel {WHEEL.digest[:12]}; deploy the same version of both"
    )
    assert dict(record.tally) == {"sad": 2}
    assert not panel.odd.asked.is_set()


async def test_the_vote_of_a_model_with_another_wheel_of_which_nothing_was_known_does_not_count(panel: Panel) -> None:
    panel.odd.model, panel.odd.is_told = card(ontology_hash="0" * 64), False
    vote = (await understand(await panel.start())).record.votes[0]
    assert (vote.status, vote.card.ontology_hash) == (pb.VOTE_STATUS_FAILED, "0" * 64)
    assert vote.reason.startswith("mllm odd uses emotion wheel 000000000000, the panel ")


async def test_a_voter_of_an_older_release_that_names_no_model_votes_as_nobody(panel: Panel) -> None:
    panel.odd.is_told = panel.odd.is_named = False
    vote = (await understand(await panel.start())).record.votes[0]
    assert (vote.status, vote.HasField("card"), vote.weight) == (pb.VOTE_STATUS_VOTED, False, 1)


async def test_a_voter_is_asked_only_about_what_it_perceives(panel: Panel) -> None:
    panel.odd.model.ClearField("perceives")
    panel.odd.model.perceives.append(common.MODALITY_VIDEO)
    stub = await panel.start()
    record = (await understand(stub)).record
    vote = record.votes[0]
    assert (vote.status, vote.card.model) == (pb.VOTE_STATUS_ABSTAINED, "odd-1")
    assert (vote.reason, vote.HasField("prediction")) == ("it perceives video, and the message has text", False)
    assert (panel.odd.asked.is_set(), record.label) == (False, "sad")
    assert (await understand(stub, video=film())).record.votes[0].status == pb.VOTE_STATUS_VOTED
    assert panel.odd.asked.is_set()


async def test_of_two_models_behind_one_name_it_is_enough_that_one_perceives_the_message(panel: Panel) -> None:
    panel.odd.model.perceives[:] = [common.MODALITY_VIDEO]
    panel.more_odds = [Odd("odd-2")]
    assert (await understand(await panel.start())).record.votes[0].status == pb.VOTE_STATUS_VOTED


async def test_a_reply_that_is_lost_before_its_first_words_names_only_the_one_that_wrote_it(panel: Panel) -> None:
    panel.writer, panel.odd.is_leaving = "odd", True
    panel.more_odds = [Odd("odd-2")]
    stub = await panel.start()
    while not panel.odd.asked.is_set():
        request = pb.WriteReplyRequest(reply=mllm.WriteReplyRequest(text="I lost my job."))
        first, *others = [part async for part in stub.WriteReply(request, timeout=PATIENCE_S)]
        assert first.card.model == others[-1].record.card.model == "odd-2"
        assert [part.sentence for part in (first, *others[:-1])] == ["I am odd-2."]
