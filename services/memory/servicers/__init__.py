"""The memory on the wire: a servicer for each service of its contract."""

import grpc

from e3rg.memory.v1 import (
    erasure_pb2_grpc,
    exemplars_pb2_grpc,
    identities_pb2_grpc,
    memory_pb2_grpc,
)
from emotions import Wheel
from services.memory.servicers.desk import Desk
from services.memory.servicers.erasure import ErasureServicer
from services.memory.servicers.exemplars import ExemplarServicer
from services.memory.servicers.identities import IdentityServicer
from services.memory.servicers.memory import MemoryServicer

SERVICES = tuple(
    f"e3rg.memory.v1.{name}" for name in ("MemoryService", "IdentityService", "ErasureService", "ExemplarService")
)
"""Full names of the services."""


def register(server: grpc.aio.Server, name: str, desk: Desk, wheel: Wheel) -> None:
    """Adds all servicers to a server.

    Args:
        server: Which.
        name: Name of the store's back-end.
        desk: Where calls come in.
        wheel: The emotion wheel.
    """
    memory_pb2_grpc.add_MemoryServiceServicer_to_server(MemoryServicer(name, desk, wheel), server)
    identities_pb2_grpc.add_IdentityServiceServicer_to_server(IdentityServicer(desk), server)
    erasure_pb2_grpc.add_ErasureServiceServicer_to_server(ErasureServicer(desk), server)
    exemplars_pb2_grpc.add_ExemplarServiceServicer_to_server(ExemplarServicer(desk), server)
