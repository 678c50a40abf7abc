"""What the wire tells of a chat model: any `ChatModel`, as `ChatBackend` makes a voter and a writer of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, cast

import grpc
import pytest

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from emotions import Wheel
from services.common.errors import BackendFailed
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.model import Choice
from services.mllm.chat.settings import ChatSettings
from services.mllm.domain import Backend, Modality, Writer
from tests.fake_chat_models import FakeChatModel, FakeChooser, FakeScorer
from tests.fakes import Gate, fail
from tests.model_services import serving_mllm
from tests.samples import jpeg, pcm
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub

HASH = emotions.load().digest
Start = Callable[[FakeChatModel], AbstractAsyncContextManager["Stub"]]


@pytest.fixture
def start(wheel: Wheel) -> Start:
    @asynccontextmanager
    async def started(model: FakeChatModel) -> AsyncIterator["Stub"]:
        backend: Backend = ChatBackend(model, ChatSettings())
        assert isinstance(backend, Writer)
        async with serving_mllm("chat", backend, wheel, waiting_max=1) as served:
            yield cast("Stub", mllm_pb2_grpc.MllmServiceStub(served.channel))

    return started


def head(text: str = "Nobody has called me for weeks.", seed: int = 0, turns: int = 0) -> pb.PredictEmotionRequest:
    header = pb.PredictEmotionHeader(text=text, ontology_hash=HASH, seed=seed)
    for number in range(turns):
        speaker = common.SPEAKER_AVATAR if number % 2 else common.SPEAKER_USER
        header.history.add(speaker=speaker, text=f"This is turn {number}.")
    return pb.PredictEmotionRequest(header=header)


def order(text: str = "Nobody has called me for weeks.", seed: int = 0) -> pb.WriteReplyRequest:
    return pb.WriteReplyRequest(
        text=text,
        user_emotion=common.Emotion(label="lonely", intensity=0.5, ontology_hash=HASH),
        reply_emotion=common.Emotion(label="caring", intensity=0.5, ontology_hash=HASH),
        profile=common.Profile(name="Ada", age="young", gender="female", timbre="mid"),
        seed=seed,
    )


async def test_the_card_names_model_weights_and_both_prompts(start: Start) -> None:
    async with start(FakeChatModel("sad")) as stub:
        model = await stub.GetModel(pb.GetModelRequest())
    assert (model.card.model, model.card.digest) == ("fake chat model", "c" * 64)
    assert model.card.prompt_version == "emotion-1+reply-chat-4"
    assert set(model.operations) == {pb.OPERATION_PREDICT, pb.OPERATION_WRITE}
    assert (list(model.perceives), model.level) == ([common.MODALITY_TEXT], pb.LEVEL_LABEL)


async def test_a_vote_says_what_the_model_wrote_saw_and_was_shown(start: Start) -> None:
    async with start(FakeChatModel("Not happy, but **lonely**.")) as stub:
        vote = await stub.PredictEmotion(iter([head(), _sound(), _frame()]))
    assert (vote.label, vote.parse, vote.answer) == ("lonely", "parsed", "Not happy, but **lonely**.")
    assert list(vote.saw) == [common.MODALITY_TEXT]
    assert dict(vote.evidence) == {"not_seen": "audio 0.5 s, 1 frames: this model perceives text only"}
    assert [shot.id.split("/")[0] for shot in vote.shots] == [shot.label for shot in vote.shots]
    assert len(vote.shots) == 3
    assert all(0.1 < shot.similarity < 1 for shot in vote.shots)
    assert vote.history_dropped == 0


async def test_the_seed_of_a_vote_and_what_is_known_of_the_avatar_reach_the_model(start: Start) -> None:
    model = FakeChatModel("lonely", "That is lonely.")
    request = order(seed=6)
    request.profile.about = "Grew up by the sea."
    async with start(model) as stub:
        await stub.PredictEmotion(iter([head(seed=5)]))
        async for _ in stub.WriteReply(request):
            pass
    assert [sampling.seed for sampling in model.samplings] == [5, 6]
    assert '"Grew up by the sea."' in model.asked[1][0].text


async def test_media_reach_a_model_that_perceives_them(start: Start) -> None:
    model = FakeChatModel("lonely", perceives=frozenset(Modality))
    async with start(model) as stub:
        vote = await stub.PredictEmotion(iter([head(text=""), _sound(), _frame()]))
    assert set(vote.saw) == {common.MODALITY_AUDIO, common.MODALITY_VIDEO}
    last = model.asked[0][-1]
    assert last.audio is not None
    assert (len(last.audio), len(last.frames)) == (8000, 1)


async def test_two_hundred_turns_are_cut_and_the_vote_says_so(start: Start) -> None:
    async with start(FakeChatModel("lonely")) as stub:
        vote = await stub.PredictEmotion(iter([head(turns=200)]))
    assert (vote.label, vote.history_dropped) == ("lonely", 180)


@pytest.mark.parametrize(
    ("model", "parse", "answer"),
    [
        (FakeScorer({"lonely": -1.0}), "scored", ""),
        (FakeChooser(Choice("lonely", guided=True)), "guided", "lonely"),
        (FakeChatModel("Loneliness."), "parsed", "Loneliness."),
    ],
)
async def test_the_vote_says_how_the_answer_was_obtained(
    start: Start, model: FakeChatModel, parse: str, answer: str
) -> None:
    async with start(model) as stub:
        vote = await stub.PredictEmotion(iter([head()]))
    assert (vote.label, vote.parse, vote.answer) == ("lonely", parse, answer)


async def test_garbage_is_an_abstention_with_the_garbage_on_record(start: Start) -> None:
    async with start(FakeChatModel("ba na na " * 100)) as stub:
        vote = await stub.PredictEmotion(iter([head()]))
    assert (vote.label, dict(vote.distribution), vote.parse) == ("", {}, "unparsable")
    assert vote.abstained.startswith("the answer names no label, or more than one: 'ba na na")
    assert vote.answer == ("ba na na " * 100)[:200]


async def test_a_reply_comes_by_sentences_with_its_retry_on_record(start: Start) -> None:
    async with start(FakeChatModel("Das tut mir wirklich sehr leid.", "That is lonely. I'm here.")) as stub:
        asked = order()
        asked.history.add(speaker=common.SPEAKER_AVATAR, text="Hello!")
        parts = [part async for part in stub.WriteReply(asked)]
    assert [part.sentence for part in parts[:-1]] == ["That is lonely.", "I'm here."]
    parts[-1].record.ClearField("card")
    assert parts[-1].record == pb.ReplyRecord(
        candidates=2,
        retries=1,
        rejected=["leaves the language en: Das tut mir wirklich sehr leid."],
        history_dropped=1,
    )


async def test_a_vote_that_nobody_waits_for_stops_the_model(start: Start, calls: CallLog) -> None:
    model = FakeChatModel("sad " * 60)
    model.before = gate = Gate("stream", after=2)
    async with start(model) as stub:
        call = stub.PredictEmotion(iter([head()]))
        await gate.reached()
        call.cancel()
        assert [call.status for call in await calls.ended("PredictEmotion")] == ["CANCELLED"]
        gate.open()
        await model.stopped.happened()
    assert len(model.words) == 2


async def test_a_reply_that_nobody_waits_for_stops_the_model_in_mid_sentence(start: Start, calls: CallLog) -> None:
    model = FakeChatModel("That is lonely. And it goes on and on and on.")
    model.before = gate = Gate("stream", after=5)
    async with start(model) as stub:
        call = stub.WriteReply(order())
        first = cast("pb.WriteReplyResponse", await call.read())
        assert (first.card.model, first.sentence) == ("fake chat model", "That is lonely.")
        await gate.reached()
        call.cancel()
        assert [call.status for call in await calls.ended("WriteReply")] == ["CANCELLED"]
        gate.open()
        await model.stopped.happened()
    assert "".join(model.words) == "That is lonely. And it"


async def test_a_model_that_dies_in_mid_answer_fails_the_call_and_the_next_one_works(start: Start) -> None:
    model = FakeChatModel("lonely")
    async with start(model) as stub:
        model.before = fail(BackendFailed("the connection to the model broke"))
        with refused(grpc.StatusCode.INTERNAL, "internal error"):
            await stub.PredictEmotion(iter([head()]))
        model.before = lambda _: None
        assert (await stub.PredictEmotion(iter([head()]))).label == "lonely"


async def test_it_warms_up_with_all_that_the_model_perceives() -> None:
    model = FakeChatModel("lonely", "I'm glad you are home.", perceives=frozenset(Modality))
    backend = ChatBackend(model, ChatSettings())
    backend.warm_up()
    question, reply = model.asked
    assert question[-1].audio is not None
    assert question[-1].frames
    assert reply[-1].audio is None


def test_closing_it_frees_the_model() -> None:
    model, done = FakeChatModel("lonely"), list[str]()
    model.before = done.append
    ChatBackend(model, ChatSettings()).close()
    assert done == ["close"]


def _sound() -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(audio=pcm(0.5))


def _frame() -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(frame=pb.Frame(time_s=0.1, jpeg=jpeg(40, 30)))
