"""`python -m services.understanding`: serves the panel that the settings name."""

import asyncio
from contextlib import AsyncExitStack

import emotions
from e3rg.understanding.v1 import understanding_pb2, understanding_pb2_grpc
from services.common import clients, logs, server, start
from services.common.inference import InferenceQueue
from services.understanding import metrics, reliability
from services.understanding.intake import Intake
from services.understanding.panel import Panel
from services.understanding.rules import rule_of
from services.understanding.servicer import UnderstandingServicer
from services.understanding.settings import UnderstandingSettings
from services.understanding.voters import MllmVoter

SERVICE = understanding_pb2.DESCRIPTOR.services_by_name["UnderstandingService"].full_name


async def main(started: asyncio.Event) -> None:
    """Connects to the voters, then serves until SIGTERM."""
    settings = UnderstandingSettings()
    logs.configure("understanding", settings.log_level)
    wheel = emotions.load()
    async with AsyncExitStack() as stack:
        decoder = InferenceQueue("decode", "pyav", settings.queue_waiting_max, workers=2, variant=settings.variant)
        stack.callback(decoder.close)
        voters = {}
        for name, address in settings.voters.items():
            channel = clients.open_channel(address, f"mllm-{name}", settings.channel_tls)
            voters[name] = MllmVoter(name, await stack.enter_async_context(channel), wheel)
        metrics.show_voters(voters)
        weights = reliability.load(settings.weights, wheel) if settings.weights else reliability.EQUAL
        panel = Panel(
            voters=list(voters.values()),
            wheel=wheel,
            rule=rule_of(settings.rule, wheel, weights),
            quorum=settings.quorum,
            deadline_s=settings.vote_deadline_s,
            early=settings.early,
            # It is the writer that looks for cries for help: a decision without it could miss one.
            awaited=frozenset({settings.writer}),
        )
        servicer = UnderstandingServicer(
            panel=panel,
            voters=list(voters.values()),
            intake=Intake(voters[settings.transcriber], decoder, settings.frames_max),
            writer=voters[settings.writer],
            wheel=wheel,
            history_turns_max=settings.history_turns_max,
        )
        running = await stack.enter_async_context(server.running(SERVICE, "understanding", settings))
        add = understanding_pb2_grpc.add_UnderstandingServiceServicer_to_server
        running.serve(lambda to: add(servicer, to), decoder.load)
        await server.until_stopped(running, started, asyncio.sleep(0))


if __name__ == "__main__":
    start.run("understanding", main)
