"""Makes one turn through the gateway, with voice and face, and prints what came."""

import os
import sys
from pathlib import Path

import grpc

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc

address, folder = os.environ["ADDRESS"], Path("/tls")
if folder.is_dir():
    authority, key, certificate = ((folder / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt"))
    channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(authority, key, certificate))
else:
    channel = grpc.insecure_channel(address)
header = pb.RespondHeader(tenant="default", text="I passed my driving test today!", identity="anna")
stub = orchestrator_pb2_grpc.OrchestratorServiceStub(channel)
sizes = {"audio": 0, "video": 0}
sentences: list[str] = []
dropped: list[str] = []
for event in stub.Respond(iter([pb.RespondRequest(header=header)]), timeout=110, wait_for_ready=True):
    kind = event.WhichOneof("event")
    if kind == "text":
        sentences.append(event.text.sentence)
    elif kind == "audio":
        sizes["audio"] += len(event.audio.samples)
    elif kind == "video":
        sizes["video"] += len(event.video.content)
    elif kind == "degraded":
        dropped.append(f"{event.degraded.stage}: {event.degraded.dropped}")
print(" ".join(sentences))
print(f"{sizes['audio']} bytes of sound, {sizes['video']} bytes of video; without: {', '.join(dropped) or 'nothing'}")
sys.exit(not (sentences and all(sizes.values())))
