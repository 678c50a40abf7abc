"""Addresses of other services, as settings give them."""

import json

import pytest
from pydantic import ValidationError

from orchestrator.settings import OrchestratorSettings
from services.common.addresses import FORMS, parse
from services.understanding.settings import UnderstandingSettings

STAGES = ("understanding", "memory", "tts", "video")


@pytest.mark.parametrize(
    "address",
    [
        "tts:50051",
        "127.0.0.1:1",
        "localhost:65535",
        "my_tts-2.speech.svc.cluster.local.:50051",
        "dns:///e3rg-tts:50051",
        "dns:///127.0.0.1:50051",
        "dns:///[::1]:50051",
        "[::1]:50051",
        "[fe80::1%eth0]:50051",
        "ipv4:127.0.0.1:1",
        "ipv4:127.0.0.1:1,127.0.0.1:2",
        "ipv6:[::1]:1",
        "ipv6:[::1]:1,[2001:db8::7]:2",
        "unix:/run/tts.sock",
    ],
)
def test_an_address_is_taken_as_it_is(address: str) -> None:
    assert parse(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nonsense",
        "http://x:1",
        "http:x:1",
        "tts:",
        ":50051",
        "tts:50051 ",
        "tts:0",
        "tts:65536",
        "tts:-1",
        "tts:٣",
        "tts:50051/path",
        "me@tts:50051",
        "-.:1",
        "a..b:1",
        "127.0.0.1",
        "127.0.0:1",
        "127.0.0.256:1",
        "127.0.0.1:1,127.0.0.1:2",
        "::1:50051",
        "[127.0.0.1]:1",
        "[tts]:1",
        "dns:50051",
        "dns:tts:50051",
        "dns://tts:50051",
        "dns:///tts",
        "ipv4:",
        "ipv4:50051",
        "ipv4:tts:50051",
        "ipv4:127.0.0.1",
        "ipv4:127.0.0.1:1,",
        "ipv4:127.0.0.1:1, 127.0.0.1:2",
        "ipv4:127.0.0.1:65536",
        "ipv4:[::1]:1",
        "ipv6:127.0.0.1:1",
        "ipv6:::1:1",
        "unix:",
    ],
)
def test_what_is_no_address_is_refused_with_the_forms(address: str) -> None:
    with pytest.raises(ValueError, match="is no address") as refused:
        parse(address)
    assert str(refused.value) == f"{address!r} is no address; write {FORMS}, with a port from 1 to 65535"


@pytest.mark.parametrize("stage", STAGES)
def test_the_orchestrator_does_not_start_with_what_is_no_address(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"E3RG_ORCHESTRATOR_{stage.upper()}_ADDRESS", "nonsense")
    with pytest.raises(ValidationError, match=f"{stage}_address\n  Value error, 'nonsense' is no address; write host"):
        OrchestratorSettings()


def test_the_panel_does_not_start_with_what_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_UNDERSTANDING_VOTERS", json.dumps({"text": "text:50051", "lead": "http://lead:1"}))
    with pytest.raises(ValidationError, match=r"voters.lead\n  Value error, 'http://lead:1' is no address; write host"):
        UnderstandingSettings(writer="text", transcriber="text")
