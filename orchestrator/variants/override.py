"""Variants that a call names for itself."""

import re
from collections.abc import Iterable

from services.common.errors import FailedPrecondition, InvalidRequest
from services.common.variants.table import NAME

HEADER = "e3rg-variant"
"""Metadata key with which callers name them: `tts=b,video=c`."""
OFF = "the call names variants, which is for testers; set E3RG_ORCHESTRATOR_VARIANT_ADMIN=true, or leave them out"


def named(metadata: Iterable[tuple[str, str | bytes]], admin: bool) -> dict[str, str]:
    """Return the variants that a call names, by stage.

    Args:
        metadata: What the caller sent.
        admin: Whether variants are administered at this gateway.

    Raises:
        InvalidRequest: It is no list of them.
        FailedPrecondition: Calls may not name variants here.
    """
    texts = [
        value if isinstance(value, str) else value.decode("ascii", "replace")
        for key, value in metadata
        if key == HEADER
    ]
    if texts and not admin:
        raise FailedPrecondition(OFF)
    return parse(",".join(texts)) if texts else {}


def parse(text: str) -> dict[str, str]:
    """Return the variants in a text, by stage.

    Raises:
        InvalidRequest: It is no list of them.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        stage, _, variant = (word.strip() for word in part.partition("="))
        if not (re.fullmatch(NAME, stage) and re.fullmatch(NAME, variant)):
            raise InvalidRequest(HEADER, f"{part.strip()[:80]!a}; send stage=variant, such as tts=b,video=c")
        if found.setdefault(stage, variant) != variant:
            raise InvalidRequest(HEADER, f"{stage} has two variants, {found[stage]} and {variant}; send one")
    return found
