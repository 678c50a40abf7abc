"""One model's service in this process, over any back-end: the environment of one model is enough to import it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e3rg.mllm.v1 import mllm_pb2_grpc
from e3rg.tts.v1 import tts_pb2_grpc
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from services.common.inference import InferenceQueue
from services.mllm.domain import Backend as MllmBackend
from services.mllm.servicer import MllmServicer
from services.tts.domain import Backend as TtsBackend
from services.tts.domain import Voices
from services.tts.servicer import TtsServicer
from services.video.domain import Backend as VideoBackend
from services.video.domain import Studio
from services.video.servicer import HEARTBEAT_S, VideoServicer
from tests.serving import Served, serving


@asynccontextmanager
async def serving_mllm(
    name: str, backend: MllmBackend, wheel: Wheel, waiting_max: int = 8, grace_s: float = 1
) -> AsyncIterator[Served]:
    queue = InferenceQueue("vote", name, waiting_max)
    servicer = MllmServicer(name, backend, queue, wheel)
    async with serving(
        "e3rg.mllm.v1.MllmService",
        lambda to: mllm_pb2_grpc.add_MllmServiceServicer_to_server(servicer, to),
        grace_s,
        queue.load,
        servicer.model,
    ) as served:
        yield served
    await asyncio.to_thread(queue.close)


@asynccontextmanager
async def serving_tts(
    backend: TtsBackend, wheel: Wheel, waiting_max: int = 8, grace_s: float = 1
) -> AsyncIterator[Served]:
    queue = InferenceQueue("speech", "fake", waiting_max)
    servicer = TtsServicer("fake", backend, Voices(backend, 4), queue, wheel)
    async with serving(
        "e3rg.tts.v1.TtsService",
        lambda to: tts_pb2_grpc.add_TtsServiceServicer_to_server(servicer, to),
        grace_s,
        queue.load,
        servicer.model,
    ) as served:
        yield served
    await asyncio.to_thread(queue.close)


@asynccontextmanager
async def serving_video(
    backend: VideoBackend, wheel: Wheel, waiting_max: int = 8, grace_s: float = 1, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[Served]:
    queue = InferenceQueue("video", "fake", waiting_max)
    servicer = VideoServicer("fake", backend, Studio(backend, 4), queue, wheel, heartbeat_s)
    async with serving(
        "e3rg.video.v1.VideoService",
        lambda to: video_pb2_grpc.add_VideoServiceServicer_to_server(servicer, to),
        grace_s,
        servicer.load,
        servicer.model,
    ) as served:
        yield served
    await asyncio.to_thread(queue.close)
