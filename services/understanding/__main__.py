"""`python -m services.understanding`: serves the panel that the settings name."""

import asyncio
from contextlib import AsyncExitStack

import emotions
from e3rg.understanding.v1 import understanding_pb2, understanding_pb2_grpc
from services.common import clients, logs, server, start
from services.common.inference import InferenceQueue
from services.common.variants.channels import VariantChannels
from services.common.variants.live import LiveTable
from services.common.variants.settings import overlay_of, source_of
from services.common.variants.table import Table
from services.understanding import reliability
from services.understanding.intake import Intake
from services.understanding.languages import Languages
from services.understanding.observing import Observer
from services.understanding.panel import Panel
from services.understanding.reader import MessageReader
from services.understanding.risk.care import Care
from services.understanding.risk.classifier import Classifier
from services.understanding.risk.lines import HelpLines
from services.understanding.risk.screen import RiskScreen
from services.understanding.risk.second import SecondOpinion
from services.understanding.rules import rule_of
from services.understanding.screening import Screening
from services.understanding.servicer import UnderstandingServicer
from services.understanding.settings import UnderstandingSettings
from services.understanding.tones import store
from services.understanding.tones.offers import Offers
from services.understanding.track_record import TrackRecords
from services.understanding.variants import WRITER, Clients, Variants, stage_of, take_any
from services.understanding.voters import Answer

SERVICE = understanding_pb2.DESCRIPTOR.services_by_name["UnderstandingService"].full_name


async def main(started: asyncio.Event) -> None:
    """Connects to the voters, then serves until SIGTERM."""
    settings = UnderstandingSettings()
    logs.configure("understanding", settings.log_level)
    wheel = emotions.load()
    async with AsyncExitStack() as stack:
        decoder = InferenceQueue("decode", "pyav", settings.queue_waiting_max, workers=2, variant=settings.variant)
        stack.callback(decoder.close)
        addresses = {stage_of(name): address for name, address in settings.voters.items()}
        channels = VariantChannels(
            {**addresses, WRITER: settings.voters[settings.writer]},
            lambda address, name: clients.open_channel(address, name, settings.channel_tls),
        )
        stack.push_async_callback(channels.close)
        voters = Clients(channels, list(settings.voters), settings.writer, wheel)
        voters.prepare([Table()])
        live = LiveTable(source_of(settings), take_any, overlay_of(settings), voters.prepare)
        await stack.enter_async_context(live.running())
        weights = reliability.load(settings.weights, wheel) if settings.weights else reliability.EQUAL
        observer = Observer[Answer](TrackRecords(wheel)) if settings.reliability else None
        if observer:
            stack.push_async_callback(observer.close)
        panel = Panel(
            voters=[voters.default(name) for name in settings.voters],
            wheel=wheel,
            rule=rule_of(settings.rule, wheel, weights),
            quorum=settings.quorum,
            deadline_s=settings.vote_deadline_s,
            early=settings.early,
            observer=observer,
        )
        # Loaded here, as a service without a working screen must not take a call.
        care, tones = Care(HelpLines(settings.help_lines, settings.help_country)), store.read()
        replies = [*store.replies(tones), *care.texts()]
        reader = await asyncio.to_thread(MessageReader, settings.models_dir, tones, replies)
        classifier = await asyncio.to_thread(Classifier, settings.models_dir)
        screening = Screening(RiskScreen(SecondOpinion(reader, classifier)))
        stack.callback(screening.close)
        offers = Offers(reader, wheel)
        stack.callback(offers.close)
        servicer = UnderstandingServicer(
            panel=panel,
            variants=Variants(live, voters),
            intake=Intake(voters.default(settings.transcriber), decoder, settings.frames_max),
            wheel=wheel,
            history_turns_max=settings.history_turns_max,
            screening=screening,
            care=care,
            offers=offers,
            languages=Languages(),
        )
        running = await stack.enter_async_context(server.running(SERVICE, "understanding", settings))
        add = understanding_pb2_grpc.add_UnderstandingServiceServicer_to_server
        running.serve(lambda to: add(servicer, to), decoder.load)
        await server.until_stopped(running, started, live.known())


if __name__ == "__main__":
    start.run("understanding", main)
