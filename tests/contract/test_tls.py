"""TLS of servers and channels, with a certificate authority of the test's own."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import ValidationError

from client import Client, ClientError, command
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from services.common import clients, server
from services.common.replicas import RESOLVE_S
from services.common.settings import ServiceSettings
from services.common.tls import TlsFiles
from tests.fakes import PATIENCE_S
from tests.ports import HeldPort
from tests.serving import loopback, plain_channel, refused

OPTIONS = clients.CallOptions(timeout=PATIENCE_S, metadata=())
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
CUT_OFF = b"-----BEGIN CERTIFICATE-----\nMIIB"


class Authority:
    """A certificate authority, and the files of one certificate of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.authority = trustme.CA()
        self.ca, self.certificate, self.key = (folder / f"{name}.{kind}.pem" for kind in ("ca", "crt", "key"))
        self.authority.cert_pem.write_to_path(self.ca)
        self.issue(self.certificate, self.key)

    def issue(self, certificate: Path, key: Path, *names: str) -> None:
        issued = self.authority.issue_cert(*(names or ("127.0.0.1", "localhost")))
        issued.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))

    def settings(self, **fields: Any) -> ServiceSettings:
        return loopback(tls_certificate_file=self.certificate, tls_key_file=self.key, **fields)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "theirs")


async def answer(request: bytes, context: Any) -> bytes:
    return b"answer"


def register(to: Any) -> None:
    handlers = {"Ask": grpc.unary_unary_rpc_method_handler(answer, bytes, bytes)}
    to.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x", handlers),))


def gateway(to: Any) -> None:
    async def status(request: bytes, context: Any) -> bytes:
        return pb.GetStatusResponse(services=[pb.ServiceStatus(name="orchestrator")]).SerializeToString()

    handlers = {"GetStatus": grpc.unary_unary_rpc_method_handler(status, bytes, bytes)}
    name = pb.DESCRIPTOR.services_by_name["OrchestratorService"].full_name
    to.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))


async def serving(stack: AsyncExitStack, settings: ServiceSettings) -> server.Running:
    running = await stack.enter_async_context(server.running("x", "test", settings))
    running.serve(register)
    await running.set_ready()
    return running


async def ask(stack: AsyncExitStack, running: server.Running, caller: ServiceSettings) -> bytes:
    target = f"127.0.0.1:{running.port}"
    channel = await stack.enter_async_context(clients.open_channel(target, "x", caller.channel_tls))
    found: bytes = await channel.unary_unary("/x/Ask")(b"", **OPTIONS)
    return found


async def test_a_caller_that_trusts_the_authority_is_served(stack: AsyncExitStack, ours: Authority) -> None:
    running = await serving(stack, ours.settings())
    assert await ask(stack, running, loopback(tls_ca_file=ours.ca)) == b"answer"


async def test_a_server_of_another_authority_is_refused(
    stack: AsyncExitStack, ours: Authority, theirs: Authority
) -> None:
    running = await serving(stack, ours.settings())
    with refused(UNAVAILABLE, "CERTIFICATE_VERIFY_FAILED"):
        await ask(stack, running, loopback(tls_ca_file=theirs.ca))


async def test_a_server_whose_certificate_is_for_another_name_is_refused(
    stack: AsyncExitStack, ours: Authority
) -> None:
    ours.issue(ours.certificate, ours.key, "localhost")
    running = await serving(stack, ours.settings())
    with refused(UNAVAILABLE):
        await ask(stack, running, loopback(tls_ca_file=ours.ca))


async def test_plaintext_is_not_served_beside_tls(stack: AsyncExitStack, ours: Authority) -> None:
    running = await serving(stack, ours.settings())
    with refused(UNAVAILABLE):
        await ask(stack, running, loopback())


async def test_with_client_authorities_only_callers_with_a_certificate_of_theirs_are_served(
    stack: AsyncExitStack, ours: Authority, theirs: Authority
) -> None:
    running = await serving(stack, ours.settings(tls_client_ca_file=ours.ca))
    assert await ask(stack, running, ours.settings(tls_ca_file=ours.ca)) == b"answer"
    for stranger in (theirs.settings(tls_ca_file=ours.ca), loopback(tls_ca_file=ours.ca)):
        with refused(UNAVAILABLE):
            await ask(stack, running, stranger)


async def test_files_that_change_are_read_again_by_server_and_channel(
    stack: AsyncExitStack, ours: Authority, theirs: Authority
) -> None:
    running = await serving(stack, ours.settings(tls_client_ca_file=ours.ca))
    caller = ours.settings(tls_ca_file=ours.ca)
    target = f"127.0.0.1:{running.port}"
    channel = await stack.enter_async_context(clients.open_channel(target, "x", caller.channel_tls))
    await channel.channel_ready()
    (first,) = channel.replicas.ready
    # Another authority for everything: what the channel has open goes on, and is opened anew.
    theirs.issue(ours.certificate, ours.key)
    ours.ca.write_bytes(theirs.ca.read_bytes())
    async with asyncio.timeout(RESOLVE_S + PATIENCE_S):
        while channel.replicas.ready in ([], [first]):
            await channel.replicas.changed()
    assert await channel.unary_unary("/x/Ask")(b"", **OPTIONS) == b"answer"
    assert await ask(stack, running, theirs.settings(tls_ca_file=theirs.ca)) == b"answer"


async def test_a_key_without_its_certificate_leaves_the_last_pair_in_use(
    stack: AsyncExitStack, ours: Authority
) -> None:
    running = await serving(stack, ours.settings())
    ours.authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(ours.key)
    assert await ask(stack, running, loopback(tls_ca_file=ours.ca)) == b"answer"


async def test_a_key_without_its_certificate_ends_a_start(ours: Authority) -> None:
    ours.authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(ours.key)
    with pytest.raises(ValueError, match=r"ours\.crt\.pem and .*ours\.key\.pem do not fit together"):
        async with server.running("x", "test", ours.settings()):
            pass


@pytest.mark.parametrize("content", [b"", b"no certificate", CUT_OFF])
async def test_authorities_that_are_none_leave_the_last_ones_in_use(
    stack: AsyncExitStack, ours: Authority, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "kept.pem"
    kept.write_bytes(ours.ca.read_bytes())
    running = await serving(stack, ours.settings(tls_client_ca_file=ours.ca))
    ours.ca.write_bytes(content)
    assert await ask(stack, running, ours.settings(tls_ca_file=kept)) == b"answer"
    told = {vars(record)["why"] for record in caplog.records if record.name == "services.common.tls"}
    assert told == {f"{ours.ca} holds no certificate; write one in PEM"}


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff\x00", CUT_OFF])
@pytest.mark.parametrize(
    ("kind", "lacking"), [("ca", "certificate"), ("certificate", "certificate"), ("key", "private key")]
)
async def test_a_file_without_what_it_is_for_ends_a_start(
    ours: Authority, kind: str, lacking: str, content: bytes
) -> None:
    file = getattr(ours, kind)
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{file} holds no {lacking}; write one in PEM$"):
        async with server.running("x", "test", ours.settings(tls_client_ca_file=ours.ca)):
            pass


def test_comments_of_authorities_may_be_in_any_script(ours: Authority) -> None:
    ours.ca.write_bytes("# Főtanúsítvány\n".encode() + ours.ca.read_bytes())
    assert TlsFiles(ours.ca).read() == (None, None, ours.ca.read_bytes())


async def test_an_encrypted_key_ends_a_start_and_asks_nobody(ours: Authority) -> None:
    key = serialization.load_pem_private_key(ours.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"pass phrase")
    form = serialization.PrivateFormat.PKCS8
    ours.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    with pytest.raises(ValueError, match=f"^{ours.key} is encrypted; write the private key without a pass phrase$"):
        async with server.running("x", "test", ours.settings()):
            pass


async def test_the_client_reaches_a_gateway_by_tls_and_no_other(
    stack: AsyncExitStack, ours: Authority, theirs: Authority
) -> None:
    running = await stack.enter_async_context(server.running("x", "test", ours.settings()))
    running.serve(gateway)

    def status(authority: Authority) -> list[pb.ServiceStatus]:
        with Client(f"localhost:{running.port}", ca_file=authority.ca) as client:
            return client.status()

    assert [each.name for each in await asyncio.to_thread(status, ours)] == ["orchestrator"]
    with pytest.raises(ClientError, match=r"UNAVAILABLE: .*CERTIFICATE_VERIFY_FAILED"):
        await asyncio.to_thread(status, theirs)


async def complaint(capsys: pytest.CaptureFixture[str], address: str, *words: str | Path) -> str:
    """Run `e3rg status`, which has to fail; return what it says."""
    assert await asyncio.to_thread(command.main, ["--address", address, *map(str, words), "status"]) == 1
    return capsys.readouterr().err.splitlines()[-1]


async def test_the_command_names_the_files_that_a_deployment_asks_for(
    stack: AsyncExitStack, ours: Authority, theirs: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    running = await stack.enter_async_context(server.running("x", "test", ours.settings(tls_client_ca_file=ours.ca)))
    running.serve(gateway)
    address = f"127.0.0.1:{running.port}"
    assert (await complaint(capsys, address)).endswith(
        "; if the deployment speaks TLS, name its authority by --ca or E3RG_CA_FILE"
    )
    assert (await complaint(capsys, address, "--ca", theirs.ca)).endswith(
        f"; {theirs.ca} does not certify this deployment: name its authority by --ca or E3RG_CA_FILE"
    )
    assert (await complaint(capsys, address, "--ca", ours.ca)).endswith(
        "; if the deployment demands a certificate, name yours by --certificate and --key"
    )
    others = ("--ca", ours.ca, "--certificate", theirs.certificate, "--key", theirs.key)
    assert (await complaint(capsys, address, *others)).endswith(
        f"; if the deployment demands a certificate, it may not accept {theirs.certificate}"
    )
    shown = ["--ca", ours.ca, "--certificate", ours.certificate, "--key", ours.key]
    assert await asyncio.to_thread(command.main, ["--address", address, *map(str, shown), "status"]) == 1
    assert "NOT READY" in capsys.readouterr().out  # It is answered, by a gateway that has no more to say.


async def test_nobody_is_told_of_tls_where_nobody_listens(ours: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    with HeldPort() as port:
        said = await complaint(capsys, f"127.0.0.1:{port.number}")
    assert said.startswith("e3rg: UNAVAILABLE: ")
    assert "TLS" not in said


def test_half_of_a_clients_files_are_refused(ours: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    for words, problem in (
        (["--certificate", ours.certificate], "certificate and key go together; give both or none"),
        (
            ["--certificate", ours.certificate, "--key", ours.key],
            f"the certificate {ours.certificate} is shown by TLS only; give the authority (ca) too",
        ),
        (["--ca", ours.key], f"{ours.key} holds no certificate; name the authority's, in PEM"),
        (
            ["--ca", ours.ca, "--certificate", ours.certificate, "--key", ours.ca],
            f"{ours.certificate} and {ours.ca} are no certificate and its private key; give both in PEM",
        ),
    ):
        with pytest.raises(SystemExit) as ended:
            command.main([*map(str, words), "status"])
        assert ended.value.code == 2
        assert capsys.readouterr().err.endswith(f"e3rg: error: {problem}\n")


async def test_probes_without_tls_have_a_port_with_nothing_but_health(stack: AsyncExitStack, ours: Authority) -> None:
    with HeldPort() as port:
        running = await serving(stack, ours.settings(health_port=port.number))
        channel = await stack.enter_async_context(plain_channel(f"127.0.0.1:{port.number}"))
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", server.READINESS):
            found = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=PATIENCE_S)
            assert found.status == health_pb2.HealthCheckResponse.SERVING, name
        await running.set_ready(False)
        red = await stub.Check(health_pb2.HealthCheckRequest(service=server.READINESS), timeout=PATIENCE_S)
        assert red.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            asking: Any = channel.unary_unary("/x/Ask")
            await asking(b"", timeout=PATIENCE_S)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "gateway.example"])
def test_plaintext_for_others_has_to_be_asked_for(host: str, ours: Authority) -> None:
    with pytest.raises(ValidationError, match=f"host is {host}, which others can reach, and there is no TLS"):
        loopback(host=host)
    assert loopback(host=host, insecure=True).server_tls is None
    assert ours.settings(host=host).server_tls


def test_half_a_pair_is_refused(ours: Authority) -> None:
    with pytest.raises(ValidationError, match="tls_certificate_file and tls_key_file go together"):
        loopback(tls_certificate_file=ours.certificate)
    with pytest.raises(ValidationError, match="callers need TLS to show theirs"):
        loopback(tls_client_ca_file=ours.ca)
