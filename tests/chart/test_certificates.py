"""The generated certificates, in the hands of gRPC."""

import base64
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tests.chart.conftest import PROFILES, Manifest, rendered


def _pem(secret: Manifest, key: str) -> bytes:
    return base64.b64decode(secret["data"][key])


def _asks(port: int, name: str, credentials: grpc.ChannelCredentials) -> health_pb2.HealthCheckResponse:
    options = [("grpc.ssl_target_name_override", name)]
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)


@pytest.mark.parametrize(("name", "other"), [("tts", "video"), ("tts-kokoro", "tts")])
def test_services_prove_who_they_are_to_each_other_and_nobody_else_gets_in(name: str, other: str) -> None:
    secrets = rendered(*PROFILES["variants"]).of("Secret")
    server_secret, client_secret = secrets[f"{name}-tls"], secrets["orchestrator-tls"]
    authority = _pem(server_secret, "ca.crt")
    pair = (_pem(server_secret, "tls.key"), _pem(server_secret, "tls.crt"))
    server = grpc.server(ThreadPoolExecutor(2))
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    demanding = grpc.ssl_server_credentials([pair], authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", demanding)
    server.start()
    try:
        mine = grpc.ssl_channel_credentials(authority, _pem(client_secret, "tls.key"), _pem(client_secret, "tls.crt"))
        assert _asks(port, f"e3rg-{name}", mine).status == health_pb2.HealthCheckResponse.SERVING
        assert _asks(port, f"e3rg-{name}.avatars.svc", mine).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError):  # the certificate is for another name
            _asks(port, f"e3rg-{other}", mine)
        with pytest.raises(grpc.RpcError):  # the caller shows none
            _asks(port, f"e3rg-{name}", grpc.ssl_channel_credentials(authority))
    finally:
        server.stop(None).wait()


def test_each_component_and_each_variant_has_a_key_of_its_own() -> None:
    release = rendered(*PROFILES["variants"])
    keys = [secret["data"]["tls.key"] for name, secret in release.of("Secret").items() if name.endswith("-tls")]
    assert len(set(keys)) == len(keys) == len(release.of("Deployment"))
