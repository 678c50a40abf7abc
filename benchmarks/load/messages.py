"""Messages that callers send: text, recordings and videos, drawn by weight."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load.errors import ProfileError
from benchmarks.messages import MESSAGES

KINDS = ("text", "audio", "video")
FILE_BYTES_MAX = 32 << 20
TEXT_CHARS_MAX = 4000


@dataclass(frozen=True)
class Message:
    """Message of one kind: a text, or the content of a file."""

    kind: str
    text: str = ""
    content: bytes = field(default=b"", repr=False)
    name: str = ""

    @property
    def audio(self) -> bytes:
        """Content of a recording; empty for other kinds."""
        return self.content if self.kind == "audio" else b""

    @property
    def video(self) -> bytes:
        """Content of a video; empty for other kinds."""
        return self.content if self.kind == "video" else b""


TEXTS = tuple(Message("text", text) for text in MESSAGES)


@dataclass(frozen=True)
class Mix:
    """Messages, and how often each kind is drawn; without weights, kinds that have messages are drawn alike.

    Raises:
        ProfileError: There is nothing to draw, or a kind with a weight has no message.
    """

    messages: Sequence[Message] = TEXTS
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {message.kind for message in self.messages}
        for kind, weight in self.weights.items():
            if kind not in KINDS:
                raise ProfileError("mix", f"{kind!r} is no kind of message; use {', '.join(KINDS)}")
            if weight < 0:
                raise ProfileError("mix", f"{kind}={weight:g}; give 0 or more")
            if weight and kind not in kinds:
                raise ProfileError("mix", f"{kind}={weight:g}, but there is no such message; give one, or leave it out")
        if not any(self.share(kind) for kind in kinds):
            raise ProfileError("mix", "nothing is ever sent; give a weight above 0 to a kind that has messages")

    @property
    def kinds(self) -> list[str]:
        """Kinds that are drawn."""
        there = {message.kind for message in self.messages}
        return [kind for kind in KINDS if kind in there and self.share(kind)]

    def share(self, kind: str) -> float:
        """Return the weight of a kind."""
        return self.weights.get(kind, 0.0) if self.weights else 1.0

    def draw(self, draw: random.Random) -> Message:
        """Draw a kind by its weight, then one of its messages."""
        kinds = self.kinds
        (kind,) = draw.choices(kinds, [self.share(kind) for kind in kinds])
        return draw.choice([message for message in self.messages if message.kind == kind])


def parse_weights(text: str) -> dict[str, float]:
    """Read weights like `text=8,audio=1,video=1`.

    Raises:
        ProfileError: One is wrong.
    """
    weights = {}
    for part in text.split(","):
        kind, _, value = part.strip().partition("=")
        try:
            weights[kind] = float(value)
        except ValueError:
            raise ProfileError("mix", f"{part.strip()!r}; give KIND=WEIGHT, like text=8,audio=1,video=1") from None
    return weights


def read_texts(path: Path) -> list[Message]:
    """Read messages, one a line.

    Raises:
        OSError: The file cannot be read.
        ProfileError: It holds no message, or one that the gateway would refuse.
    """
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except UnicodeDecodeError:
        raise ProfileError("messages", f"{path} is not UTF-8; give a text file with a message a line") from None
    for number, line in enumerate(lines, 1):
        if len(line) > TEXT_CHARS_MAX:
            raise ProfileError("messages", f"{path}:{number} has {len(line)} characters; at most {TEXT_CHARS_MAX}")
    if not any(lines):
        raise ProfileError("messages", f"{path} is empty; give a text file with a message a line")
    return [Message("text", line) for line in lines if line]


def read_file(kind: str, path: Path) -> Message:
    """Read a recording or a video.

    Raises:
        OSError: The file cannot be read.
        ProfileError: It is empty, or larger than the gateway takes.
    """
    content = path.read_bytes()
    if not 0 < len(content) <= FILE_BYTES_MAX:
        raise ProfileError(kind, f"{path} has {len(content)} bytes; give 1 to {FILE_BYTES_MAX}")
    return Message(kind, content=content, name=path.name)
