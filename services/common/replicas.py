"""Replicas of a service: found by name, watched one by one, chosen by the least predicted wait.

gRPC's own policies resolve a name anew only when a connection breaks, so a replica that is added is never found, and
know of no load. Here the name is resolved every few seconds, and each replica reports over a channel of its own.
"""

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from e3rg.replica.v1 import replica_pb2 as pb
from e3rg.replica.v1 import replica_pb2_grpc
from services.common import metrics
from services.common.errors import NotReady
from services.common.replica import CONNECTING, Choice, Replica
from services.common.streams import ticking
from services.common.targets import resolved, split

RESOLVE_S = 2.0
"""Time between two looks at the name. Replicas are listed before they are ready, so this delays none."""
SILENT_S = 3.0
"""A replica that reports nothing for so long is left, though it reports every second. Callers wait longer than this."""
RETRY_S_MIN, RETRY_S_MAX = 0.1, 1.0
"""Wait before a replica that was lost is connected to again."""
LOOKED_UP = 2
"""Replicas that are compared for a call: of two at random the better one balances nearly as well as the best of all."""

COLD_S = 0.05
"""A call may wait so much longer at the replica that served its conversation before, which need not unpack what was
derived from the identity: 0.07 s for a portrait's rig, less for a voice."""


Model = TypeVar("Model", bound=Message)


class Replicas:
    """Replicas behind one target. Call it on a running event loop.

    Args:
        name: Name of the service, for errors and metrics.
        target: `host:port` or `dns:///host:port`, resolved again and again; or `ipv4:` with addresses, by commas.
        connect: Opens a channel to the target `ipv4:…` of one replica.
        version: Tells a value that changes when all channels have to be opened anew, as with other certificates.
        resolve: Resolves `host:port` to targets of gRPC; raises OSError.
    """

    def __init__(
        self,
        name: str,
        target: str,
        connect: Callable[[str], grpc.aio.Channel],
        version: Callable[[], object] = lambda: None,
        resolve: Callable[[str], Awaitable[Iterable[str]]] | None = None,
    ) -> None:
        self.name, self.target = name, target
        self._connect, self._version, self._resolve = connect, version, resolve or resolved
        self._scheme, self._rest = split(target)
        self._known: dict[str, Replica] = {}
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._opened = version()
        self._problem = "it is being looked up"
        self._news = asyncio.Event()
        if self._scheme != "dns":
            self._found(f"{self._scheme}:{each}" for each in self._rest.split(","))
        self._looking = asyncio.create_task(self._look())

    @property
    def ready(self) -> list[Replica]:
        """Replicas that take calls."""
        return [replica for replica in self._known.values() if not replica.problem]

    @property
    def known(self) -> int:
        """Number of replicas that the name lists."""
        return len(self._known)

    @property
    def problem(self) -> str:
        """Why no replica takes calls, by one of them; empty when one does."""
        if self.ready:
            return ""
        return next(
            (each.problem for each in self._known.values()), f"no replica is known at {self.target}: {self._problem}"
        )

    def models(self, kind: type[Model]) -> list[Model]:
        """Return what the replicas that take calls said of their models, one for each that said something."""
        told = [(kind(), replica.model) for replica in self.ready if replica.model is not None]
        return [model for model, packed in told if packed.Unpack(model)]

    def strange(self, kind: type[Message]) -> str:
        """Return why this is no service that tells its models as `kind`; empty where nothing says so."""
        told = {_service(replica.model.TypeName()) for replica in self.ready if replica.model is not None}
        wanted = _service(kind.DESCRIPTOR.full_name)
        return f"{min(told)} answers at {self.target}; name an address of {wanted}" if told - {wanted} else ""

    def choose(self, choice: Choice, near: str = "") -> Replica:
        """Return the replica for a call, and note it in `choice`.

        Args:
            choice: Wish.
            near: Key of calls that should meet the same replica, where that waits at most `COLD_S` longer.

        Raises:
            NotReady: The name lists none.
        """
        if not self._known:
            raise NotReady(f"no replica is known at {self.target}: {self._problem}")
        replicas = list(self._known.values())
        fresh = [each for each in replicas if each.address not in choice.avoided]
        groups = (
            [each for each in fresh if not each.problem],
            [each for each in fresh if each.problem is CONNECTING],
            [each for each in replicas if not each.problem],
            fresh,
            replicas,
        )
        found = next(group for group in groups if group)
        some = found if choice.is_exact else random.sample(found, min(LOOKED_UP, len(found)))
        best = min(some, key=lambda each: (each.rank, random.random()))
        if near and not choice.is_exact:
            home = max(found, key=lambda each: hashlib.sha256(f"{near} {each.address}".encode()).digest())
            best = home if home.wait_s <= best.wait_s + COLD_S else best
        choice.replica = best
        return best

    def has_other(self, avoided: set[str]) -> bool:
        """Tell whether a replica takes calls that is none of these."""
        return any(each.address not in avoided for each in self.ready)

    async def wait_ready(self, count: int = 1) -> None:
        """Wait until so many replicas take calls."""
        while len(self.ready) < count:
            await self.changed()

    async def changed(self) -> None:
        """Wait for the next report, or the next replica that is found or lost."""
        await self._news.wait()

    async def close(self) -> None:
        """Close all channels."""
        tasks = [self._looking, *self._watching.values(), *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for replica in self._known.values():
            await replica.channel.close()
        self._known.clear()

    async def _look(self) -> None:
        """Resolve the name again and again, and open channels anew when they are outdated."""
        while True:
            if self._scheme == "dns":
                try:
                    self._found(await self._resolve(self._rest))
                except OSError as error:  # What is known goes on serving.
                    self._problem = f"{self._rest} cannot be resolved ({error})"
            if (version := self._version()) != self._opened:
                self._opened = version
                for address in [*self._known]:
                    self._leave(address)
                    self._enter(address)
            await asyncio.sleep(RESOLVE_S)

    def _found(self, addresses: Iterable[str]) -> None:
        now = set(addresses)
        self._problem = "the name lists none"
        for address in self._known.keys() - now:
            self._leave(address)
        for address in now - self._known.keys():
            self._enter(address)
        self._tell()

    def _enter(self, address: str) -> None:
        replica = self._known[address] = Replica(address, self._connect(address))
        self._watching[address] = asyncio.create_task(self._watch(replica))

    def _leave(self, address: str) -> None:
        """Choose a replica no more, and close its channel when its last call has ended."""
        replica, watching = self._known.pop(address), self._watching.pop(address)
        watching.cancel()

        async def leave() -> None:
            try:
                await replica.idle()
            finally:
                await replica.channel.close()

        task = asyncio.create_task(leave())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _watch(self, replica: Replica) -> None:
        retry_s = RETRY_S_MIN
        while True:
            replica.model = None  # What answers now may be another process.
            stub: Any = replica_pb2_grpc.ReplicaServiceStub(replica.channel)
            call = stub.WatchReplica(pb.WatchReplicaRequest())
            try:
                async with aclosing(ticking(_reports(call), SILENT_S)) as reports:
                    async for told in reports:
                        if told is None:
                            replica.problem = f"it has reported nothing for {SILENT_S:g} s"
                            if self.has_other({replica.address}):
                                replica.abandon()
                        else:
                            replica.heard(told)
                            retry_s = RETRY_S_MIN
                        self._tell()
                replica.problem = "it stops"
            except grpc.aio.AioRpcError as error:
                # A release without this RPC is as good as idle.
                is_older = error.code() is grpc.StatusCode.UNIMPLEMENTED
                replica.problem = "" if is_older else error.details() or error.code().name
            self._tell()
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_S_MAX)

    def _tell(self) -> None:
        metrics.REPLICAS.labels(self.name, "known").set(len(self._known))
        metrics.REPLICAS.labels(self.name, "ready").set(len(self.ready))
        self._news.set()
        self._news = asyncio.Event()


async def _reports(
    call: "grpc.aio.UnaryStreamCall[pb.WatchReplicaRequest, pb.WatchReplicaResponse]",
) -> AsyncGenerator[pb.WatchReplicaResponse]:
    try:
        async for told in call:
            yield told
    finally:
        call.cancel()


def _service(message: str) -> str:
    """Return the service to which a message of this full name belongs, as "tts" for "e3rg.tts.v1.GetModelResponse"."""
    return message.split(".")[1]
