"""Chats as text."""

from dataclasses import dataclass, field, replace


@dataclass
class Conversation:
    """A chat whose roles and system text bring their own marks."""

    system: str
    roles: tuple[str, str]
    sep: str
    messages: list[tuple[str, str | None]] = field(default_factory=list)

    def copy(self) -> "Conversation":
        return replace(self, messages=list(self.messages))

    def append_message(self, role: str, message: str | None) -> None:
        self.messages.append((role, message))

    def get_prompt(self) -> str:
        told = [f"{role}\n{message}{self.sep}\n" if message else f"{role}\n" for role, message in self.messages]
        return f"{self.system}{self.sep}\n" + "".join(told)


conv_templates = {
    "qwen_1_5": Conversation(
        "<|im_start|>system\nYou are a helpful assistant.", ("<|im_start|>user", "<|im_start|>assistant"), "<|im_end|>"
    )
}
