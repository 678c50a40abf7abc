"""What a turn gets out of the memory and leaves in it, through all services with fake models."""

import asyncio
import io
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any
from typing import cast as typed

import pytest

from e3rg.memory.v1 import exemplars_pb2 as exemplars
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from e3rg.understanding.v1 import understanding_pb2 as understanding
from services.common.errors import BackendFailed, DeadlineExceeded, NotReady, Overloaded
from services.mllm.domain import Memory
from tests.deployment import Cast, deployed
from tests.fakes import Gate, fail
from tests.samples import wav
from tests.serving import CallLog
from tests.turns import away, header, lost, respond, until

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

DOG, JOB, THANKS = "My dog is ill.", "I lost my job.", "Thank you."
TEXT, AUDIO = pb.OUTPUT_TEXT, pb.OUTPUT_AUDIO
NOT_FOUND = [("search", "earlier turns that are like the message"), ("search", "examples of answers")]
EXAMPLE = exemplars.Exemplar(user_text="I lost my job.", user_emotion="sad", reply_text="What will you do?")

Start = Callable[[], Awaitable["Stub"]]


@pytest.fixture
async def stub(cast: Cast) -> AsyncIterator["Stub"]:
    async with deployed(cast) as deployment:
        channel = deployment.served["orchestrator"].channel
        yield typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))


def failing(error: Exception, *methods: str) -> Callable[[str], None]:
    """Returns a `before` that raises in these methods."""

    def before(method: str) -> None:
        if method in methods:
            raise error

    return before


async def say(stub: "Stub", *texts: str, **fields: Any) -> None:
    for text in texts:
        await respond(stub, header(text, output=TEXT, **fields))


# Search


async def test_what_was_said_two_turns_earlier_is_found_told_and_given_to_the_writer(stub: "Stub", cast: Cast) -> None:
    await say(stub, DOG, THANKS, conversation="talk")
    turn = await respond(stub, header("My dog is better.", conversation="talk", output=TEXT))
    (hit,) = turn.recalled[0].hits
    assert (hit.turn.user_text, hit.turns_ago) == (DOG, 2)
    (given,) = cast.lead.orders[-1].memories
    assert given == Memory(DOG, "sad", 2, given.age_s, hit.similarity)
    assert 0 < given.age_s < 60
    assert turn.kinds.index("recalled") < turn.kinds.index("text")
    assert turn.timings["search"].end_s <= turn.timings["turn"].end_s


async def test_what_was_said_just_now_is_not_searched_for(stub: "Stub", cast: Cast) -> None:
    await say(stub, THANKS, DOG, conversation="talk")
    turn = await respond(stub, header(DOG, conversation="talk", output=TEXT))
    assert turn.recalled == []
    assert list(cast.memory.sought[-1].without) == [turn.identity.turns[-1].id]


async def test_all_that_a_person_said_is_searched_and_nothing_of_another(stub: "Stub", cast: Cast) -> None:
    await say(stub, DOG, conversation="monday", person="bob")
    await say(stub, "My dog is gone.", conversation="talk", person="eve")
    await say(stub, "My dog is old.", conversation="elsewhere")
    turn = await respond(stub, header("My dog is better.", conversation="tuesday", person="bob", output=TEXT))
    assert [(hit.turn.user_text, hit.turns_ago) for hit in turn.recalled[0].hits] == [(DOG, 0)]
    assert cast.lead.orders[-1].memories[0].turns_ago == 0
    asked = cast.memory.sought[-1]
    assert (asked.tenant, asked.person, asked.conversation, asked.here) == ("default", "bob", "", "tuesday")


async def test_a_typed_message_is_searched_while_it_is_voted_on(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.text.before = gate = Gate("predict")
    answering = asyncio.create_task(respond(stub, header(conversation="talk", output=TEXT)))
    await gate.reached()
    await calls.ended("Search")
    assert "Understand" not in {call.method for call in calls.calls}
    gate.open()
    assert (await answering).done.turn


async def test_a_spoken_message_is_searched_by_its_words(stub: "Stub", cast: Cast) -> None:
    await say(stub, DOG, THANKS, conversation="talk")
    cast.lead.transcript = type(cast.lead.transcript)("My dog is better.", "en", 0.1)
    content = wav()
    request = header("", conversation="talk", audio_size_bytes=len(content), output=TEXT)
    turn = await respond(stub, request, pb.RespondRequest(audio=content))
    assert [hit.turn.user_text for hit in turn.recalled[0].hits] == [DOG]


async def test_examples_of_answers_are_given_to_the_writer(stub: "Stub", cast: Cast) -> None:
    example = exemplars.Exemplar(user_text="I lost my dog.", user_emotion="sad", reply_text="What was it called?")
    cast.memory.exemplars = [example, exemplars.Exemplar(user_text="Hello!", user_emotion="joyful", reply_text="Hi.")]
    turn = await respond(stub, header(output=TEXT))
    (given,) = cast.lead.orders[-1].examples
    assert (given.user_text, given.user_emotion, given.reply_text) == ("I lost my dog.", "sad", "What was it called?")
    assert turn.degraded == []


async def test_nobody_waits_long_for_what_is_searched_and_the_reply_says_so(
    stub: "Stub", cast: Cast, calls: CallLog
) -> None:
    await say(stub, DOG, THANKS, conversation="talk")
    cast.memory.before = gate = Gate("Search")
    turn = await respond(stub, header("My dog is better.", conversation="talk", output=TEXT))
    assert (turn.recalled, lost(turn)) == ([], NOT_FOUND)
    assert {each.reason.partition(";")[0] for each in turn.degraded} == {"not found within 0.3 s"}
    assert [call.status for call in await calls.ended("Search", 3)][-1] == "CANCELLED"
    gate.open()


@pytest.mark.parametrize(("conversation", "dropped"), [("talk", NOT_FOUND), ("", NOT_FOUND[1:])])
async def test_a_search_that_fails_is_told_and_fails_no_turn(
    stub: "Stub", cast: Cast, conversation: str, dropped: list[tuple[str, str]]
) -> None:
    cast.memory.before = failing(BackendFailed("no such vectors"), "Search")
    turn = await respond(stub, header(conversation=conversation, output=TEXT))
    assert lost(turn) == dropped
    assert (await respond(stub, header(conversation="talk", output=TEXT))).done.turn


async def test_a_turn_searches_once(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    await say(stub, JOB, conversation="talk")
    assert [call.method for call in calls.calls if "Search" in call.method] == ["Search"]


async def test_where_nothing_is_kept_only_examples_are_searched(stub: "Stub", cast: Cast) -> None:
    cast.add_identity("shy", ("infer_emotion",))
    cast.memory.exemplars = [EXAMPLE]
    await say(stub, JOB, identity="shy", conversation="talk")
    await say(stub, JOB)
    assert [(asked.hits_max, asked.examples_max) for asked in cast.memory.sought] == [(0, 4), (0, 4)]
    assert [len(order.examples) for order in cast.lead.orders] == [1, 1]


async def test_a_permission_that_has_ended_loses_the_turns_and_no_example(stub: "Stub", cast: Cast) -> None:
    await say(stub, DOG, THANKS, conversation="talk")
    cast.memory.exemplars = [EXAMPLE]
    (keeping,) = [grant for grant in cast.memory.identities["default", "ada"].grants if grant.use == "keep_turns"]
    keeping.until = "2026-01-31"
    turn = await respond(stub, header(JOB, conversation="talk", output=TEXT))
    assert ("search", NOT_FOUND[0][1]) not in lost(turn)
    assert turn.recalled == []
    assert len(cast.lead.orders[-1].examples) == 1


async def test_examples_are_told_to_no_caller(stub: "Stub", cast: Cast) -> None:
    cast.memory.exemplars = [EXAMPLE]
    await say(stub, DOG, THANKS, conversation="talk")
    turn = await respond(stub, header("My dog is better. I lost my job.", conversation="talk", output=TEXT))
    assert len(cast.lead.orders[-1].examples) == 1
    assert [len(found.examples) for found in turn.recalled] == [0]


async def test_a_memory_whose_store_is_away_is_told_with_the_age_of_what_it_knows(stub: "Stub", cast: Cast) -> None:
    cast.memory.stale_s = 12.4
    turn = await respond(stub, header(conversation="talk", output=TEXT))
    assert lost(turn) == [("recall", "what was remembered since")]
    assert turn.degraded[0].reason.endswith("this is what was known 12 s ago")
    assert (turn.identity.stale_s, cast.memory.sought, "search" in turn.timings) == (12.4, [], False)


async def test_identities_of_another_tenant_are_others(stub: "Stub", cast: Cast) -> None:
    cast.add_identity("ada", tenant="acme")
    await say(stub, JOB, tenant="acme", conversation="talk")
    (kept,) = cast.memory.remembered
    assert (kept.tenant, list(cast.memory.turns)) == ("acme", [("acme", "ada", "(talk)")])


# Remember


async def test_a_turn_is_kept_with_how_it_was_decided_and_who_took_part(stub: "Stub", cast: Cast) -> None:
    turn = await respond(stub, header(conversation="talk", person="bob"))
    (kept,) = cast.memory.remembered
    assert (kept.person, kept.conversation, kept.turn.id) == ("bob", "talk", turn.done.turn)
    assert kept.turn.user_intensity == pytest.approx(turn.understood.emotion.intensity)
    assert understanding.UnderstandResponse.FromString(kept.turn.vote_record) == turn.understood
    (over,) = cast.memory.turns["default", "ada", "bob"]
    assert dict(over.models) == {
        "mllm-text": "text vvvvvvvvvvvv",
        "mllm-face": "face vvvvvvvvvvvv",
        "mllm-lead": "lead vvvvvvvvvvvv",
        "writer": "lead vvvvvvvvvvvv",
        "tts": "fake 555555555555",
        "video": "fake ffffffffffff",
    }
    assert dict(over.variants) == dict.fromkeys(over.models, "default")
    assert {"recall", "decode", "vote", "search", "reply"} <= kept.turn.timings_s.keys()
    assert not {"video", "turn"} & kept.turn.timings_s.keys()


async def test_a_turn_is_kept_with_the_votes_that_counted_in_order_of_priority(stub: "Stub", cast: Cast) -> None:
    cast.face.before = fail(BackendFailed("no face"))
    turn = await respond(stub, header(conversation="talk", output=TEXT))
    (kept,) = cast.memory.remembered
    assert [(vote.voter, vote.label, vote.weight) for vote in kept.turn.votes] == [
        ("text", "sad", 1),
        ("lead", "sad", 1),
    ]
    told = {vote.voter: vote.latency_s for vote in turn.understood.record.votes}
    assert {vote.voter: vote.latency_s for vote in kept.turn.votes}.items() <= told.items()


@pytest.mark.parametrize(
    ("output", "voice_style", "face_class"),
    [(TEXT, "", ""), (AUDIO, "friendly", ""), (pb.OUTPUT_VIDEO, "friendly", "sad")],
)
async def test_a_turn_is_kept_with_how_its_emotion_was_delivered(
    stub: "Stub", cast: Cast, output: "pb.Output", voice_style: str, face_class: str
) -> None:
    turn = await respond(stub, header(conversation="talk", output=output))
    (kept,) = cast.memory.remembered
    delivery = kept.turn.delivery
    assert (delivery.decided_by, delivery.intensity) == ("policy empathic", turn.delivery.emotion.intensity)
    assert (delivery.voice_style, delivery.face_class) == (voice_style, face_class)
    assert kept.turn.reply_emotion == turn.delivery.emotion.label


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({"output": TEXT}, {"remember", "turn"}),
        ({"output": AUDIO}, {"remember", "speech", "keep_derived", "turn", "first_sound"}),
        (
            {"keep_clips": True},
            {"remember", "speech", "video", "keep_derived", "keep_clips", "turn", "first_sound"},
        ),
    ],
)
async def test_a_turn_that_is_over_is_kept_with_the_times_of_all_its_stages(
    stub: "Stub", cast: Cast, fields: dict[str, Any], last: set[str]
) -> None:
    turn = await respond(stub, header(conversation="talk", **fields))
    (kept,) = cast.memory.turns["default", "ada", "(talk)"]
    told = {stage: timing.end_s - timing.start_s for stage, timing in turn.timings.items()}
    if "speech" in told:
        told["first_sound"] = turn.timings["speech"].first_s
    assert kept.timings_s == pytest.approx(told)
    assert kept.timings_s.keys() == {"recall", "decode", "vote", "search", "reply"} | last
    assert turn.degraded == []


async def test_times_that_cannot_be_kept_are_told_and_the_turn_is_kept(stub: "Stub", cast: Cast) -> None:
    cast.memory.before = failing(BackendFailed("full"), "PutTimings")
    turn = await respond(stub, header(conversation="talk", output=TEXT))
    assert lost(turn) == [("remember", "how long the last stages took")]
    assert [kept.id for kept in cast.memory.turns["default", "ada", "(talk)"]] == [turn.done.turn]


@pytest.mark.parametrize("conversation", ["", "talk"])
async def test_times_of_a_turn_that_is_not_kept_are_not_kept(
    stub: "Stub", cast: Cast, calls: CallLog, conversation: str
) -> None:
    cast.memory.before = failing(BackendFailed("full"), "Remember")
    await respond(stub, header(output=TEXT, conversation=conversation))
    assert "PutTimings" not in [call.method for call in calls.calls]


@pytest.mark.parametrize(
    "error",
    [NotReady("the store is away; retry"), Overloaded("8 requests wait", 0.1), DeadlineExceeded("nothing came in 5 s")],
)
@pytest.mark.parametrize("write", ["Remember", "PutClip", "PutTimings"])
async def test_a_memory_that_comes_back_in_time_keeps_the_turn_once(
    stub: "Stub", cast: Cast, error: Exception, write: str
) -> None:
    tries: list[str] = []

    def away_at_first(method: str) -> None:
        tries.append(method)
        if method == write and tries.count(method) <= 4:  # the channel itself tries it three times
            raise error

    cast.memory.before = away_at_first
    turn = await respond(stub, header(conversation="talk", keep_clips=True, output=AUDIO))
    assert turn.degraded == []
    (kept,) = cast.memory.turns["default", "ada", "(talk)"]
    assert (kept.id, list(cast.memory.clips)) == (turn.done.turn, [(kept.id, memory.CLIP_KIND_SPEECH)])
    assert kept.timings_s.keys() >= {"remember", "speech", "keep_clips"}


async def test_speech_and_film_do_not_wait_for_the_memory(stub: "Stub", cast: Cast) -> None:
    cast.memory.before = gate = Gate("Remember")
    call = stub.Respond(iter([header(conversation="talk")]), timeout=20)
    await gate.reached()
    while (await until(call, "timing")).timing.stage != "video":
        pass
    gate.open()
    assert (await until(call, "done")).done.turn


async def test_cancelling_a_turn_ends_the_wait_for_the_memory(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.memory.before = away("Remember")
    call = stub.Respond(iter([header(conversation="talk", output=TEXT)]), timeout=20)
    await calls.ended("Remember", 4)
    call.cancel()
    assert [ended.status for ended in await calls.ended("Respond")] == ["CANCELLED"]


@pytest.mark.parametrize("output", [TEXT, AUDIO, pb.OUTPUT_VIDEO])
async def test_a_memory_that_falls_silent_at_the_end_of_a_turn_takes_nothing_of_it(
    cast: Cast, output: "pb.Output"
) -> None:
    cast.turn_deadline_s = 2.0
    silent = Gate()
    cast.memory.before = lambda method: silent(method) if method in ("PutClip", "PutTimings") else None
    async with deployed(cast) as deployment:
        stub = typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(deployment.served["orchestrator"].channel))
        turn = await respond(stub, header(conversation="talk", keep_clips=output != TEXT, output=output))
        silent.open()
    assert turn.done.turn
    assert ("remember", "how long the last stages took") in lost(turn)


async def test_nobody_waits_long_for_times_that_cannot_be_kept(cast: Cast) -> None:
    cast.turn_deadline_s = 600
    cast.memory.before = silent = Gate("PutTimings")
    async with deployed(cast) as deployment:
        stub = typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(deployment.served["orchestrator"].channel))
        call = stub.Respond(iter([header(conversation="talk", output=TEXT)]))  # no deadline of the caller's own
        assert (await until(call, "degraded")).degraded.stage == "remember"
        assert (await until(call, "done")).done.turn
        silent.open()


# Clips


async def test_speech_and_film_of_a_reply_are_kept_with_its_turn(stub: "Stub", cast: Cast) -> None:
    turn = await respond(stub, header(conversation="talk", keep_clips=True))
    speech = cast.memory.clips[turn.done.turn, memory.CLIP_KIND_SPEECH]
    film = cast.memory.clips[turn.done.turn, memory.CLIP_KIND_VIDEO]
    with wave.open(io.BytesIO(speech), "rb") as heard:
        assert (heard.getframerate(), heard.getnchannels(), heard.getsampwidth()) == (16_000, 1, 2)
        assert heard.readframes(heard.getnframes()) == b"".join(chunk.samples for chunk in turn.audio)
    assert film == b"".join(chunk.content for chunk in turn.video)
    assert turn.timings["keep_clips"].start_s >= turn.timings["video"].end_s - 0.01
    assert turn.degraded == []


async def test_only_what_is_asked_for_and_made_is_kept(stub: "Stub", cast: Cast) -> None:
    await respond(stub, header(conversation="talk"))
    assert not cast.memory.clips
    turn = await respond(stub, header(conversation="talk", keep_clips=True, output=AUDIO))
    assert list(cast.memory.clips) == [(turn.done.turn, memory.CLIP_KIND_SPEECH)]
    turn = await respond(stub, header(conversation="talk", keep_clips=True, output=TEXT))
    assert "keep_clips" not in turn.timings
    assert len(cast.memory.clips) == 1


async def test_a_clip_that_cannot_be_kept_is_told_and_the_turn_is_kept(stub: "Stub", cast: Cast) -> None:
    cast.memory.before = failing(BackendFailed("full"), "PutClip")
    turn = await respond(stub, header(conversation="talk", keep_clips=True, output=AUDIO))
    assert lost(turn) == [("keep_clips", "the recording of the speech")]
    assert turn.degraded[0].reason.startswith("memory: ")
    assert turn.done.turn


async def test_without_the_turn_its_clips_are_not_kept(stub: "Stub", cast: Cast) -> None:
    cast.memory.before = failing(BackendFailed("full"), "Remember")
    turn = await respond(stub, header(conversation="talk", keep_clips=True, output=AUDIO))
    assert lost(turn) == [("remember", "the memory of this turn")]
    assert not cast.memory.clips
