"""Turns under a table of variants: who serves them, who stays, and who takes over."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from typing import cast as typed

import grpc
import pytest
from prometheus_client import REGISTRY

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from orchestrator.shadows import SHADOWS_MAX
from services.common.errors import BackendFailed
from services.common.variants.live import LiveTable
from tests.deployment import Cast, Deployment
from tests.fake_faces import FakeFace
from tests.fake_voice import FakeVoice
from tests.fakes import PATIENCE_S, Gate, fail
from tests.serving import refused
from tests.turns import Start, Turn, header, lost

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

SPOKEN = {"output": pb.OUTPUT_AUDIO}


class OtherVoice(FakeVoice):
    """A second voice, of another rate and with fewer styles."""

    model, digest = "other voice", "6" * 64
    sample_rate_hz = 24_000

    def __init__(self) -> None:
        super().__init__()
        self.styles = ("default", "sad")


class OtherFace(FakeFace):
    """A second renderer."""

    model, digest = "other face", "e" * 64


def failing(error: Exception, operation: str, after: int = 0) -> Callable[[str], None]:
    """Returns a `before` that lets an operation through so often, then raises an error."""
    came = iter(range(after))

    def raise_(now: str) -> None:
        if now == operation and next(came, None) is None:
            raise error

    return raise_


class Stage:
    """A deployment with two voices and two renderers, and its table."""

    def __init__(self, cast: Cast, deployment: Deployment, stub: "Stub") -> None:
        self.cast, self.deployment, self.stub = cast, deployment, stub
        self._version = 0

    async def set(self, stage: str = "tts", **variants: dict[str, Any]) -> None:
        """Splits the traffic of a stage, and waits until the gateway does."""
        live = self._write(stage, variants)
        while live.current.version != self._version:
            await live.changed()

    async def refusal(self, stage: str, **variants: dict[str, Any]) -> str:
        """Why the gateway refuses to split the traffic of a stage so."""
        live = self._write(stage, variants)
        async with asyncio.timeout(PATIENCE_S):
            while not live.problem:
                await live.changed()
        return live.problem

    def _write(self, stage: str, variants: dict[str, dict[str, Any]]) -> LiveTable:
        self._version += 1
        for name, variant in variants.items():
            if name != "default":
                variant["address"] = variant.get("address") or self.deployment.served[f"{stage}-{name}"].address
        table = {"version": self._version, "stages": {stage: {"variants": variants}}}
        path = typed("Path", self.cast.variants_file)
        path.with_name("next").write_text(json.dumps(table), "utf-8")
        path.with_name("next").replace(path)
        assert self.cast.table
        return self.cast.table

    async def say(self, conversation: str = "talk", variants: str = "", **fields: Any) -> Turn:
        """Has a turn answered; the caller may name variants."""
        metadata = [("e3rg-variant", variants)] if variants else None
        request = header(conversation=conversation, **{**SPOKEN, **fields})
        call = self.stub.Respond(iter([request]), timeout=20, metadata=metadata)
        return Turn([event async for event in call])


def served(turn: Turn, stage: str = "tts") -> tuple[str, str]:
    """Variant and model of a stage, as told last."""
    told = [event.served for event in turn.events if event.HasField("served") and event.served.stage == stage]
    return told[-1].variant, told[-1].card.model


def shadowed(stage: str, outcome: str) -> float:
    """Shadows that have ended so."""
    labels = {"stage": stage, "variant": "b", "outcome": outcome}
    return REGISTRY.get_sample_value("e3rg_shadow_seconds_count", labels) or 0.0


def skips() -> float:
    """Copies that the shadow voice did not get."""
    return REGISTRY.get_sample_value("e3rg_shadow_skipped_total", {"stage": "tts", "variant": "b"}) or 0.0


def kept(cast: Cast, conversation: str = "talk") -> list[tuple[str, str]]:
    """Variant and model of the voice of each kept turn."""
    turns = cast.memory.turns["default", "ada", f"({conversation})"]
    return [(turn.variants["tts"], turn.models["tts"]) for turn in turns]


A, B = ("default", "fake voice"), ("b", "other voice")
KEPT_A, KEPT_B = ("default", "fake 555555555555"), ("b", "fake 666666666666")


@pytest.fixture
def cast(tmp_path: Path) -> Cast:
    cast = Cast(variants_file=tmp_path / "variants.json")
    cast.add_identity("ada")
    cast.variant_voices, cast.variant_portraits = {"b": OtherVoice()}, {"b": OtherFace()}
    return cast


@pytest.fixture
async def stage(cast: Cast, deployment: Deployment) -> Stage:
    await deployment.start(cast)
    channel = deployment.served["orchestrator"].channel
    return Stage(cast, deployment, typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel)))


async def test_events_and_kept_turns_name_the_model_that_served(stage: Stage, cast: Cast) -> None:
    await stage.set(default={"weight": 0}, b={"weight": 100})
    turn = await stage.say()
    assert served(turn) == B
    assert served(turn, "writer")[0] == "default"
    assert kept(cast) == [KEPT_B]
    assert {chunk.sample_rate_hz for chunk in turn.audio} == {24_000}
    assert turn.degraded == []


async def test_what_a_voice_derives_is_kept_under_its_own_digest(stage: Stage, cast: Cast) -> None:
    await stage.set(default={"weight": 0}, b={"weight": 100})
    await stage.say()
    await stage.set(default={"weight": 100}, b={"weight": 0, "state": "off"})
    await stage.say()
    assert {key[-1] for key in cast.memory.derived} == {FakeVoice.digest, OtherVoice.digest}


async def test_a_conversation_keeps_its_voice_while_weights_change(stage: Stage, cast: Cast) -> None:
    await stage.say()
    await stage.set(default={"weight": 0}, b={"weight": 100})
    assert served(await stage.say()) == A
    assert served(await stage.say("new")) == B
    await stage.set(default={"weight": 100}, b={"weight": 0, "state": "draining"})
    assert served(await stage.say("new")) == B
    assert kept(cast) == [KEPT_A, KEPT_A]


async def test_conversations_of_a_variant_that_is_off_move_at_their_next_turn(stage: Stage) -> None:
    await stage.set(default={"weight": 0}, b={"weight": 100})
    await stage.say()
    await stage.set(default={"weight": 100}, b={"weight": 0, "state": "off"})
    moved = await stage.say()
    assert (served(moved), moved.degraded) == (A, [])


async def test_the_pin_outlives_a_turn_without_speech(stage: Stage) -> None:
    await stage.say()
    await stage.say(output=pb.OUTPUT_TEXT)
    await stage.set(default={"weight": 0}, b={"weight": 100})
    assert served(await stage.say()) == A


async def test_the_control_takes_over_for_one_without_replicas_and_the_pin_moves(stage: Stage, cast: Cast) -> None:
    await stage.set(default={"weight": 0}, b={"weight": 100})
    await stage.say()
    await stage.deployment.stop("tts-b")
    moved = await stage.say()
    assert (served(moved), lost(moved)) == (A, [("speech", "the variant that was chosen")])
    assert moved.degraded[0].reason == "'default' serves instead of 'b': no replica of it takes calls"
    assert kept(cast) == [KEPT_B, KEPT_A]
    assert {chunk.sample_rate_hz for chunk in moved.audio} == {16_000}


@pytest.mark.parametrize("output", [pb.OUTPUT_AUDIO, pb.OUTPUT_VIDEO])
async def test_the_control_takes_over_from_a_voice_that_fails_before_its_first_sound(
    stage: Stage, cast: Cast, output: "pb.Output"
) -> None:
    cast.variant_voices["b"].before = failing(BackendFailed("broken"), "speak")
    await stage.set(default={"weight": 0}, b={"weight": 100})
    turn = await stage.say(output=output)
    assert served(turn) == A
    assert lost(turn) == [("speech", "the variant that was chosen")]
    assert {chunk.sample_rate_hz for chunk in turn.audio} == {16_000}
    styles = [event.delivery.voice_style for event in turn.events if event.HasField("delivery")]
    assert styles == ["default", "friendly"]
    assert turn.audio_s == pytest.approx(len(turn.sentences) * FakeVoice.sentence_s)
    rates = {speech.sample_rate_hz for speech in cast.portrait.fed}
    assert (bool(turn.video), rates) == ((True, {16_000}) if output == pb.OUTPUT_VIDEO else (False, set()))
    assert kept(cast) == [KEPT_A]


async def test_a_turn_whose_voice_and_control_are_both_lost_goes_on_without_sound(stage: Stage, cast: Cast) -> None:
    cast.variant_voices["b"].before = failing(BackendFailed("broken"), "speak")
    cast.lead.before = gate = Gate("write")
    await stage.set(default={"weight": 0}, b={"weight": 100})
    saying = asyncio.create_task(stage.say())
    await gate.reached()
    await stage.deployment.stop("tts")
    gate.open()
    turn = await saying
    assert turn.sentences
    assert lost(turn) == [("speech", "the variant that was chosen"), ("speech", "audio")]


async def test_a_turn_whose_renderer_and_control_are_both_lost_goes_on_without_video(stage: Stage, cast: Cast) -> None:
    cast.variant_portraits["b"].before = fail(BackendFailed("broken"))
    cast.lead.before = gate = Gate("write")
    await stage.set("video", default={"weight": 0}, b={"weight": 100})
    saying = asyncio.create_task(stage.say(output=pb.OUTPUT_VIDEO))
    await gate.reached()
    await stage.deployment.stop("video")
    gate.open()
    turn = await saying
    assert turn.audio
    assert lost(turn) == [("video", "the variant that was chosen"), ("video", "video")]


async def test_after_the_first_sound_nothing_moves(stage: Stage, cast: Cast) -> None:
    cast.variant_voices["b"].before = failing(BackendFailed("broken"), "speak", after=1)
    await stage.set(default={"weight": 0}, b={"weight": 100})
    turn = await stage.say()
    assert served(turn) == B
    assert lost(turn) == [("speech", "the rest of the audio")]
    assert len({chunk.sample_rate_hz for chunk in turn.audio}) == 1


async def test_the_control_takes_over_from_a_renderer_that_fails_before_its_first_picture(
    stage: Stage, cast: Cast
) -> None:
    cast.variant_portraits["b"].before = fail(BackendFailed("broken"))
    await stage.set("video", default={"weight": 0}, b={"weight": 100})
    turn = await stage.say(output=pb.OUTPUT_VIDEO)
    assert served(turn, "video") == ("default", FakeFace.model)
    assert lost(turn) == [("video", "the variant that was chosen")]
    assert turn.frames == pytest.approx(turn.audio_s * 25, abs=1)


async def test_a_renderer_is_chosen_pinned_and_named(stage: Stage) -> None:
    await stage.set("video", default={"weight": 0}, b={"weight": 100})
    turn = await stage.say(output=pb.OUTPUT_VIDEO)
    assert served(turn, "video") == ("b", OtherFace.model)
    await stage.set("video", default={"weight": 100}, b={"weight": 0, "state": "draining"})
    assert served(await stage.say(output=pb.OUTPUT_VIDEO), "video")[0] == "b"


async def test_a_tester_names_the_variant_of_a_turn(stage: Stage) -> None:
    await stage.set(default={"weight": 100}, b={"weight": 0})
    assert served(await stage.say(variants="tts=b")) == B


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("tts=z", "e3rg-variant: tts has no variant 'z'; use one of: b, default"),
        ("memory=b", "e3rg-variant: 'memory' is no stage with variants; use one of: writer, tts, video, mllm-VOTER"),
    ],
)
async def test_a_variant_that_there_is_not_is_refused(stage: Stage, named: str, problem: str) -> None:
    await stage.set(default={"weight": 100}, b={"weight": 0})
    with refused(grpc.StatusCode.INVALID_ARGUMENT, problem):
        await stage.say(variants=named)


@pytest.mark.parametrize(
    ("split", "answering", "asked"),
    [
        ("tts", "video-b", "tts"),
        ("video", "tts-b", "video"),
        ("writer", "tts-b", "mllm"),
        ("mllm-text", "tts-b", "mllm"),
    ],
)
async def test_another_service_at_the_address_of_a_variant_is_refused(
    stage: Stage, split: str, answering: str, asked: str
) -> None:
    address = stage.deployment.served[answering].address
    refusal = await stage.refusal(split, default={"weight": 90}, d={"weight": 10, "address": address})
    assert f"stages.{split}.variants.d" in refusal
    assert f"{answering[:-2]} answers at {address}; name an address of {asked}" in refusal
    assert lost(await stage.say()) == []


async def test_a_voice_with_another_emotion_wheel_is_refused(start: Start, cast: Cast, deployment: Deployment) -> None:
    cast.wheels = {"tts-b": replace(cast.wheel("tts"), digest="0" * 64)}
    stage = Stage(cast, deployment, await start())
    refusal = await stage.refusal("tts", default={"weight": 90}, b={"weight": 10})
    assert "stages.tts.variants.b: it uses emotion wheel 000000000000, the gateway" in refusal


async def test_a_turn_keeps_the_table_that_it_began_with(stage: Stage, cast: Cast) -> None:
    cast.lead.before = gate = Gate("write")
    await stage.set(default={"weight": 0}, b={"weight": 100})
    saying = asyncio.create_task(stage.say())
    await gate.reached()
    await stage.set(default={"weight": 100}, b={"weight": 0, "state": "off"})
    gate.open()
    assert served(await saying) == B


async def test_a_gateway_that_starts_anew_knows_the_table_before_its_first_turn(stage: Stage, cast: Cast) -> None:
    await stage.set(default={"weight": 0}, b={"weight": 100})
    await stage.deployment.stop("orchestrator")
    await stage.deployment.start_orchestrator(cast)
    channel = stage.deployment.served["orchestrator"].channel
    stage.stub = typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))
    assert served(await stage.say()) == B


async def test_a_shadow_gets_the_work_and_nobody_hears_or_keeps_it(stage: Stage, cast: Cast) -> None:
    await stage.set(default={"weight": 100}, b={"weight": 0, "shadow": 100})
    before = shadowed("tts", "ok")
    turn = await stage.say()
    assert cast.shadows
    await cast.shadows.idle()
    assert [text for text, _ in cast.variant_voices["b"].spoken] == turn.sentences
    assert shadowed("tts", "ok") == before + 1
    assert (served(turn), turn.degraded) == (A, [])
    assert {chunk.sample_rate_hz for chunk in turn.audio} == {16_000}
    assert {key[-1] for key in cast.memory.derived} == {FakeVoice.digest}


async def test_a_shadow_renderer_works_on_the_speech(stage: Stage, cast: Cast) -> None:
    await stage.set("video", default={"weight": 100}, b={"weight": 0, "shadow": 100})
    before = shadowed("video", "ok")
    turn = await stage.say(output=pb.OUTPUT_VIDEO)
    assert cast.shadows
    await cast.shadows.idle()
    assert shadowed("video", "ok") == before + 1
    assert (served(turn, "video")[0], turn.degraded) == ("default", [])
    assert {key[-1] for key in cast.memory.derived} == {FakeVoice.digest, FakeFace.digest}


async def test_a_shadow_that_hangs_costs_nothing_and_further_ones_are_skipped(stage: Stage, cast: Cast) -> None:
    cast.variant_voices["b"].before = gate = Gate("speak")
    await stage.set(default={"weight": 100}, b={"weight": 0, "shadow": 100})
    skipped = skips()
    for number in range(SHADOWS_MAX + 2):
        turn = await stage.say(f"talk-{number}")
        assert (served(turn), turn.degraded) == (A, [])
    assert skips() == skipped + 2
    gate.open()
    assert cast.shadows
    await cast.shadows.idle()


async def test_a_shadow_without_a_replica_is_skipped(stage: Stage) -> None:
    await stage.set(default={"weight": 100}, b={"weight": 0, "shadow": 100})
    skipped, failed = skips(), shadowed("tts", "failed")
    await stage.deployment.stop("tts-b")
    turn = await stage.say()
    assert (served(turn), turn.degraded) == (A, [])
    assert (skips(), shadowed("tts", "failed")) == (skipped + 1, failed)


async def test_a_shadow_that_fails_is_counted_and_nothing_else(stage: Stage, cast: Cast) -> None:
    cast.variant_voices["b"].before = fail(BackendFailed("broken"))
    await stage.set(default={"weight": 100}, b={"weight": 0, "shadow": 100})
    before = shadowed("tts", "failed")
    assert (await stage.say()).degraded == []
    assert cast.shadows
    await cast.shadows.idle()
    assert shadowed("tts", "failed") == before + 1


async def test_status_tells_the_variants(stage: Stage) -> None:
    await stage.set(default={"weight": 90}, b={"weight": 10})
    services = (await stage.stub.GetStatus(pb.GetStatusRequest())).services
    told = {(each.name, each.variant): each.card.model for each in services if each.name == "tts"}
    assert told == {("tts", "default"): "fake voice", ("tts", "b"): "other voice"}
