"""Renderers as pods: they load, serve the real contract, drain, and are counted and scaled."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prometheus_client import REGISTRY

import emotions
from benchmarks.scaling import renderer
from benchmarks.scaling.rule import SYNC_S, Autoscaler, Pods, Rule
from benchmarks.scaling.simulation import REFUSALS_OVER_S
from benchmarks.scaling.stages import Renderer
from benchmarks.scaling.tally import Tally
from e3rg.video.v1 import video_pb2, video_pb2_grpc
from services.common import metrics, server
from services.common.inference import InferenceQueue
from services.common.settings import ServiceSettings
from services.video.domain import Studio
from services.video.servicer import VideoServicer

SERVICE = video_pb2.DESCRIPTOR.services_by_name["VideoService"].full_name
WAITING_MAX = 64


@dataclass(eq=False)
class Pod:
    """One pod: it loads its model for `renderer.POD_S`, serves, and ends its calls when it is stopped."""

    backend: Renderer
    pod_s: float
    address: str = ""
    is_ready: bool = False
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    seen_s: float = 0.0

    async def live(self) -> None:
        """Serve until it is stopped."""
        speed = self.backend.speed
        queue = InferenceQueue("video", self.backend.model, WAITING_MAX)
        studio = Studio(self.backend, 4)
        backend, wheel = self.backend, emotions.load()
        servicer = VideoServicer(backend.model, backend, studio, queue, wheel, heartbeat_s=1.0)
        metrics.show_model(
            "video", backend.model, backend.model, backend.digest, wheel.digest, lambda: servicer.load().backlog_s
        )
        settings = ServiceSettings(
            host="127.0.0.1", port=0, metrics_port=0, shutdown_grace_s=renderer.DEADLINE_S / speed + 5
        )
        async with server.running(SERVICE, "video", settings) as running:
            self.address = f"ipv4:127.0.0.1:{running.port}"
            self.listening.set()
            try:
                await asyncio.wait_for(self.stopped.wait(), self.pod_s / speed)
            except TimeoutError:
                running.serve(
                    lambda to: video_pb2_grpc.add_VideoServiceServicer_to_server(servicer, to),
                    servicer.load,
                    servicer.model,
                )
                await running.set_ready()
                self.is_ready = True
                await self.stopped.wait()
        await asyncio.to_thread(queue.close)


class Fleet:
    """All pods, and the rule that scales them; None keeps those that there are at first."""

    def __init__(self, replicas: int, rule: Rule | None, speed: float, end_s: float, tally: Tally) -> None:
        self._first, self._speed, self._end_s, self._tally = replicas, speed, end_s, tally
        self._scaler = Autoscaler(rule) if rule else None
        self._pods: list[Pod] = []
        self._stopping: list[Pod] = []
        self._lives: list[asyncio.Task[None]] = []
        self._began_s = time.monotonic()
        self._scraped: Mapping[str, float | None] = {}
        self._refusals: deque[float] = deque(maxlen=round(REFUSALS_OVER_S / SYNC_S) + 1)

    @property
    def now_s(self) -> float:
        """The time of the day."""
        return (time.monotonic() - self._began_s) * self._speed

    async def resolve(self, _: str) -> list[str]:
        """Return the addresses of all pods that listen, as DNS does for the chart's Service."""
        return [pod.address for pod in self._pods if pod.address]

    async def start(self) -> None:
        """Start the first pods; they have loaded their models."""
        for _ in range(self._first):
            self._add(pod_s=0.0)
        await asyncio.gather(*(pod.listening.wait() for pod in self._pods))

    async def scale(self, begun: Callable[[], None]) -> None:
        """Count and scale the pods at each sync until the end of the day."""
        self._began_s = time.monotonic()
        begun()
        sync_s = 0.0
        while sync_s <= self._end_s:
            await asyncio.sleep(max(0.0, (sync_s - self.now_s) / self._speed))
            self._tally.lag_s = max(self._tally.lag_s, self.now_s - sync_s)
            wanted, ready = len(self._pods), sum(pod.is_ready for pod in self._pods)
            scraped, self._scraped = self._scraped, self._metrics()
            if self._scaler:
                replicas = self._scaler.replicas(sync_s, wanted, Pods(wanted, ready), scraped)
                for _ in range(replicas - wanted):
                    self._add(renderer.POD_S)
                for _ in range(wanted - replicas):
                    self._stop()
            self._tally.replicas.append((sync_s, len(self._pods), sum(pod.is_ready for pod in self._pods)))
            sync_s += SYNC_S

    async def stop(self) -> None:
        """Stop all pods."""
        while self._pods:
            self._stop()
        await asyncio.gather(*self._lives)

    def _add(self, pod_s: float) -> None:
        pod = Pod(Renderer(f"replica {len(self._lives)}", self._speed), pod_s)
        self._pods.append(pod)
        self._lives.append(asyncio.create_task(self._live(pod)))

    async def _live(self, pod: Pod) -> None:
        began_s = self.now_s
        await pod.live()
        if pod in self._stopping:
            self._stopping.remove(pod)
        self._tally.gpu_s += min(self.now_s, self._end_s) - began_s
        self._tally.busy_s += pod.backend.busy_s
        for tier, count in pod.backend.tiers.items():
            self._tally.tiers[tier] = self._tally.tiers.get(tier, 0) + count

    def _stop(self) -> None:
        """Stop the youngest pod, as a Deployment does."""
        pod = self._pods.pop()
        self._stopping.append(pod)
        pod.is_ready = False
        pod.stopped.set()

    def _metrics(self) -> Mapping[str, float | None]:
        """Return what Prometheus would tell: the services' own metrics, and the share of the renderers that is busy."""
        here = {pod.backend.model for pod in [*self._pods, *self._stopping]}
        backlog_s = refusals = 0.0
        for family in REGISTRY.collect():
            for sample in family.samples:
                if sample.name == "e3rg_backlog_seconds" and sample.labels["model"] in here:
                    backlog_s += sample.value
                elif sample.name == "e3rg_refusals_total" and sample.labels["stage"] == "video":
                    refusals += sample.value
        self._refusals.append(refusals)
        self._tally.refusals += round(refusals - (self._refusals[-2] if len(self._refusals) > 1 else refusals))
        done_s, serving = 0.0, [pod for pod in self._pods if pod.is_ready]
        for pod in serving:
            done_s += pod.backend.busy_s - pod.seen_s
            pod.seen_s = pod.backend.busy_s
        return {
            "e3rg_backlog_seconds": backlog_s * self._speed,
            "e3rg_refusals_per_second": (refusals - self._refusals[0]) / REFUSALS_OVER_S,
            "cpu": done_s / SYNC_S / len(serving) if serving else None,
        }
