"""Election of the gateway that acts by itself: by a Lease of a cluster over real sockets, or by a file."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from orchestrator.settings import OrchestratorSettings
from orchestrator.variants.election import ACTS_S, Election, FileLock, lock_of
from orchestrator.variants.lease import LEASE_S, LeaseLock, warn
from services.common.variants.files import TableFile
from tests.support.kubernetes_api import KubernetesApi

NAME = "e3rg-variants"


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class Candidate(Election):
    """A gateway with a clock of its own."""

    def __init__(self, identity: str, began_s: float = 0.0) -> None:
        self.clock = Clock(began_s)
        self.lock = LeaseLock(f"avatars/{NAME}", identity, self.clock)
        super().__init__(self.lock, self.clock)

    async def after(self, seconds: float) -> bool:
        """Try when so much more time has passed; return whether it is elected."""
        self.clock.now_s += seconds
        await self.attempt()
        return self.is_elected


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with KubernetesApi() as started:
        monkeypatch.setenv("KUBECONFIG", str(started.kubeconfig(tmp_path)))
        yield started


def holder(api: KubernetesApi) -> str:
    return str(api.leases[NAME]["spec"]["holderIdentity"])


async def test_one_of_two_is_elected_and_stays_so(api: KubernetesApi) -> None:
    # Their clocks are years apart.
    one, two = Candidate("one"), Candidate("two", began_s=1e8)
    for _ in range(10):
        assert await one.after(5)
        assert not await two.after(5)
    spec = api.leases[NAME]["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("one", 0, LEASE_S)
    assert spec["renewTime"] > spec["acquireTime"]


async def test_another_one_follows_when_the_elected_one_is_silent_and_that_one_has_stopped_before(
    api: KubernetesApi,
) -> None:
    one, two = Candidate("one"), Candidate("two", began_s=50)
    assert await one.after(0)
    assert not await two.after(0)
    for _ in range(2):
        one.clock.now_s += 5
        assert not await two.after(5)
    assert not one.is_elected
    assert await two.after(5)
    assert (holder(api), api.leases[NAME]["spec"]["leaseTransitions"]) == ("two", 1)
    assert not await one.after(0)


@pytest.mark.parametrize("is_new", [True, False], ids=["none is there", "it is over"])
async def test_of_two_that_take_a_free_lease_at_once_one_gets_it(api: KubernetesApi, is_new: bool) -> None:
    one, two = Candidate("one"), Candidate("two")
    if not is_new:
        LeaseLock(f"avatars/{NAME}", "before", Clock()).hold()
        assert not await one.after(0)
        assert not await two.after(0)
    api.hold_reads(2)
    elected = await asyncio.gather(one.after(LEASE_S), two.after(LEASE_S))
    assert sorted(elected) == [False, True]
    assert holder(api) == ("one" if elected[0] else "two")


async def test_who_ends_gives_the_lease_back_and_another_one_follows_at_once(api: KubernetesApi) -> None:
    one, two = Candidate("one"), Candidate("two")
    async with one.running():
        await one.attempt()
        assert not await two.after(1)
    assert not one.is_elected
    assert await two.after(1)


async def test_who_is_not_elected_gives_nothing_back(api: KubernetesApi) -> None:
    one, two = Candidate("one"), Candidate("two")
    assert await one.after(0)
    async with two.running():
        await two.attempt()
    assert holder(api) == "one"


async def test_without_the_api_nobody_new_is_elected_and_the_elected_one_stops_in_time(
    api: KubernetesApi, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Candidate("one"), Candidate("two")
    assert await one.after(0)
    assert not await two.after(0)
    api.go_away()
    assert await one.after(ACTS_S - 1)
    assert not await one.after(1)
    assert not await two.after(100)
    assert "Lease avatars/e3rg-variants" in str(vars(caplog.records[-1])["why"])
    api.come()
    assert await one.after(5)
    assert REGISTRY.get_sample_value("e3rg_variants_elected") == 1


async def test_of_gateways_that_share_a_file_one_is_elected(tmp_path: Path) -> None:
    settings = OrchestratorSettings(variants_file=tmp_path / "variants.json")
    one, two = Election(lock_of(settings)), Election(lock_of(settings))
    async with one.running():
        await one.attempt()
        await two.attempt()
        assert (one.is_elected, two.is_elected) == (True, False)
        await one.attempt()
        assert one.is_elected
    async with two.running():
        await two.attempt()
        assert two.is_elected
    assert await TableFile(tmp_path / "variants.json").read() == ""


async def test_without_a_table_of_variants_nobody_is_elected() -> None:
    election = Election(lock_of(OrchestratorSettings()))
    async with election.running():
        await election.attempt()
        assert not election.is_elected


@pytest.mark.parametrize(("lease", "name"), [("", NAME), ("another", "another")])
def test_the_lease_has_the_config_map_s_name_unless_it_is_given_one(api: KubernetesApi, lease: str, name: str) -> None:
    lock = lock_of(OrchestratorSettings(variants_configmap=f"avatars/{NAME}", variants_lease=lease))
    assert lock
    assert lock.hold()
    assert {*api.leases} == {name}


def test_a_folder_that_cannot_be_written_elects_nobody(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        FileLock(tmp_path / "none" / "lock").hold()


def test_a_warning_is_an_event_about_the_config_map(api: KubernetesApi) -> None:
    warn(api.name, "VariantRolledBack", "tts b: too slow" + 2000 * "!")
    (event,) = api.events
    assert (event["type"], event["reason"], event["involvedObject"]["name"]) == (
        "Warning",
        "VariantRolledBack",
        "e3rg-variants",
    )
    assert event["message"].startswith("tts b: too slow")
    assert len(event["message"]) <= 1024
    api.go_away()
    with pytest.raises(OSError, match="refused"):
        warn(api.name, "VariantRolledBack", "again")
