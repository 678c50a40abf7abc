"""`python -m services.video`: serves the face renderer that `E3RG_VIDEO_BACKEND` names."""

import asyncio
from typing import cast

import emotions
from e3rg.video.v1 import video_pb2, video_pb2_grpc
from services.common import backends, logs, server, start
from services.common.inference import InferenceQueue
from services.video.domain import Backend, Studio
from services.video.servicer import VideoServicer
from services.video.settings import VideoSettings

TIDY_S = 5.0
"""How often rigs that nobody films with are dropped."""


async def main(started: asyncio.Event) -> None:
    """Loads the model, then serves it until SIGTERM."""
    settings = VideoSettings()
    logs.configure("video", settings.log_level)
    wheel = emotions.load()
    backend = cast("Backend", backends.load("services.video.backends", settings.backend).create())
    queue = InferenceQueue("video", backend.model, settings.queue_waiting_max)
    studio = Studio(backend, settings.rigs_max)
    servicer = VideoServicer(settings.backend, backend, studio, queue, wheel)
    tidying = asyncio.create_task(queue.repeat(studio.drop_unused, TIDY_S))
    try:
        async with server.running(
            video_pb2.DESCRIPTOR.services_by_name["VideoService"].full_name,
            "video",
            lambda grpc_server: video_pb2_grpc.add_VideoServiceServicer_to_server(servicer, grpc_server),
            host=settings.host,
            port=settings.port,
            metrics_port=settings.metrics_port,
            grace_s=settings.shutdown_grace_s,
        ) as running:
            await running.set_ready()
            started.set()
            await server.stop_signal()
    finally:
        tidying.cancel()
        queue.close()
        backend.close()


if __name__ == "__main__":
    start.run("video", main)
