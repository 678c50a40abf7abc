# ruff: noqa: RUF001 - signs of every script are meant
"""What MeloTTS makes of signs before it reads Spanish and French."""

import re
from collections.abc import Mapping
from typing import Final

_COMMAS: Final = "：；，·、"
_DOTS: Final = "。…$\n"
PLAIN: Final = {**dict.fromkeys(_COMMAS, ","), **dict.fromkeys(_DOTS, "."), "！": "!", "？": "?", "～": "-", "~": "-"}
QUOTES: Final = "“”‘’（）()《》【】[]「」"
DASH: Final = "—"


def tidy(text: str, table: Mapping[int, str], unspoken: str) -> str:
    """Straightens signs, leaves out the unspoken ones, begins with a word and ends with a mark."""
    text = text.replace(";", ",").replace("-", " ").replace(":", ",")
    text = text.replace("...", ".").translate(table)
    text = re.sub(f"[{re.escape(unspoken)}]+", "", text)
    text = " ".join(re.sub(r"^[,.!?]+", "", text).split())
    return re.sub(r"([^.,!?\-…])$", r"\1.", text)
