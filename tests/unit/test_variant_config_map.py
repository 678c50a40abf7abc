"""The table of variants in a ConfigMap, by the cluster's API over real sockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from services.common.errors import Conflict, NotReady
from services.common.variants.files import TableFile
from services.common.variants.kubernetes import ConfigMapTable
from tests.support.kubernetes_api import KubernetesApi
from tests.support.waiting import TIMEOUT_S, until

KEY = "variants.json"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    with KubernetesApi() as started:
        monkeypatch.setenv("KUBECONFIG", str(started.kubeconfig(tmp_path)))
        yield started


class Reader:
    """Reads the texts of a table."""

    def __init__(self, texts: AsyncGenerator[str]) -> None:
        self._texts = texts

    async def next(self) -> str:
        async with asyncio.timeout(TIMEOUT_S):
            return await anext(self._texts)


@asynccontextmanager
async def reading(table: ConfigMapTable) -> AsyncIterator[Reader]:
    async with aclosing(table.texts()) as texts:
        yield Reader(texts)


def is_watched() -> bool:
    return REGISTRY.get_sample_value("e3rg_variants_watched") == 1


async def test_the_text_is_told_at_first_and_after_each_change(api: KubernetesApi) -> None:
    async with reading(ConfigMapTable(api.name, KEY)) as reader:
        assert await reader.next() == ""
        api.set(variants_json="one")
        assert await reader.next() == "one"
        api.set(variants_json="two")
        assert await reader.next() == "two"


async def test_another_key_is_no_change(api: KubernetesApi) -> None:
    api.set(variants_json="one")
    async with reading(ConfigMapTable(api.name, KEY)) as reader:
        assert await reader.next() == "one"
        api.set(overlay_json="over")
        api.set(variants_json="two")
        assert await reader.next() == "two"


async def test_the_text_of_a_config_map_that_is_deleted_stays_until_it_is_made_again(api: KubernetesApi) -> None:
    api.set(variants_json="one")
    async with reading(ConfigMapTable(api.name, KEY)) as reader:
        assert await reader.next() == "one"
        api.delete()
        api.set(variants_json="two")
        assert await reader.next() == "two"


async def test_a_watch_that_is_cut_goes_on_where_it_was(api: KubernetesApi) -> None:
    async with reading(ConfigMapTable(api.name, KEY)) as reader:
        assert await reader.next() == ""
        await until(lambda: api.watches == 1)
        for text in ("one", "two"):
            api.set(variants_json=text)
            assert await reader.next() == text
        api.cut()
        api.set(variants_json="three")
        assert await reader.next() == "three"
        await until(lambda: api.watches == 2)
        lists = [request for request in api.requests if "watch" not in request]
        assert len(lists) == 1


async def test_a_version_that_is_gone_is_listed_anew_and_is_no_failure(
    api: KubernetesApi, caplog: pytest.LogCaptureFixture
) -> None:
    async with reading(ConfigMapTable(api.name, KEY)) as reader:
        assert await reader.next() == ""
        await until(lambda: api.watches == 1)
        api.forget()
        api.cut()
        await until(lambda: api.watches == 2)
        assert is_watched()
        assert not caplog.records
        api.set(variants_json="one")
        assert await reader.next() == "one"
        assert len([request for request in api.requests if "watch" not in request]) == 2


async def test_the_text_stays_while_the_api_is_away_and_a_metric_tells(api: KubernetesApi) -> None:
    api.set(variants_json="one")
    async with reading(ConfigMapTable(api.name, KEY)) as reader:
        assert await reader.next() == "one"
        await until(is_watched)
        coming = asyncio.create_task(reader.next())
        api.go_away()
        await until(lambda: not is_watched())
        assert not coming.done()
        api.set(variants_json="two")
        api.come()
        assert await coming == "two"
        await until(is_watched)


class Mounted:
    """A file that is told of, instead of looked at."""

    def __init__(self) -> None:
        self.news: asyncio.Queue[str] = asyncio.Queue()
        self.is_read = False

    async def read(self) -> str:
        raise AssertionError("only texts are read")

    async def texts(self) -> AsyncGenerator[str]:
        self.is_read = True
        try:
            while True:
                yield await self.news.get()
        finally:
            self.is_read = False

    async def replace(self, before: str, text: str) -> None:
        raise AssertionError("the kubelet's copy is read-only")


async def test_the_mounted_file_counts_until_the_api_has_answered_and_is_not_read_after(api: KubernetesApi) -> None:
    api.go_away()
    api.set(variants_json="watched")
    mounted = Mounted()
    async with reading(ConfigMapTable(api.name, KEY, mounted)) as reader:
        mounted.news.put_nowait("mounted")
        assert await reader.next() == "mounted"
        mounted.news.put_nowait("mounted later")
        assert await reader.next() == "mounted later"
        api.come()
        assert await reader.next() == "watched"
        # The kubelet brings old texts later than the watch.
        await until(lambda: not mounted.is_read)
        api.go_away()
        await until(lambda: not is_watched())
        assert not mounted.is_read


async def test_a_late_text_of_the_mounted_file_is_none(api: KubernetesApi) -> None:
    api.go_away()
    api.set(variants_json="watched")
    mounted = Mounted()
    async with reading(ConfigMapTable(api.name, KEY, mounted)) as reader:
        mounted.news.put_nowait("mounted")
        assert await reader.next() == "mounted"
        await until(lambda: not is_watched())
        api.come()
        await until(is_watched)
        mounted.news.put_nowait("mounted late")
        await until(mounted.news.empty)
        assert await reader.next() == "watched"
        api.set(variants_json="watched later")
        assert await reader.next() == "watched later"


async def test_a_replaced_text_is_told_and_the_other_keys_stay(api: KubernetesApi) -> None:
    api.set(variants_json="one", overlay_json="over")
    table = ConfigMapTable(api.name, KEY)
    async with reading(table) as reader:
        before = await reader.next()
        await table.replace(before, "two")
        assert await reader.next() == "two"
    assert api.data() == {"variants.json": "two", "overlay.json": "over"}


async def test_the_first_text_is_written_to_a_config_map_without_data(api: KubernetesApi) -> None:
    await ConfigMapTable(api.name, KEY).replace("", "one")
    assert api.data() == {"variants.json": "one"}


async def test_a_text_that_another_has_replaced_is_a_conflict(api: KubernetesApi) -> None:
    api.set(variants_json="theirs")
    with pytest.raises(Conflict, match="try again"):
        await ConfigMapTable(api.name, KEY).replace("before", "mine")
    assert api.data() == {"variants.json": "theirs"}


async def test_of_two_that_replace_at_once_one_wins_and_one_has_a_conflict(api: KubernetesApi) -> None:
    api.set(variants_json="before")
    writes = [ConfigMapTable(api.name, KEY).replace("before", text) for text in ("mine", "theirs")]
    api.hold_reads(2)
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    (refused,) = (outcome for outcome in outcomes if outcome)
    assert isinstance(refused, Conflict)
    assert api.data()[KEY] == ("mine" if outcomes[0] is None else "theirs")


async def test_nothing_is_written_while_the_api_is_away(api: KubernetesApi) -> None:
    api.go_away()
    with pytest.raises(NotReady, match="ConfigMap avatars/e3rg-variants"):
        await ConfigMapTable(api.name, KEY).replace("", "mine")


async def test_a_config_map_that_is_missing_is_named(api: KubernetesApi) -> None:
    api.delete()
    with pytest.raises(NotReady, match="ConfigMap avatars/e3rg-variants: 404"):
        await ConfigMapTable(api.name, KEY).replace("", "mine")


async def test_without_a_cluster_the_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    mounted = tmp_path / KEY
    mounted.write_text("mounted", "utf-8")
    async with reading(ConfigMapTable("avatars/e3rg-variants", KEY, TableFile(mounted))) as reader:
        assert await reader.next() == "mounted"
        await until(lambda: not is_watched())
