"""How a chat becomes the tokens of a prompt: through the GGUF's own chat template, or as a text to be continued."""

import mmap
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from services.mllm.chat.model import Turn
from services.mllm.language.runtime import Runtime

METADATA_BYTES_MAX = 64 * 2**20
"""How far into a GGUF its metadata reach, with room; the largest are the vocabularies, of some 10 MB."""
TEMPLATE_KEY = b"tokenizer.chat_template"
OPEN_END = ":"
"""A turn that ends so already says what comes next ("Emotion:")."""
ANSWER = "Answer:"
_SEVERAL_ENDS = re.compile(r"\n\s*\n")


def has_chat_template(weights: Path) -> bool:
    """Tells whether a GGUF brings a chat template. llama.cpp does not say: it takes one of its own, silently."""
    # A key of GGUF's metadata is its length as uint64, little-endian, and its bytes.
    key = len(TEMPLATE_KEY).to_bytes(8, "little") + TEMPLATE_KEY
    with weights.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(key, 0, METADATA_BYTES_MAX) >= 0


class Form(Protocol):
    """What of a chat depends on whether the model was trained to chat."""

    @property
    def bounds(self) -> Mapping[str, Any]:
        """What a request says of where the answer ends, beside the model's own mark."""

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Returns the tokens of the whole prompt."""

    def answer(self, text: str) -> tuple[int, ...]:
        """Returns the tokens of `text` as the whole answer, its end included."""


class ChatForm:
    """For a model with a chat template. It ends its answer by itself."""

    bounds: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._end = runtime.tokens(runtime.end_token(), begins=False)

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Applies the template."""
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        return self._runtime.tokens(self._runtime.chat_prompt(messages), begins=True)

    def answer(self, text: str) -> tuple[int, ...]:
        """Returns the tokens of a turn that says `text`."""
        return (*self._runtime.tokens(text, begins=False), *self._end)


class CompletionForm:
    """For a model that was only trained to continue texts: the turns one after the other, answers on one line."""

    # The end of the line ends the answer, and must not be the whole of it.
    bounds: ClassVar[Mapping[str, Any]] = {"stop": ["\n"], "grammar": 'root ::= [^\\n]+ "\\n"'}

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lead = runtime.tokens(OPEN_END, begins=False)

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Writes the turns down."""
        return self._runtime.tokens(completion_prompt(turns), begins=True)

    def answer(self, text: str) -> tuple[int, ...]:
        """Returns the tokens of the rest of the line."""
        # Not every tokenizer has tokens for a word in mid-text when it is asked for the word alone.
        return tuple(self._runtime.tokens(f"{OPEN_END} {text}\n", begins=False)[len(self._lead) :])


def completion_prompt(turns: Sequence[Turn]) -> str:
    """Returns the turns as a text that the answer continues: an empty line at most between two, none at its end."""
    text = ""
    for turn in turns:
        said = turn.text.strip()
        if turn.role == "assistant":
            text += f" {' '.join(said.split())}\n\n"
        elif turn.role == "system":
            text += f"{said}\n\n"
        else:
            text += said if said.endswith(OPEN_END) else f"{said}\n{ANSWER}"
    body, _, end = _SEVERAL_ENDS.sub("\n\n", text.strip()).rpartition("\n")
    return f"{body.rstrip()}\n{end}"
