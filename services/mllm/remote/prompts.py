"""A chat as one prompt, for servers that take no chat: by the model's own template, or by one that is shipped."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from services.mllm.chat.model import Turn
from services.mllm.chat.template import PROBE, ChatTemplate, Marks, messages_of, names


class PromptFormat:
    """How chats are written for one model whose tokenizer is elsewhere.

    A template is a program out of a model's folder, so it runs in a sandbox. It gets what the tokenizers of
    transformers give it, with an empty `bos_token`: whoever takes the prompt tokenizes it, and adds that one itself.

    Args:
        name: What it was loaded as.
        template: Its text, marks and end token.

    Attributes:
        takes_images: Whether the template has a place for images.

    Raises:
        ValueError: It is no template, or it leaves out what the user says.
    """

    def __init__(self, name: str, template: ChatTemplate) -> None:
        self.name, self.jinja = name, template.jinja
        self._eos_token, self._marks = template.eos_token, Marks(template.marks)
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.globals["raise_exception"] = _refuse
        user = {"role": "user", "content": PROBE}
        try:
            self._template = environment.from_string(template.jinja)
            said = self._rendered([user])
        except jinja2.TemplateError as error:
            raise ValueError(f"chat template {name}: {error}") from error
        if PROBE not in said:
            raise ValueError(f"chat template {name}: it leaves out what the user says")
        self._takes_system = PROBE in self._tried([{"role": "system", "content": PROBE}, user | {"content": "a"}])
        words = {"type": "text", "text": PROBE}
        # Where parts are unknown, a template fails at them or writes them down as data.
        knows_parts = self._tried([{"role": "user", "content": [words]}]) == said
        with_image = self._tried([{"role": "user", "content": [{"type": "image"}, words]}])
        self.takes_images = knows_parts and with_image not in ("", said)

    @classmethod
    def load(cls, name: str) -> Self:
        """Loads a file of `services/mllm/chat/templates` by its name, or the template in a model's folder.

        Raises:
            ValueError: There is none of that name or in that folder; the message lists the names there are.
        """
        folder = Path(name)
        if folder.is_dir():
            eos_token = _read(folder / "tokenizer_config.json").get("eos_token") or ""
            # A token is given as text, or as an object with its text in it.
            end = eos_token["content"] if isinstance(eos_token, dict) else eos_token
            return cls(name, ChatTemplate(_jinja_in(folder), end))
        if name not in names():
            raise ValueError(f"chat template {name!r} is no folder and none of {', '.join(names())}")
        return cls(name, ChatTemplate.load(name))

    def prompt(self, turns: Sequence[Turn], images: int = 0) -> str:
        """Returns the chat as one text, which ends where the model's answer begins.

        Args:
            turns: The chat. Where the template takes no system turn, its text opens the first user turn.
            images: How many stand before the words of the last turn; only if `takes_images`.

        Raises:
            ValueError: The template does not take these turns.
        """
        messages = messages_of(turns, self._takes_system, self._marks)
        if images:
            words = {"type": "text", "text": messages[-1]["content"]}
            messages[-1]["content"] = [*[{"type": "image"}] * images, words]
        try:
            return self._rendered(messages)
        except jinja2.TemplateError as error:
            raise ValueError(f"chat template {self.name}: {error}") from error

    def _rendered(self, messages: Sequence[Mapping[str, Any]]) -> str:
        return self._template.render(
            messages=messages,
            add_generation_prompt=True,
            bos_token="",
            eos_token=self._eos_token,
            enable_thinking=False,  # a vote has a deadline; templates that know no thoughts ignore it
        )

    def _tried(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Returns the prompt, or nothing when the template does not take the messages."""
        try:
            return self._rendered(messages)
        except (jinja2.TemplateError, TypeError):  # a template of texts cannot add a list to one
            return ""


def _refuse(reason: str) -> None:
    raise jinja2.TemplateError(reason)


def _jinja_in(folder: Path) -> str:
    """Templates stand in a file of their own, or in the configuration of the processor or of the tokenizer."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text("utf-8")
    for file in ("chat_template.json", "tokenizer_config.json"):
        found = _read(folder / file).get("chat_template")
        if isinstance(found, list):
            found = {entry["name"]: entry["template"] for entry in found}.get("default")
        if found:
            return str(found)
    raise ValueError(f"chat template {folder}: it holds no chat_template.jinja, nor one in tokenizer_config.json")


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text("utf-8"))) if file.is_file() else {}
