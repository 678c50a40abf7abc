"""How servers are told that an answer must be one of a set: each has its own way."""

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from services.mllm.chat.model import Turn

PROOF = (Turn("user", "How much is two and two?"),)
"""A server is asked this at the start, to see whether it holds an answer to a set."""
PROOF_CHOICES = ("walnut", "umbrella")
"""Nobody answers that with one of these by chance."""


class Guide(StrEnum):
    """The server's way."""

    STRUCTURED_OUTPUTS = "structured_outputs"
    """vLLM from 0.11 on."""
    GUIDED_CHOICE = "guided_choice"
    """vLLM before 0.12."""
    JSON_SCHEMA = "json_schema"
    """OpenAI's own; vLLM, SGLang and llama.cpp know it too. The answer comes wrapped in an object."""
    REGEX = "regex"
    """SGLang."""
    GRAMMAR = "grammar"
    """llama.cpp."""
    NONE = "none"
    """Free text, which every server can write."""


FIELD = "emotion"
"""Where the answer stands in an object."""
_VALUE = re.compile(rf'"{FIELD}"\s*:\s*"')


def request_of(guide: Guide, choices: Sequence[str]) -> dict[str, Any]:
    """Returns what goes into the request beside the messages; what is no field of OpenAI's stands in `extra_body`."""
    match guide:
        case Guide.STRUCTURED_OUTPUTS:
            return {"extra_body": {"structured_outputs": {"choice": list(choices)}}}
        case Guide.GUIDED_CHOICE:
            return {"extra_body": {"guided_choice": list(choices)}}
        case Guide.JSON_SCHEMA:
            schema = {
                "type": "object",
                "properties": {FIELD: {"type": "string", "enum": list(choices)}},
                "required": [FIELD],
                "additionalProperties": False,
            }
            wrapped = {"name": FIELD, "strict": True, "schema": schema}
            return {"response_format": {"type": "json_schema", "json_schema": wrapped}}
        case Guide.REGEX:
            return {"extra_body": {"regex": f"({'|'.join(re.escape(choice) for choice in choices)})"}}
        case Guide.GRAMMAR:
            # A JSON string is a GBNF string.
            return {"extra_body": {"grammar": f"root ::= {' | '.join(json.dumps(choice) for choice in choices)}"}}
        case Guide.NONE:
            return {}


def answer_of(guide: Guide, text: str) -> str:
    """Returns the answer in what the model wrote; all of it where it is not as it was asked for."""
    if guide is Guide.JSON_SCHEMA:
        try:
            return str(json.loads(text)[FIELD])
        except (ValueError, KeyError, TypeError):
            pass
    return text.strip()


def start_of(guide: Guide, text: str) -> int:
    """Returns after how many characters of what the model wrote its answer begins.

    Args:
        guide: The server's way.
        text: All tokens. A server may have taken some of them out of the message (llama.cpp fences objects in).
    """
    found = _VALUE.search(text) if guide is Guide.JSON_SCHEMA else None
    return found.end() if found else len(text) - len(text.lstrip())
