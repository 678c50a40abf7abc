"""Chat templates that are shipped, and the turns of a chat as every template takes them."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.mllm.chat.model import Turn

TEMPLATES = Path(__file__).with_name("templates")
PROBE = "zebra"
"""A word that no template brings, to see what a template does with it."""


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template that no tokenizer brings.

    Attributes:
        jinja: The template.
        eos_token: What some templates end the assistant's turns with; a tokenizer knows its own.
        marks: Plain words by which the template tells turns apart; other marks are in no turn's text.
    """

    jinja: str
    eos_token: str = ""
    marks: tuple[str, ...] = ()

    @classmethod
    def load(cls, name: str) -> "ChatTemplate":
        """Reads a file of `services/mllm/chat/templates`.

        Raises:
            FileNotFoundError: There is none of that name; the message lists those there are.
        """
        path = TEMPLATES / f"{name}.toml"
        if not path.is_file():
            raise FileNotFoundError(f"there is no chat template {name!r}; there are: {', '.join(names())}")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(content["template"], content["eos_token"], tuple(content["marks"]))


def names() -> list[str]:
    """Returns the names of the templates that are shipped."""
    return sorted(file.stem for file in TEMPLATES.glob("*.toml"))


class Marks:
    """Words that act as marks in one model's chats."""

    def __init__(self, marks: Iterable[str]) -> None:
        # The longest first: a mark may begin with another.
        ordered = sorted(marks, key=len, reverse=True)
        self._found = re.compile("|".join(re.escape(mark) for mark in ordered) or r"(?!)")

    def broken(self, text: str) -> str:
        """Returns `text` with a space in each mark, so that it acts no more."""
        return self._found.sub(lambda found: f"{found[0][:-1]} {found[0][-1]}", text)


def messages_of(turns: Sequence[Turn], takes_system: bool, marks: Marks) -> list[dict[str, Any]]:
    """Returns the words of `turns` as templates take them: roles in turn, marks broken.

    Args:
        turns: A chat.
        takes_system: Whether the template has a system role; if not, such text opens the first user turn.
        marks: What acts as a mark.
    """
    messages: list[dict[str, Any]] = []
    for turn in turns:
        role = "user" if turn.role == "system" and not takes_system else turn.role
        text = marks.broken(turn.text.strip())
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n\n{text}"
        else:
            messages.append({"role": role, "content": text})
    return messages
