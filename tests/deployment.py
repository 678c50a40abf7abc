"""All services of a deployment in this process: real servicers over fake back-ends, on real channels."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from e3rg.understanding.v1 import understanding_pb2_grpc
from emotions import Wheel
from orchestrator import stages
from orchestrator.identities import Examiner
from orchestrator.memories import Memories
from orchestrator.memory import Memory
from orchestrator.pipeline import Pipeline
from orchestrator.risks import Risks
from orchestrator.servicer import OrchestratorServicer
from orchestrator.shadows import Shadows
from orchestrator.variants.checking import VariantCheck
from orchestrator.variants.counts import Outcome
from orchestrator.variants.outcomes import of_turn
from orchestrator.webhook import Webhook
from services.common import clients
from services.common.channels import BalancedChannel
from services.common.inference import InferenceQueue
from services.common.metrics import VARIANT
from services.common.variants.channels import VariantChannels
from services.common.variants.files import TableFile
from services.common.variants.live import LiveTable
from services.common.variants.table import Table
from services.mllm.domain import Level
from services.understanding.intake import Intake
from services.understanding.languages import Languages
from services.understanding.observing import Observer
from services.understanding.panel import Panel
from services.understanding.reliability import EQUAL, Weights
from services.understanding.risk.care import Care
from services.understanding.risk.lines import HelpLines
from services.understanding.rules import rule_of
from services.understanding.servicer import UnderstandingServicer
from services.understanding.track_record import TrackRecords
from services.understanding.variants import WRITER, Clients, Variants, stage_of, take_any
from services.understanding.voters import Answer
from tests.fake_faces import FakeFace
from tests.fake_memory import FakeMemory, serving_memory
from tests.fake_voice import FakeVoice
from tests.fake_voters import FakeLead, FakeVoter
from tests.model_services import serving_mllm, serving_tts, serving_video
from tests.samples import png, wav
from tests.serving import Served, serving
from tests.support.risk import ToldReader, screening
from tests.support.tones import ToldTones, offers

ALL_USES = ("animate_face", "clone_voice", "infer_emotion", "keep_turns")
PORTRAIT, VOICE = png(), wav()


@dataclass
class Cast:
    """The fakes of a deployment, and the terms under which it runs. `wheels` gives a service another wheel."""

    text: FakeVoter = field(default_factory=lambda: FakeVoter({"sad": 0.5, "lonely": 0.4, "joyful": 0.1}))
    face: FakeVoter = field(default_factory=lambda: FakeVoter({"sad": 0.6, "neutral": 0.4}, Level.CLASS))
    lead: FakeLead = field(default_factory=lambda: FakeLead({"sad": 0.6, "furious": 0.4}))
    voice: FakeVoice = field(default_factory=FakeVoice)
    portrait: FakeFace = field(default_factory=FakeFace)
    more_voices: tuple[FakeVoice, ...] = ()
    """Further replicas of the voice, served as "tts 2" and so on."""
    more_portraits: tuple[FakeFace, ...] = ()
    """Further replicas of the renderer, served as "video 2" and so on."""
    memory: FakeMemory = field(default_factory=FakeMemory)
    serving_memory: Callable[[Wheel], AbstractAsyncContextManager[Served]] | None = None
    """Serves another memory in place of the fake."""
    wheels: Mapping[str, Wheel] = field(default_factory=dict)
    risk_reader: ToldReader = field(default_factory=ToldReader)
    tone_reader: ToldTones = field(default_factory=ToldTones)
    help_lines: HelpLines = field(default_factory=HelpLines)
    webhook: Webhook | None = None
    quorum: int = 1
    vote_deadline_s: float = 10.0
    rule: str = "majority"
    weights: Weights = EQUAL
    early: bool = False
    """Other than by default: every vote is then on the record that a test reads."""
    history_turns_max: int = 40
    turn_deadline_s: float = 20.0
    turn_deadline_max_s: float = 0.0
    """As the other when 0."""
    stage_idle_s: float = 15.0
    heartbeat_s: float = 5.0
    """Of the door, to the memory, while a file is looked at."""
    waiting_max: int = 8
    variant_admin: bool = True
    variants_file: Path | None = None
    """Of the gateway and the panel; none: traffic is not split."""
    shadows: Shadows | None = None
    """Of the gateway, once it is started."""
    table: LiveTable | None = None
    """Table of variants that the gateway follows, once it is started."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Of the turns that have ended, by variant."""
    variant_voices: Mapping[str, FakeVoice] = field(default_factory=dict)
    """Further voices by name, served as "tts-NAME" behind an address of their own."""
    variant_portraits: Mapping[str, FakeFace] = field(default_factory=dict)
    """Further renderers by name, served as "video-NAME" behind an address of their own."""
    variant_voters: Mapping[str, FakeVoter] = field(default_factory=dict)
    """Further voters, such as "text-b", served as "mllm-text-b" behind an address of their own."""

    @property
    def voters(self) -> dict[str, FakeVoter]:
        """By name, in order of priority."""
        return {"text": self.text, "face": self.face, "lead": self.lead}

    def wheel(self, service: str) -> Wheel:
        return self.wheels.get(service, emotions.load())

    def add_identity(
        self,
        name: str = "ada",
        uses: tuple[str, ...] = ALL_USES,
        tenant: str = "default",
        voices: tuple[bytes, ...] = (VOICE,),
    ) -> identities.Identity:
        """Puts an identity into the memory."""
        profile = common.Profile(
            name="Ada", age="young", gender="female", timbre="mid", language="en", about="Likes engines."
        )
        files = [(identities.REFERENCE_KIND_PORTRAIT, PORTRAIT)]
        files += [(identities.REFERENCE_KIND_VOICE, voice) for voice in voices]
        return self.memory.add(tenant, name, profile, uses, files)


@asynccontextmanager
async def serving_understanding(cast: Cast, voters: Mapping[str, str], writer: str = "lead") -> AsyncIterator[Served]:
    """Serves a panel of the voters at these addresses; "lead" transcribes, and writes unless another does."""
    decoder = InferenceQueue("decode", "pyav", 8, workers=2)
    async with AsyncExitStack() as stack:
        wheel = cast.wheel("understanding")
        addresses = {stage_of(name): address for name, address in voters.items()}
        channels = VariantChannels({**addresses, WRITER: voters[writer]}, clients.open_channel)
        stack.push_async_callback(channels.close)
        for stage, address in channels.addresses.items():
            await channels.of(Table(), stage, VARIANT).replicas.wait_ready(address.count(",") + 1)
        seats = Clients(channels, list(voters), writer, wheel)
        live = LiveTable(TableFile(file) if (file := cast.variants_file) else None, take_any, prepare=seats.prepare)
        await stack.enter_async_context(live.running())
        await live.known()
        screener = screening(cast.risk_reader)
        stack.callback(screener.close)
        offered = offers(cast.tone_reader)
        stack.callback(offered.close)
        observer = Observer[Answer](TrackRecords(wheel))
        stack.push_async_callback(observer.close)
        servicer = UnderstandingServicer(
            panel=Panel(
                [seats.default(name) for name in voters],
                wheel,
                rule_of(cast.rule, wheel, cast.weights),
                cast.quorum,
                cast.vote_deadline_s,
                cast.early,
                observer,
            ),
            variants=Variants(live, seats),
            intake=Intake(seats.default("lead"), decoder, frames_max=4),
            wheel=wheel,
            history_turns_max=cast.history_turns_max,
            screening=screener,
            care=Care(cast.help_lines),
            offers=offered,
            languages=Languages(),
        )
        async with serving(
            "e3rg.understanding.v1.UnderstandingService",
            lambda to: understanding_pb2_grpc.add_UnderstandingServiceServicer_to_server(servicer, to),
        ) as served:
            yield served
    await asyncio.to_thread(decoder.close)


@asynccontextmanager
async def serving_orchestrator(cast: Cast, served: Mapping[str, Served]) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        channels: dict[str, BalancedChannel] = {}

        async def to(name: str) -> BalancedChannel:
            channel = await stack.enter_async_context(clients.open_channel(_addresses(served, name)))
            await channel.replicas.wait_ready(len(channel.replicas.target.split(",")))
            channels[name] = channel
            return channel

        variants = VariantChannels({name: _addresses(served, name) for name in ("tts", "video")}, clients.open_channel)
        stack.push_async_callback(variants.close)
        wheel = cast.wheel("orchestrator")
        understanding = stages.Understanding(await to("understanding"))
        check = VariantCheck(variants, understanding, wheel.digest, lambda: live.current)
        source = TableFile(cast.variants_file) if cast.variants_file else None
        live = LiveTable(source, check.check, prepare=check.prepare)
        cast.table = await stack.enter_async_context(live.running())
        for name in ("tts", "video"):
            replicas = variants.of(Table(), name, VARIANT).replicas
            await replicas.wait_ready(len(replicas.target.split(",")))
        await live.known()
        memory = Memory(await to("memory"))
        risks = Risks(memory, cast.webhook)
        stack.push_async_callback(risks.close, 5)
        pipeline = Pipeline(
            understanding=understanding,
            memory=memory,
            channels=variants,
            variants=live,
            wheel=wheel,
            turn_deadline_s=cast.turn_deadline_s,
            turn_deadline_max_s=cast.turn_deadline_max_s or cast.turn_deadline_s,
            history_turns=4,
            risks=risks,
            stage_idle_s=cast.stage_idle_s,
            observe=lambda turn, votes: cast.outcomes.extend(of_turn(turn, votes)),
        )
        cast.shadows = pipeline.shadows
        stack.push_async_callback(pipeline.shadows.close)
        servicer = OrchestratorServicer(pipeline, channels, cast.variant_admin)
        memories = Memories(pipeline.memory, Examiner(pipeline.tts, pipeline.video, cast.heartbeat_s))

        def register(server: grpc.aio.Server) -> None:
            orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(servicer, server)
            memories.register(server)

        yield await stack.enter_async_context(serving("e3rg.orchestrator.v1.OrchestratorService", register))


def _addresses(served: Mapping[str, Served], name: str) -> str:
    return f"ipv4:{','.join(each.address for key, each in served.items() if key.split()[0] == name)}"


class Deployment:
    """The running services by name: "orchestrator", "understanding", "mllm face", …"""

    def __init__(self) -> None:
        self.served: dict[str, Served] = {}
        self._stacks: dict[str, AsyncExitStack] = {}

    async def start(self, cast: Cast) -> None:
        """Starts all services, each after those that it calls."""
        for name, voter in cast.voters.items():
            await self._start(f"mllm {name}", serving_mllm(name, voter, cast.wheel(f"mllm {name}"), cast.waiting_max))
        voters = {name: self.served[f"mllm {name}"].address for name in cast.voters}
        await self._start("understanding", serving_understanding(cast, voters))
        wheel = cast.wheel("memory")
        memory = cast.serving_memory(wheel) if cast.serving_memory else serving_memory(cast.memory, wheel)
        await self._start("memory", memory)
        await self._start("tts", serving_tts(cast.voice, cast.wheel("tts"), cast.waiting_max))
        await self._start("video", serving_video(cast.portrait, cast.wheel("video"), cast.waiting_max))
        for number, voice in enumerate(cast.more_voices, 2):
            await self._start(f"tts {number}", serving_tts(voice, cast.wheel("tts"), cast.waiting_max))
        for number, replica in enumerate(cast.more_portraits, 2):
            await self._start(f"video {number}", serving_video(replica, cast.wheel("video"), cast.waiting_max))
        for name, voice in cast.variant_voices.items():
            await self._start(f"tts-{name}", serving_tts(voice, cast.wheel(f"tts-{name}"), cast.waiting_max))
        for name, portrait in cast.variant_portraits.items():
            await self._start(f"video-{name}", serving_video(portrait, cast.wheel(f"video-{name}"), cast.waiting_max))
        for name, voter in cast.variant_voters.items():
            served_as = f"mllm-{name}"
            await self._start(served_as, serving_mllm(served_as, voter, cast.wheel(served_as), cast.waiting_max))
        await self.start_orchestrator(cast)

    async def start_orchestrator(self, cast: Cast) -> None:
        """Starts the gateway, when all others run."""
        await self._start("orchestrator", serving_orchestrator(cast, self.served))

    async def stop(self, name: str) -> None:
        """Stops one service; its port refuses from then on."""
        await self._stacks.pop(name).aclose()

    async def stop_all(self) -> None:
        """Stops what still runs, each before those that it calls."""
        for name in reversed(list(self._stacks)):
            await self.stop(name)

    async def _start(self, name: str, serving_it: AbstractAsyncContextManager[Served]) -> None:
        stack = self._stacks[name] = AsyncExitStack()
        self.served[name] = await stack.enter_async_context(serving_it)


@asynccontextmanager
async def deployed(cast: Cast) -> AsyncIterator[Deployment]:
    """Runs all services over the fakes of `cast`."""
    deployment = Deployment()
    try:
        await deployment.start(cast)
        yield deployment
    finally:
        await deployment.stop_all()
