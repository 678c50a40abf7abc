"""Guardrails and ramps that act by themselves: two gateways, their counts over real channels, one table."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme
from prometheus_client import REGISTRY

from e3rg.gateway.v1 import gateway_pb2 as pb
from e3rg.gateway.v1 import gateway_pb2_grpc
from orchestrator.variants import edits, ramps
from orchestrator.variants.counts import BUCKET_S, Counts, Ledger, Outcome, Span
from orchestrator.variants.peers import Peers
from orchestrator.variants.servicer import SPANS_MAX, GatewayServicer
from services.common import server
from services.common.errors import Conflict, InvalidRequest, NotReady
from services.common.tls import TlsFiles
from services.common.variants.files import TableFile
from services.common.variants.kubernetes import ConfigMapTable
from services.common.variants.overlay import parse_overlay
from services.common.variants.table import Guardrail, Stage, State, Table, Variant, dump, parse
from tests.guarded import BEGIN_S, SERVICE, Judge, judges
from tests.serving import loopback
from tests.support.kubernetes_api import KubernetesApi


def split(owner: str = "cli", guardrail: bool = True, b: float = 10) -> Table:
    stage = Stage(control="a", variants={"a": Variant(weight=100 - b), "b": Variant(weight=b)})
    guardrails = {"tts": Guardrail()} if guardrail else {}
    return Table.model_validate({"version": 1, "owner": owner, "stages": {"tts": stage}, "guardrails": guardrails})


def is_off(table: Table) -> bool:
    return table.stage("tts").variants["b"].state is State.OFF


def rollbacks(reason: str) -> float:
    labels = {"stage": "tts", "variant": "b", "reason": reason}
    return REGISTRY.get_sample_value("e3rg_variant_rollbacks_total", labels) or 0.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "variants.json"


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with KubernetesApi() as started:
        monkeypatch.setenv("KUBECONFIG", str(started.kubeconfig(tmp_path)))
        yield started


async def two(stack: AsyncExitStack, path: Path, table: Table, away: int = 0) -> list[Judge]:
    """Two gateways over a file."""
    path.write_text(dump(table), "utf-8")
    overlay = TableFile(path.with_name("overlay.json"))
    return await stack.enter_async_context(judges(TableFile(path), overlay, away=away))


async def test_a_variant_that_fails_a_little_in_each_gateway_is_taken_back_in_both(
    stack: AsyncExitStack, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = await two(stack, path, split())
    before = rollbacks("failed")
    for judge in (one, other):
        judge.serve("a", 250, failed=2)
        judge.serve("b", 25, failed=10)
    await other.guard.look()
    assert one.live.current.version == 1
    await one.guard.look()
    for judge in (one, other):
        table = await judge.has(is_off)
        assert table.stage("tts").variants["a"].weight == 100
    change = parse(path.read_text("utf-8")).history[-1]
    assert (change.by, change.at_s) == ("guardrail", BEGIN_S)
    assert "20 of 50 and 4 of 500 turns of 'b' and 'a'" in change.why
    assert rollbacks("failed") == before + 1
    assert one.warnings == [f"tts b: {change.why}"]
    (told,) = (each for each in caplog.records if each.levelno == logging.ERROR)
    assert vars(told)["why"] == change.why
    await one.guard.look()
    assert (rollbacks("failed"), len(one.warnings), one.live.current.version) == (before + 1, 1, 2)


async def test_neither_gateway_alone_has_turns_enough(stack: AsyncExitStack, path: Path) -> None:
    one, other = await two(stack, path, split())
    other.serve("a", 500)
    one.serve("b", 25, failed=25)
    await one.guard.look()
    assert not is_off(one.live.current)
    other.serve("b", 5, failed=5)
    await one.guard.look()
    assert is_off(one.live.current)


async def test_a_gateway_that_does_not_answer_is_left_out(
    stack: AsyncExitStack, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = await two(stack, path, split(), away=1)
    other.serve("a", 500)
    other.serve("b", 50, first_s=2)
    await one.guard.look()
    await one.guard.look()
    assert is_off(one.live.current)
    assert [each.message for each in caplog.records if "does not tell its counts" in each.message] == [
        "a gateway does not tell its counts; its turns are not judged"
    ]


async def test_turns_before_the_window_do_not_count(stack: AsyncExitStack, path: Path) -> None:
    one, _ = await two(stack, path, split())
    one.serve("a", 500)
    one.serve("b", 100, failed=100)
    one.clock.now_s += Guardrail().window_s + 2 * BUCKET_S
    one.serve("a", 500)
    one.serve("b", 100)
    await one.guard.look()
    assert not is_off(one.live.current)


async def test_a_variant_that_was_taken_back_is_judged_anew_when_it_serves_again(
    stack: AsyncExitStack, path: Path
) -> None:
    one, other = await two(stack, path, split())
    for judge in (one, other):
        await stack.enter_async_context(judge.guard.running())
    other.serve("a", 500)
    other.serve("b", 100, failed=100)
    await one.guard.look()
    await other.has(is_off)
    other.serve("b", 100, failed=100)  # Turns that began before.
    path.write_text(dump(split().model_copy(update={"version": 9})), "utf-8")
    for judge in (one, other):
        await judge.has(lambda table: table.version == 9)
    await one.guard.look()
    assert not is_off(one.live.current)


async def test_late_turns_of_a_variant_that_is_off_do_not_count(stack: AsyncExitStack, path: Path) -> None:
    table = split()
    stage = table.stage("tts")
    off = {"b": stage.variants["b"].model_copy(update={"state": State.OFF, "weight": 0.0})}
    off["a"] = stage.variants["a"].model_copy(update={"weight": 100.0})
    stages = {"tts": stage.model_copy(update={"variants": off})}
    one, _ = await two(stack, path, table.model_copy(update={"stages": stages}))
    one.serve("a", 500)
    one.serve("b", 100, failed=100)
    path.write_text(dump(table.model_copy(update={"version": 9})), "utf-8")
    await one.has(lambda table: table.version == 9)
    await one.guard.look()
    assert not is_off(one.live.current)


async def test_a_rollback_lies_over_the_chart_s_values(stack: AsyncExitStack, path: Path) -> None:
    one, other = await two(stack, path, split("helm"))
    before = rollbacks("first_chunk")
    other.serve("a", 500)
    other.serve("b", 50, first_s=2)
    await one.guard.look()
    for judge in (one, other):
        await judge.has(is_off)
    assert parse(path.read_text("utf-8")) == split("helm")
    (over,) = parse_overlay(path.with_name("overlay.json").read_text("utf-8")).rolled_back
    assert (over.stage, over.variant, over.at_s) == ("tts", "b", BEGIN_S)
    assert over.reason.startswith("first chunk: 95th percentile 2.")
    await one.guard.look()
    assert (rollbacks("first_chunk"), len(one.warnings)) == (before + 1, 1)


async def test_a_variant_that_fails_after_its_promotion_gives_way_to_the_control_before(
    stack: AsyncExitStack, path: Path
) -> None:
    now = edits.made(split(), lambda table: edits.promote(table, "tts", "b"), edits.Author("ada", "", BEGIN_S))
    one, _ = await two(stack, path, now)
    one.clock.now_s = BEGIN_S - 60
    one.serve("a", 500, failed=5)
    one.clock.now_s = BEGIN_S + 60
    one.serve("b", 100, failed=30)
    await one.guard.look()
    after = one.live.current.stage("tts")
    assert (after.control, after.variants["a"].weight, is_off(one.live.current)) == ("a", 100, True)


async def test_a_ramp_waits_for_time_and_turns_steps_and_ends(stack: AsyncExitStack, path: Path) -> None:
    table = ramps.start(split(b=0), "tts", "b", (10, 50, 100), every_s=600, at_s=BEGIN_S, turns_min=40)
    one, other = await two(stack, path, table)

    def now() -> tuple[float, bool]:
        return one.live.current.stage("tts").variants["b"].weight, one.live.current.ramp is not None

    one.serve("b", 40)
    await one.guard.look()
    assert now() == (10, True)  # It is not time.
    one.clock.now_s = BEGIN_S + 600
    await one.guard.look()
    assert now() == (50, True)
    change = parse(path.read_text("utf-8")).history[-1]
    assert (change.by, change.why) == ("ramp", "40 turns of 'b' in this step, and no limit was passed")
    one.clock.now_s += 600
    other.serve("b", 39)
    await one.guard.look()
    assert now() == (50, True)  # The turns of the step before count no more.
    one.serve("b", 1)
    await other.guard.look()
    assert now() == (50, True)  # That one is not elected.
    await one.guard.look()
    assert now() == (100, False)
    one.clock.now_s += 6000
    await one.guard.look()
    assert one.live.current.version == 3


async def test_a_step_of_a_ramp_does_not_overrun_a_change_made_meanwhile(stack: AsyncExitStack, path: Path) -> None:
    table = ramps.start(split(b=0), "tts", "b", (10, 50), every_s=60, at_s=BEGIN_S, turns_min=1)
    one, _ = await two(stack, path, table)
    one.clock.now_s += 60
    one.serve("b", 1)

    def change() -> None:
        path.write_text(dump(table.model_copy(update={"version": table.version + 1})), "utf-8")

    one.meanwhile = change
    with pytest.raises(Conflict):
        await one.guard.look()
    changed = await one.has(lambda found: found.version == table.version + 1)
    assert changed.stage("tts").variants["b"].weight == 10


async def test_a_ramp_whose_variant_passes_a_limit_ends_with_a_rollback(stack: AsyncExitStack, path: Path) -> None:
    table = ramps.start(split(b=0), "tts", "b", (10, 50), every_s=60, at_s=BEGIN_S, turns_min=1)
    one, _ = await two(stack, path, table)
    one.clock.now_s += 60
    one.serve("a", 500)
    one.serve("b", 50, failed=50)
    await one.guard.look()
    assert (is_off(one.live.current), one.live.current.ramp) == (True, None)


async def test_a_ramp_in_the_chart_s_values_takes_no_step(stack: AsyncExitStack, path: Path) -> None:
    table = ramps.start(split("helm", b=0), "tts", "b", (10, 50), every_s=60, at_s=BEGIN_S, turns_min=0)
    one, _ = await two(stack, path, table)
    one.clock.now_s += 600
    await one.guard.look()
    assert one.live.current.stage("tts").variants["b"].weight == 10


async def test_the_elected_one_alone_shows_what_the_guardrail_sees(stack: AsyncExitStack, path: Path) -> None:
    one, other = await two(stack, path, split())
    one.serve("a", 100, failed=1)
    other.serve("b", 20, failed=1, first_s=0.5)
    await one.guard.look()

    def seen(name: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(name, {"stage": "tts", **labels})

    assert seen("e3rg_variant_share", variant="b", outcome="failed") == 0.05
    assert seen("e3rg_variant_share", variant="a", outcome="failed") == 0.01
    assert seen("e3rg_variant_first_chunk_p95_seconds", variant="b") == pytest.approx(0.5, rel=0.05)
    assert seen("e3rg_variant_rollbacks_total", variant="b", reason="degraded") == 0
    await other.guard.look()
    assert seen("e3rg_variant_share", variant="b", outcome="failed") is None


async def test_while_the_api_is_away_nothing_is_lost_and_the_rollback_comes_after(
    stack: AsyncExitStack, api: KubernetesApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.set(variants_json=dump(split()))
    source, overlay = (ConfigMapTable(api.name, key) for key in ("variants.json", "overlay.json"))
    one, other = await stack.enter_async_context(judges(source, overlay))
    other.serve("a", 500)
    other.serve("b", 50, failed=25)
    api.go_away()
    for _ in range(2):
        with pytest.raises(NotReady, match="cannot be read"):
            await one.guard.look()
    assert not is_off(one.live.current)
    api.come()
    one.problem = "403 Forbidden"
    await one.guard.look()
    for judge in (one, other):
        await judge.has(is_off)
    assert parse(api.data()["variants.json"]).history[-1].by == "guardrail"
    assert "no Event tells of the rollback" in [each.message for each in caplog.records]


async def test_the_counts_of_a_gateway_are_those_that_others_are_told() -> None:
    ledger = Ledger(lambda: BEGIN_S)
    ledger.add([Outcome("tts", "b", degraded=True, first_s=0.5), Outcome("tts", "b", failed=True)])
    asked = pb.Span(stage="tts", begin_s=BEGIN_S - 60, end_s=BEGIN_S)
    request = pb.GetVariantCountsRequest(spans=[asked, pb.Span(stage="video", begin_s=0, end_s=BEGIN_S)])
    answer = await GatewayServicer(ledger, "mine").GetVariantCounts(request, None)
    (told,) = answer.spans[0].variants
    assert (answer.gateway, told.variant, told.turns, told.failed, told.degraded) == ("mine", "b", 2, 1, 1)
    assert (sum(told.latencies.values()), len(answer.spans[1].variants)) == (1, 0)
    with pytest.raises(InvalidRequest, match="65"):
        await GatewayServicer(ledger, "mine").GetVariantCounts(
            pb.GetVariantCountsRequest(spans=[asked] * (SPANS_MAX + 1)), None
        )


async def test_a_gateway_without_peers_counts_its_own() -> None:
    ledger = Ledger(lambda: BEGIN_S)
    ledger.add([Outcome("tts", "b")])
    span = Span("tts", BEGIN_S, BEGIN_S)
    assert (await Peers(ledger, "mine").counts([span]))[span]["b"].turns == 1


async def test_peers_that_cannot_be_looked_up_leave_its_own_counts() -> None:
    ledger = Ledger(lambda: BEGIN_S)
    ledger.add([Outcome("tts", "b")])
    span = Span("tts", BEGIN_S, BEGIN_S)
    assert (await Peers(ledger, "mine", "gateways.invalid:50051").counts([span]))[span]["b"].turns == 1


async def test_gateways_with_tls_tell_each_other_their_counts(tmp_path: Path) -> None:
    authority, ledger = trustme.CA(), Ledger(lambda: BEGIN_S)
    ca, certificate, key = (tmp_path / name for name in ("ca.pem", "certificate.pem", "key.pem"))
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(ca)
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(certificate)
    ledger.add([Outcome("tts", "b")])
    settings = loopback(tls_certificate_file=certificate, tls_key_file=key)
    span = Span("tts", BEGIN_S, BEGIN_S)
    async with server.running(SERVICE, "orchestrator", settings) as running:
        servicer = GatewayServicer(ledger, "other")
        running.serve(lambda to: gateway_pb2_grpc.add_GatewayServiceServicer_to_server(servicer, to))
        target = f"ipv4:127.0.0.1:{running.port}"
        for tls, turns in ((TlsFiles(ca), 1), (None, 0)):
            found = await Peers(Ledger(lambda: BEGIN_S), "mine", target, tls).counts([span])
            assert found[span].get("b", Counts()).turns == turns
