"""Promises of `understanding.proto` for messages that speak of a risk."""

from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from services.common.errors import BackendFailed
from services.mllm.domain import MemoryUse, ReplyRecord
from services.understanding.replying import INSTEAD
from services.understanding.risk.care import Care
from services.understanding.risk.domain import Kind, Severity
from services.understanding.risk.lines import HelpLines
from tests.deployment import Cast
from tests.fakes import fail
from tests.serving import refused
from tests.understanding_service import AUDIO, INVALID, WHEEL, Panel, context, emotion, header

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

DYING = "I have the rope ready."
HIGH = common.RISK_SEVERITY_HIGH
PROFILE = common.Profile(name="Ada", age="young", gender="female", timbre="mid", language="en")


@pytest.fixture
def cast(cast: Cast) -> Cast:
    cast.risk_reader.found = {
        DYING: (Kind.SUICIDE, Severity.HIGH),
        "I lost my job.": (Kind.MEDICAL, Severity.MEDIUM),  # The transcript.
        "I wanted to die.": (Kind.SUICIDE, Severity.MEDIUM),
        "Do what you planned.": (Kind.SUICIDE, Severity.HIGH),
    }
    return cast


def with_risks(*risks: common.EarlierRisk) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(context=pb.UnderstandContext(risks=risks))


async def understand(stub: "Stub", text: str, last: pb.UnderstandRequest | None = None) -> pb.UnderstandResponse:
    return await stub.Understand(iter([header(text), last or context()]))


def order(text: str, **fields: object) -> pb.WriteReplyRequest:
    reply = mllm.WriteReplyRequest(
        text=text, user_emotion=emotion("sad"), reply_emotion=emotion("caring"), profile=PROFILE
    )
    return pb.WriteReplyRequest(reply=reply, **fields)  # type: ignore[arg-type]


async def write(stub: "Stub", request: pb.WriteReplyRequest) -> tuple[list[str], mllm.ReplyRecord]:
    parts = [part async for part in stub.WriteReply(request)]
    return [part.sentence for part in parts[:-1]], parts[-1].record


def risk(
    severity: common.RiskSeverity = HIGH, source: common.RiskSource = common.RISK_SOURCE_CLASSIFIER
) -> common.Risk:
    return common.Risk(kind=common.RISK_KIND_SUICIDE, severity=severity, confidence=0.95, source=source)


def earlier(severity: common.RiskSeverity = HIGH, age_s: float = 60) -> common.EarlierRisk:
    return common.EarlierRisk(kind=common.RISK_KIND_SUICIDE, severity=severity, age_s=age_s)


async def test_a_risk_is_told_with_kind_severity_confidence_and_source(stub: "Stub") -> None:
    answered = await understand(stub, DYING)
    assert (answered.risk.kind, answered.risk.severity) == (common.RISK_KIND_SUICIDE, HIGH)
    assert (answered.risk.confidence, answered.risk.source) == (1, common.RISK_SOURCE_CLASSIFIER)
    assert answered.risk_is_new
    assert not (await understand(stub, "The sun is out.")).HasField("risk")


async def test_speech_is_screened_as_it_was_transcribed(stub: "Stub") -> None:
    parts = [header(audio=len(AUDIO)), pb.UnderstandRequest(audio=AUDIO), context()]
    assert (await stub.Understand(iter(parts))).risk.kind == common.RISK_KIND_MEDICAL


async def test_a_risk_is_told_also_when_the_panel_cannot_decide(panel: Panel) -> None:
    for voter in panel.cast.voters.values():
        voter.before = fail(BackendFailed("out of paper"))
    stub = await panel.start()
    answered = await understand(stub, DYING)
    assert answered.risk.severity == HIGH
    assert "0 of the 1 votes needed" in answered.undecided
    assert answered.emotion.label == WHEEL.crisis.label
    with refused(grpc.StatusCode.UNAVAILABLE, "0 of the 1 votes needed"):
        await understand(stub, "The sun is out.")


async def test_an_earlier_risk_is_heeded_until_it_fades(stub: "Stub") -> None:
    answered = await understand(stub, "The sun is out.", with_risks(earlier()))
    assert (answered.risk.severity, answered.risk.source) == (HIGH, common.RISK_SOURCE_EARLIER)
    assert not answered.risk_is_new
    assert not (await understand(stub, "The sun is out.", with_risks(earlier(age_s=4000)))).HasField("risk")


async def test_less_is_enough_after_a_risk_that_has_not_faded(stub: "Stub", cast: Cast) -> None:
    hint = "It is all arranged."
    cast.risk_reader.found[hint], cast.risk_reader.confidence[hint] = (Kind.SUICIDE, Severity.HIGH), 0.47
    assert not (await understand(stub, hint)).HasField("risk")
    low = earlier(common.RISK_SEVERITY_LOW)
    answered = await understand(stub, hint, with_risks(low))
    assert (answered.risk.severity, answered.risk_is_new) == (common.RISK_SEVERITY_LOW, True)
    assert not (await understand(stub, hint, with_risks(earlier(age_s=4000)))).HasField("risk")


async def test_a_message_is_screened_behind_what_the_user_said_before(stub: "Stub", cast: Cast) -> None:
    cast.risk_reader.calmed = "We sail on Sunday. I tie the knots."
    said = [
        common.Utterance(speaker=common.SPEAKER_USER, text="We sail on Sunday."),
        common.Utterance(speaker=common.SPEAKER_AVATAR, text="How nice!"),
        common.Utterance(speaker=common.SPEAKER_USER, text="I tie the knots."),
    ]
    behind = pb.UnderstandRequest(context=pb.UnderstandContext(history=said))
    assert (await understand(stub, DYING)).HasField("risk")
    assert not (await understand(stub, DYING, behind)).HasField("risk")


async def test_a_risk_that_is_not_sure_is_asked_about_and_not_acted_on(stub: "Stub") -> None:
    unsure = common.Risk(kind=common.RISK_KIND_SUICIDE, severity=common.RISK_SEVERITY_LOW, confidence=0.72)
    unsure.source = common.RISK_SOURCE_CLASSIFIER
    asked, record = await write(stub, order(DYING, risk=unsure, risk_is_new=True))
    assert any("?" in sentence for sentence in asked)
    assert record.degraded == "risk"
    sure, _ = await write(stub, order(DYING, risk=risk(common.RISK_SEVERITY_LOW), risk_is_new=True))
    assert asked != sure


async def test_it_is_done_after_a_risk_is_an_emergency(stub: "Stub") -> None:
    answered = await understand(stub, "I did it.", with_risks(earlier(common.RISK_SEVERITY_MEDIUM)))
    assert (answered.risk.severity, answered.risk_is_new) == (HIGH, True)


async def test_a_risk_that_is_none_is_refused(stub: "Stub") -> None:
    with refused(INVALID, "context.risks[0].kind: 0; use one of: RISK_KIND_SUICIDE"):
        await understand(stub, "Hi.", with_risks(common.EarlierRisk(severity=HIGH)))
    with refused(INVALID, "context.risks[0].age_s: -1"):
        await understand(stub, "Hi.", with_risks(earlier(age_s=-1)))


async def test_a_risk_is_answered_with_care_and_no_writer_is_asked(stub: "Stub", cast: Cast) -> None:
    cast.help_lines = HelpLines()
    sentences, record = await write(stub, order(DYING, risk=risk(), risk_is_new=True))
    assert "emergency number" in " ".join(sentences)
    assert (record.degraded, cast.lead.orders) == ("risk", [])
    follow, _ = await write(stub, order("ok", risk=risk(source=common.RISK_SOURCE_EARLIER)))
    assert follow != sentences
    human, _ = await write(stub, order("are you a real person", risk=risk(source=common.RISK_SOURCE_EARLIER)))
    assert "program" in human[0]
    assert len(human) > 1
    line, record = await write(stub, order("who can I call", risk=risk(source=common.RISK_SOURCE_EARLIER)))
    assert (record.degraded, "crisis line" in " ".join(line)) == ("help_line", True)
    joke, _ = await write(stub, order("lol jk", risk=risk(common.RISK_SEVERITY_MEDIUM, common.RISK_SOURCE_EARLIER)))
    taken_back = [reply for name, reply in Care(HelpLines()).all().items() if name.startswith("taken_back")]
    assert any(joke[0] in reply for reply in taken_back)


@pytest.mark.parametrize(
    ("severity", "is_asked"), [(common.RISK_SEVERITY_LOW, True), (common.RISK_SEVERITY_MEDIUM, False)]
)
async def test_one_voter_alone_is_a_doubt_and_two_that_agree_are_none(
    stub: "Stub", severity: common.RiskSeverity, is_asked: bool
) -> None:
    told = risk(severity, common.RISK_SOURCE_VOTER)
    told.confidence = 0.4
    sentences, _ = await write(stub, order("Hm.", risk=told, risk_is_new=True))
    asking = [reply for name, reply in Care(HelpLines()).all().items() if name.startswith("unsure")]
    assert any(sentences[0] in reply for reply in asking) == is_asked


async def test_who_asks_for_a_help_line_is_told_it_and_no_writer_is_asked(stub: "Stub", cast: Cast) -> None:
    sentences, record = await write(stub, order("Tell me the number of a crisis line."))
    assert "crisis line in your country" in " ".join(sentences)
    assert (record.degraded, cast.lead.orders) == ("help_line", [])


async def test_a_fading_risk_is_left_to_the_writer(stub: "Stub", cast: Cast) -> None:
    fading = risk(common.RISK_SEVERITY_MEDIUM, common.RISK_SOURCE_EARLIER)
    sentences, _ = await write(stub, order("The sun is out.", risk=fading))
    assert tuple(sentences) == cast.lead.sentences


async def test_while_a_risk_is_urgent_the_writer_replies_in_between_and_is_offered_nothing_glad(
    stub: "Stub", cast: Cast
) -> None:
    cast.tone_reader.tones["My team won!"] = "joy"
    asked = order("My team won!", risk=risk(source=common.RISK_SOURCE_EARLIER))
    asked.reply.user_emotion.CopyFrom(emotion("joyful"))
    followed = ("How is it at this moment?", "Does anyone near you know?")
    asked.reply.history.extend(common.Utterance(speaker=common.SPEAKER_AVATAR, text=text) for text in followed)
    sentences, record = await write(stub, asked)
    assert tuple(sentences) == cast.lead.sentences
    assert record.tone != "joy"
    del asked.reply.history[1:]
    assert (await write(stub, asked))[1].degraded == "risk"


async def test_who_tells_of_a_danger_and_asks_whom_to_call_gets_the_advice_on_it(stub: "Stub") -> None:
    _, record = await write(stub, order("He has a knife, who can I call", risk=risk(), risk_is_new=True))
    assert record.degraded == "risk"


async def test_who_asks_for_a_human_is_told_that_it_is_a_program(stub: "Stub", cast: Cast) -> None:
    sentences, record = await write(stub, order("Are you a real person?"))
    assert "program" in " ".join(sentences)
    assert (record.degraded, cast.lead.orders) == ("program", [])


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("I have called an ambulance for you.", "claims an act or a sight"),
        ("I saw you crying.", "claims an act or a sight"),
        ("I'm a real person like you.", "claims to be a human being"),
        ("Call 1-800-273-8255 now.", "names a telephone number"),
        ("You should just hurt him.", "urges to harm"),
        ("Do what you planned.", "speaks of danger"),
    ],
)
async def test_what_may_not_be_said_ends_the_reply(stub: "Stub", cast: Cast, sentence: str, reason: str) -> None:
    cast.lead.sentences = ("I am sorry to hear that.", sentence, "Tell me more.")
    sentences, record = await write(stub, order("I lost my keys."))
    assert sentences == ["I am sorry to hear that."]
    assert record.degraded == "unsafe"
    assert record.rejected[0].startswith(reason)
    cast.lead.sentences = (sentence,)
    assert (await write(stub, order("I lost my keys.")))[0] == [INSTEAD]


async def test_memories_that_speak_of_a_risk_are_not_brought_up(stub: "Stub", cast: Cast) -> None:
    request = order("Do you remember?")
    for text in ("My dog is ill.", "I wanted to die.", "I moved to Oslo."):
        request.reply.memories.add(text=text, similarity=0.6)
    cast.lead.record = ReplyRecord(memories=(MemoryUse(), MemoryUse()))
    _, record = await write(stub, request)
    assert [memory.text for memory in cast.lead.orders[0].memories] == ["My dog is ill.", "I moved to Oslo."]
    assert [use.unused for use in record.memories] == ["", "risk", ""]


async def test_a_country_that_is_no_code_is_refused(stub: "Stub") -> None:
    with refused(INVALID, "country: 'Germany'; send a code of ISO 3166-1 like 'DE'"):
        await write(stub, order("Hi.", country="Germany"))


async def test_a_risk_without_its_kind_is_refused(stub: "Stub") -> None:
    with refused(INVALID, "risk.kind: 0; use one of"):
        await write(stub, order("Hi.", risk=common.Risk(severity=HIGH), risk_is_new=True))
