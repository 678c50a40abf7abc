"""Finding back-ends."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.common import backends
from services.mllm.settings import MllmSettings
from services.tts.settings import TtsSettings
from services.video.settings import VideoSettings


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "rooms" / "backends"
    folder.mkdir(parents=True)
    (tmp_path / "rooms" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "plain.py").write_text("def create():\n    return 'made'\n")
    (folder / "needy.py").write_text("import a_library_that_nobody_has\n")
    (folder / "broken.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "rooms.backends"
    for name in [name for name in sys.modules if name.partition(".")[0] == "rooms"]:
        del sys.modules[name]


def test_listing_names_every_back_end_and_imports_none(package: str) -> None:
    assert backends.names(package) == ["broken", "needy", "plain"]
    assert not [name for name in sys.modules if name.startswith(f"{package}.")]


def test_loading_one_imports_that_one_only(package: str) -> None:
    assert backends.load(package, "plain").create() == "made"
    assert [name for name in sys.modules if name.startswith(f"{package}.")] == [f"{package}.plain"]


@pytest.mark.parametrize("name", ["parrot", "", "../plain", "plain.create", "Plain"])
def test_an_unknown_name_is_refused_with_the_known_ones(package: str, name: str) -> None:
    with pytest.raises(LookupError, match=r"broken, needy, plain") as refused:
        backends.load(package, name)
    assert repr(name) in str(refused.value)


def test_a_missing_library_is_named(package: str) -> None:
    with pytest.raises(ImportError, match="'needy' needs a_library_that_nobody_has, which is not installed"):
        backends.load(package, "needy")


def test_a_back_end_that_fails_itself_fails_as_it_does(package: str) -> None:
    with pytest.raises(RuntimeError, match="imported"):
        backends.load(package, "broken")


@pytest.mark.parametrize("name", ["services.nowhere", "services.common.errors"])
def test_what_is_no_package_has_no_back_ends(name: str) -> None:
    with pytest.raises(LookupError, match=f"{name} is not a package"):
        backends.names(name)


@pytest.mark.parametrize("settings", [MllmSettings, TtsSettings, VideoSettings])
def test_the_default_back_end_of_every_service_with_models_exists(
    settings: type[MllmSettings | TtsSettings | VideoSettings],
) -> None:
    service = settings.__module__.removesuffix(".settings")
    assert settings.model_fields["backend"].default in backends.names(f"{service}.backends")
