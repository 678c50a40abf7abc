"""`python -m services.video`: serves the face renderer that `E3RG_VIDEO_BACKEND` names."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from google.protobuf.message import Message

import emotions
from e3rg.video.v1 import video_pb2, video_pb2_grpc
from services.common import backends, logs, metrics, server, start
from services.common.inference import InferenceQueue
from services.common.load import Load
from services.video.domain import Backend, Studio
from services.video.servicer import VideoServicer
from services.video.settings import VideoSettings

SERVICE = video_pb2.DESCRIPTOR.services_by_name["VideoService"].full_name

TIDY_S = 5.0
"""Time between two evictions of rigs that nobody uses."""


async def main(started: asyncio.Event) -> None:
    """Loads the model, then serves it until SIGTERM."""
    settings = VideoSettings()
    logs.configure("video", settings.log_level)
    module = backends.load("services.video.backends", settings.backend)

    def make(backend: Backend, closing: ExitStack) -> tuple[Callable[[Any], None], Callable[[], Load], Message]:
        queue = InferenceQueue("video", settings.backend, settings.queue_waiting_max, variant=settings.variant)
        closing.callback(queue.close)
        studio = Studio(backend, settings.rigs_max)
        closing.callback(asyncio.create_task(queue.repeat(studio.drop_unused, TIDY_S)).cancel)
        wheel = emotions.load()
        servicer = VideoServicer(settings.backend, backend, studio, queue, wheel)
        metrics.show_model(
            "video",
            settings.backend,
            backend.model,
            backend.digest,
            wheel.digest,
            lambda: servicer.load().backlog_s,
            settings.variant,
        )
        return lambda to: video_pb2_grpc.add_VideoServiceServicer_to_server(servicer, to), servicer.load, servicer.model

    await server.serve_model(SERVICE, "video", settings, started, module.create, make)


if __name__ == "__main__":
    start.run("video", main)
