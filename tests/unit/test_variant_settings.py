"""Settings that say where the table of variants is."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator.settings import OrchestratorSettings
from services.common.variants.files import TableFile
from services.common.variants.kubernetes import ConfigMapTable
from services.common.variants.settings import overlay_of, source_of
from tests.support.kubernetes_api import KubernetesApi


@pytest.mark.parametrize("given", ["", None])
def test_without_a_place_there_is_no_table(given: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if given is not None:
        monkeypatch.setenv("E3RG_ORCHESTRATOR_VARIANTS_FILE", given)
        monkeypatch.setenv("E3RG_ORCHESTRATOR_VARIANTS_CONFIGMAP", given)
    assert source_of(OrchestratorSettings()) is None
    assert overlay_of(OrchestratorSettings()) is None


async def test_a_files_overlay_lies_beside_it(tmp_path: Path) -> None:
    settings = OrchestratorSettings(variants_file=tmp_path / "table.json")
    (tmp_path / "table.json").write_text("table", "utf-8")
    (tmp_path / "overlay.json").write_text("overlay", "utf-8")
    table, overlay = source_of(settings), overlay_of(settings)
    assert isinstance(table, TableFile)
    assert isinstance(overlay, TableFile)
    assert (await table.read(), await overlay.read()) == ("table", "overlay")


async def test_a_config_map_has_table_and_overlay_in_keys_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KubernetesApi() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
        settings = OrchestratorSettings(variants_configmap=api.name)
        table, overlay = source_of(settings), overlay_of(settings)
        assert isinstance(table, ConfigMapTable)
        assert isinstance(overlay, ConfigMapTable)
        await table.replace("", "table")
        await overlay.replace("", "overlay")
        assert api.data() == {"variants.json": "table", "overlay.json": "overlay"}


@pytest.mark.parametrize("name", ["e3rg-variants", "avatars/", "/e3rg-variants", "avatars/E3RG", "a/b/c"])
def test_a_config_map_needs_its_namespace(name: str) -> None:
    with pytest.raises(ValidationError, match="variants_configmap"):
        OrchestratorSettings(variants_configmap=name)


def test_callers_may_not_change_the_table_unless_the_operator_says_so() -> None:
    assert not OrchestratorSettings().variant_admin
