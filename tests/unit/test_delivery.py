"""Which emotion the avatar feels, and what voice and face make of it."""

import math

import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from emotions import Wheel
from orchestrator.delivery import Capabilities, check_quality, check_wishes, decide_delivery
from services.common.errors import FailedPrecondition, InvalidRequest


@pytest.fixture
def bank(wheel: Wheel) -> identities.EmotionBank:
    """All that the wheel has."""
    return identities.EmotionBank(name="default", face_classes=wheel.classes, voice_styles=wheel.styles)


def feels(label: str, risk: common.Risk | None = None) -> understanding.UnderstandResponse:
    return understanding.UnderstandResponse(emotion=common.Emotion(label=label), risk=risk)


@pytest.fixture
def able(wheel: Wheel) -> Capabilities:
    return Capabilities(wheel.styles, wheel.classes)


def test_the_policy_decides_when_nothing_is_wished(
    wheel: Wheel, bank: identities.EmotionBank, able: Capabilities
) -> None:
    delivery = decide_delivery(wheel, pb.RespondHeader(), feels("sad"), bank, able)
    reply = wheel.reply_to("sad", "empathic")
    assert reply.label != "sad"
    assert (delivery.emotion.label, delivery.decided_by) == (reply.label, "policy empathic")
    assert delivery.emotion.intensity == pytest.approx(reply.intensity)
    assert delivery.emotion.face_class == wheel.label(reply.label).coarse
    assert delivery.emotion.ontology_hash == wheel.digest


def test_the_mirror_shows_the_users_own_emotion(wheel: Wheel, bank: identities.EmotionBank, able: Capabilities) -> None:
    delivery = decide_delivery(wheel, pb.RespondHeader(policy="mirror"), feels("furious"), bank, able)
    assert (delivery.emotion.label, delivery.decided_by) == ("furious", "policy mirror")
    assert delivery.emotion.intensity == pytest.approx(wheel.label("furious").intensity)


@pytest.mark.parametrize("header", [pb.RespondHeader(), pb.RespondHeader(reply_emotion="joyful", policy="mirror")])
def test_a_cry_for_help_is_met_gravely_whatever_was_voted_or_wished(
    wheel: Wheel, bank: identities.EmotionBank, able: Capabilities, header: pb.RespondHeader
) -> None:
    risk = common.Risk(kind=common.RISK_KIND_CHILD, severity=common.RISK_SEVERITY_LOW)
    delivery = decide_delivery(
        wheel,
        header,
        feels("confident", risk),
        bank,
        able,
    )
    assert delivery.decided_by == "risk"
    assert delivery.face_class == "sad"
    assert delivery.voice_style == "friendly"


def test_a_wish_overrides_the_policy(wheel: Wheel, bank: identities.EmotionBank, able: Capabilities) -> None:
    delivery = decide_delivery(
        wheel, pb.RespondHeader(reply_emotion="excited", policy="mirror"), feels("sad"), bank, able
    )
    assert (delivery.emotion.label, delivery.decided_by) == ("excited", "request")
    assert delivery.emotion.intensity == pytest.approx(wheel.label("excited").intensity)
    assert (delivery.voice_style, delivery.voice_exact) == ("excited", True)
    assert (delivery.face_class, delivery.face_exact) == ("happy", True)


@pytest.mark.parametrize("wished", [0.0, 0.25, 1.0])
def test_a_wished_strength_is_taken_even_when_it_is_none(
    wheel: Wheel, bank: identities.EmotionBank, able: Capabilities, wished: float
) -> None:
    header = pb.RespondHeader(reply_emotion="excited", reply_intensity=wished)
    assert decide_delivery(wheel, header, feels("sad"), bank, able).emotion.intensity == wished


def test_what_the_generators_lack_becomes_the_nearest_on_the_wheel_and_says_so(
    wheel: Wheel, bank: identities.EmotionBank
) -> None:
    able = Capabilities(styles=("whispering", "cheerful"), classes=("angry", "neutral", "fear"))
    delivery = decide_delivery(wheel, pb.RespondHeader(reply_emotion="excited"), feels("sad"), bank, able)
    assert (delivery.voice_style, delivery.voice_exact) == ("cheerful", False)
    nearest = min(able.classes, key=lambda name: wheel.distance("excited", name))
    assert (delivery.face_class, delivery.face_exact) == (nearest, False)
    assert (delivery.emotion.label, delivery.emotion.face_class) == ("excited", "happy")  # what is meant stays


def test_what_the_identitys_bank_lacks_is_not_shown_either(wheel: Wheel, able: Capabilities) -> None:
    bank = identities.EmotionBank(name="calm", face_classes=["neutral", "sad"], voice_styles=["default"])
    delivery = decide_delivery(wheel, pb.RespondHeader(reply_emotion="excited"), feels("sad"), bank, able)
    assert (delivery.voice_style, delivery.voice_exact) == ("default", False)
    assert delivery.face_class in bank.face_classes
    assert not delivery.face_exact


def test_what_is_not_wanted_is_not_decided(wheel: Wheel, bank: identities.EmotionBank) -> None:
    delivery = decide_delivery(wheel, pb.RespondHeader(), feels("sad"), bank, Capabilities())
    assert (delivery.voice_style, delivery.face_class) == ("", "")
    assert delivery.emotion.label


@pytest.mark.parametrize(
    "able", [Capabilities(styles=("cheerful",)), Capabilities(classes=("angry",)), Capabilities(classes=("blue",))]
)
def test_a_bank_and_a_generator_with_nothing_in_common_cannot_be_paired(wheel: Wheel, able: Capabilities) -> None:
    bank = identities.EmotionBank(name="calm", face_classes=["neutral", "blue"], voice_styles=["default"])
    with pytest.raises(FailedPrecondition, match="emotion bank 'calm' and the generators share nothing"):
        decide_delivery(wheel, pb.RespondHeader(reply_emotion="excited"), feels("sad"), bank, able)


@pytest.mark.parametrize(
    ("header", "field", "remedy"),
    [
        (
            pb.RespondHeader(reply_emotion="meh"),
            "header.reply_emotion",
            "'meh' is no emotion label; use one of: neutral",
        ),
        (pb.RespondHeader(policy="stoic"), "header.policy", "'stoic' is no policy; use one of: "),
        (pb.RespondHeader(reply_intensity=0.5), "header.reply_intensity", "set both or neither"),
        (pb.RespondHeader(reply_emotion="sad", reply_intensity=1.5), "header.reply_intensity", "1.5; send 0 to 1"),
        (pb.RespondHeader(reply_emotion="sad", reply_intensity=-0.1), "header.reply_intensity", "-0.1; send 0 to 1"),
        (pb.RespondHeader(reply_emotion="sad", reply_intensity=math.nan), "header.reply_intensity", "nan; send 0 to 1"),
    ],
)
def test_a_wish_that_cannot_be_had_is_refused_with_field_value_and_remedy(
    wheel: Wheel, header: pb.RespondHeader, field: str, remedy: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_wishes(header, wheel)
    assert refused.value.field == field
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    "header",
    [
        pb.RespondHeader(),
        pb.RespondHeader(policy="empathic"),
        pb.RespondHeader(policy="mirror"),
        pb.RespondHeader(reply_emotion="sad"),
        pb.RespondHeader(reply_emotion="sad", reply_intensity=0),
        pb.RespondHeader(reply_emotion="sad", reply_intensity=1, policy="mirror"),
    ],
)
def test_a_wish_that_can_be_had_is_let_through(wheel: Wheel, header: pb.RespondHeader) -> None:
    check_wishes(header, wheel)


@pytest.mark.parametrize("output", [pb.OUTPUT_TEXT, pb.OUTPUT_AUDIO])
def test_a_quality_without_video_is_refused(wheel: Wheel, output: pb.Output) -> None:
    with pytest.raises(InvalidRequest, match=r"header\.quality: 'fine' without video; ask for OUTPUT_VIDEO"):
        check_wishes(pb.RespondHeader(quality="fine", output=output), wheel)


def test_a_quality_is_one_that_the_renderer_has(wheel: Wheel) -> None:
    check_wishes(pb.RespondHeader(quality="fine"), wheel)
    check_quality("fine", ["fine", "draft"])
    with pytest.raises(InvalidRequest, match=r"header\.quality: 'finest'; use one of: fine, draft"):
        check_quality("finest", ["fine", "draft"])
