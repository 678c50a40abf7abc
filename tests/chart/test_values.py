"""Values: each is documented, each mistake is refused with words that help."""

import re
from collections.abc import Iterator

import pytest
import yaml

from helm.readme import fresh
from tests.chart.conftest import CHART, Refused, rendered

VALUES = (CHART / "values.yaml").read_text("utf-8")


def test_the_registry_is_demanded_and_the_error_says_how_to_push() -> None:
    with pytest.raises(Refused, match=r"(?s)/image/registry.*make images push REGISTRY=.*--set image.registry="):
        rendered(registry="")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tls.modes=insecure", "'modes' not allowed"),
        ("components.tts.replica=3", "'replica' not allowed"),
        ("components.speech.replicas=3", "'speech' not allowed"),
        ("tls.mode=plain", "/tls/mode"),
        ("components.tts.replicas=-1", "/components/tts/replicas"),
        ("weights.size=2GB", "/weights/size"),
        ("weights.accessModes={ReadWriteOncePod}", "/weights/accessModes"),
        ("database.external.cidrs[0]=10.0.0.1", "/database/external/cidrs"),
        ("production=true", "refuses the bundled database"),
        ("production=true,database.mode=external", "refuses the bundled object store"),
        (
            "production=true,database.mode=external,objectStore.mode=external,tls.mode=insecure",
            "refuses tls.mode=insecure",
        ),
        ("database.mode=external", "set database.external.host"),
        ("objectStore.mode=external", "set objectStore.external.endpoint"),
        ("tls.mode=secret", "set tls.secretName"),
        ("tls.mode=certManager", "set tls.issuer.name"),
        ("health.port=0", "probes cannot speak TLS"),
        ("panel.writer=nobody", "must be one of panel.voters: text, face, voice, smollm2"),
        ("components.mllm-face=null", "face asks component mllm-face, which is not in components"),
        ("components.tts=null", "components.tts is missing"),
    ],
)
def test_a_mistake_is_refused(value: str, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        rendered("--set", value)


def _keys() -> Iterator[tuple[str, bool]]:
    """Yield the name of every value and whether a comment stands beside or above it."""
    above = False
    for line in VALUES.splitlines():
        if match := re.match(r" *([\w-]+):(?: .*?)?( # .+)?$", line):
            yield match[1], above or bool(match[2])
            above = False
        else:
            above = line.lstrip().startswith("#")


def test_every_value_is_documented() -> None:
    # What is written once for all components is not repeated for each.
    for_all = set(yaml.safe_load(VALUES)["componentDefaults"])
    undocumented = [key for key, is_documented in _keys() if not is_documented and key not in for_all]
    assert not undocumented


def test_the_readme_is_made_of_the_values() -> None:
    readme = (CHART / "README.md").read_text("utf-8")
    assert readme == fresh(readme, VALUES), "make chart"
    assert "`networkPolicy.dns.labels`" in readme
