"""Which turns `orchestrator.proto` promises to refuse, and with what, through all services with fake models."""

from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

import grpc
import pytest

import emotions
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from emotions.wheel import parse
from tests.deployment import Cast, Deployment
from tests.fakes import Gate, fail
from tests.samples import wav
from tests.serving import refused
from tests.turns import REPLY, Start, header, respond, until

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

WHEEL = emotions.load()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
AUDIO = wav()
INFER = "infer_emotion"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([pb.RespondRequest(audio=AUDIO), header()], "header: missing"),
        ([header(), header()], "part: header is out of order; send one header, then media"),
        ([header(), pb.RespondRequest()], "part: nothing is out of order"),
        ([header(identity="")], "header.identity: empty; name an identity"),
        ([header(identity="../ada")], "identity: '../ada' is not a name"),
        ([header(conversation="a b")], "conversation: 'a b' is not a name"),
        ([header(conversation="x" * 64)], "conversation: 'xxx"),
        ([header(person="a b", conversation="talk")], "person: 'a b' is not a name"),
        ([header(tenant="../other")], "tenant: '../other' is not a name"),
        ([header(keep_clips=True)], "header.keep_clips: set for a turn that stands alone and is not kept; name a"),
        ([header("")], "header.text: the message is empty; send text, audio or video"),
        ([header(" \n")], "header.text: the message is empty"),
        ([header("x" * 4001)], "header.text: 4001 characters; send at most 4000"),
        ([header(reply_emotion="meh")], "header.reply_emotion: 'meh' is no emotion label; use one of: neutral"),
        ([header(reply_intensity=0.5)], "header.reply_intensity: set without reply_emotion"),
        ([header(reply_emotion="sad", reply_intensity=2)], "header.reply_intensity: 2; send 0 to 1"),
        ([header(policy="stoic")], "header.policy: 'stoic' is no policy; use one of: "),
        ([header(output=9)], "header.output: 9; use one of: OUTPUT_UNSPECIFIED, OUTPUT_TEXT"),
        ([header(audio_size_bytes=(32 << 20) + 1)], "header.audio_size_bytes: 33554433; send at most 33554432"),
        ([header(video_size_bytes=1 << 60)], "header.video_size_bytes: 1152921504606846976; send at most"),
        ([header(audio_size_bytes=100), pb.RespondRequest(audio=bytes(60))], "audio: 60 of 100 bytes came"),
        ([header(audio_size_bytes=9), pb.RespondRequest(audio=b"not audio")], "audio: "),
        ([header(video_size_bytes=9), pb.RespondRequest(video=b"not video")], "video: "),
        (
            [header(video_size_bytes=2 * MIB), pb.RespondRequest(video=bytes(MIB + 1))],
            "video: a message holds 1048577 bytes; send at most 1048576",
        ),
        ([header(), pb.RespondRequest(audio=b"unannounced")], "context: audio came instead"),
    ],
)
async def test_a_wrong_request_is_refused_with_field_value_and_remedy(
    stub: "Stub", cast: Cast, parts: list[pb.RespondRequest], text: str
) -> None:
    with refused(INVALID, text):
        await respond(stub, *parts)
    assert cast.lead.orders == []
    assert (await respond(stub, header(output=pb.OUTPUT_TEXT))).done.text == REPLY  # it still works


async def test_an_unknown_identity_is_not_found_and_nothing_is_written_for_it(stub: "Stub", cast: Cast) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "identity 'bob' is unknown"):
        await respond(stub, header(identity="bob"))
    assert cast.lead.orders == []


@pytest.mark.parametrize(
    ("uses", "output", "lacking"),
    [
        ((INFER,), pb.OUTPUT_VIDEO, "animate_face and clone_voice"),
        ((INFER, "clone_voice"), pb.OUTPUT_UNSPECIFIED, "animate_face"),
        ((INFER, "animate_face"), pb.OUTPUT_VIDEO, "clone_voice"),
        ((INFER, "animate_face", "keep_turns"), pb.OUTPUT_AUDIO, "clone_voice"),
        (("animate_face", "clone_voice"), pb.OUTPUT_TEXT, "infer_emotion"),
    ],
)
async def test_nothing_is_made_that_the_consent_does_not_allow(
    stub: "Stub", cast: Cast, uses: tuple[str, ...], output: pb.Output, lacking: str
) -> None:
    cast.add_identity("shy", uses)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, f"identity 'shy' lacks {lacking}; have it allowed"):
        await respond(stub, header(identity="shy", output=output))
    assert (cast.voice.prepared, cast.portrait.prepared, cast.lead.orders) == ([], [], [])
    cast.add_identity("bold", (INFER,))
    assert (await respond(stub, header(identity="bold", output=pb.OUTPUT_TEXT))).done.text == REPLY


@pytest.mark.parametrize("service", ["understanding", "memory", "tts", "video"])
async def test_services_with_different_wheels_are_not_paired(start: Start, cast: Cast, service: str) -> None:
    cast.wheels = {service: replace(WHEEL, digest="0" * 64)}
    if service == "understanding":
        cast.wheels = dict.fromkeys((service, *(f"mllm {voter}" for voter in cast.voters)), cast.wheels[service])
    stub = await start()
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "deploy the same version of both") as failure:
        await respond(stub, header())
    assert "000000000000" in str(failure.value.details())
    assert WHEEL.digest[:12] in str(failure.value.details())
    assert cast.lead.orders == []  # not even a reply is written


@pytest.mark.parametrize("service", ["orchestrator", "understanding", "memory", "tts", "video"])
async def test_a_service_with_a_wheel_that_is_declared_compatible_takes_part(
    start: Start, cast: Cast, service: str
) -> None:
    text = resources.files("emotions").joinpath("ontology.toml").read_text("utf-8")
    later = text.replace('version = "1.0.0"', f'version = "1.0.1"\ncompatible_with = "{WHEEL.digest}"', 1)
    cast.wheels = {service: parse(later.replace("valence = 0.80", "valence = 0.81", 1))}
    stub = await start()
    assert (await respond(stub, header())).done.text == REPLY


async def test_a_full_stage_refuses_the_turn_and_says_when_to_come_again(start: Start, cast: Cast) -> None:
    cast.waiting_max = 0
    stub = await start()
    cast.lead.before = gate = Gate("write")
    first = stub.Respond(iter([header(output=pb.OUTPUT_TEXT)]), timeout=20)
    await gate.reached()
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "reply: 0 requests wait for lead, the limit") as failure:
        await respond(stub, header(output=pb.OUTPUT_TEXT))
    assert int(dict(failure.value.trailing_metadata() or ())["retry-after-ms"]) > 0
    gate.open()
    await until(first, "done")


@pytest.mark.parametrize(("service", "named"), [("understanding", "understanding: "), ("memory", "memory: ")])
async def test_a_needed_service_that_is_gone_is_named(
    stub: "Stub", deployment: Deployment, service: str, named: str
) -> None:
    await deployment.stop(service)
    with refused(grpc.StatusCode.UNAVAILABLE, named):
        await respond(stub, header())


async def test_an_unexpected_failure_is_internal_and_tells_nothing(
    stub: "Stub", cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    cast.memory.before = fail(RuntimeError("secret"))
    with refused(grpc.StatusCode.INTERNAL, "internal error; the log of the service has the details") as failure:
        await respond(stub, header())
    assert "secret" not in str(failure.value)
    assert "secret" in caplog.text
