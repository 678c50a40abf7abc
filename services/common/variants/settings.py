"""Settings of the services that read the table of variants."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from services.common.settings import ServiceSettings
from services.common.variants.files import TableFile
from services.common.variants.live import Source

TABLE = "variants.json"
"""Key of the ConfigMap that has the table."""
OVERLAY = "overlay.json"
"""Key of a guardrail's rollback, which lies over a table that the chart's values own."""


class VariantSettings(ServiceSettings):
    """Places of the table of variants."""

    variants_file: Annotated[Path | None, BeforeValidator(lambda given: given or None)] = None
    """File with the table of variants, which is watched; empty for none. With `variants_configmap`: that key's mounted
    file, which counts until the cluster's API has answered once."""
    variants_configmap: str = Field(default="", pattern=r"^([a-z0-9-]+/[a-z0-9.-]+)?$")
    """ConfigMap with the table, as `namespace/name`, which is watched through the cluster's API; empty for none."""


def source_of(settings: VariantSettings) -> Source | None:
    """Return the object that holds the table; None where the settings name none."""
    return _source(settings, TABLE, settings.variants_file)


def overlay_of(settings: VariantSettings) -> Source | None:
    """Return the object that holds a guardrail's rollback, beside the table; None where the settings name none."""
    return _source(settings, OVERLAY, settings.variants_file and settings.variants_file.with_name(OVERLAY))


def _source(settings: VariantSettings, key: str, path: Path | None) -> Source | None:
    held = TableFile(path) if path else None
    if not settings.variants_configmap:
        return held
    # The client takes 60 MiB and half a second.
    from services.common.variants.kubernetes import ConfigMapTable

    return ConfigMapTable(settings.variants_configmap, key, held)
