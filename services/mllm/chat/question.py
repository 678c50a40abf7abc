"""The question for the emotion of a message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.mllm.chat.dialogue import as_data
from services.mllm.chat.model import Turn
from services.mllm.domain import Message, Modality, Utterance
from services.mllm.prompts import content_of


@dataclass(frozen=True)
class EmotionPrompt:
    """A versioned prompt file of `services/mllm/prompts`; the fields are its entries.

    Attributes:
        version: Its name.
        beside: Patterns of what is said beside an answer and is none.
        forms: By label: other words that mean it in an answer.
    """

    version: str
    system: str
    task: str
    examples: str
    example: str
    form: str
    dialogue: str
    user: str
    avatar: str
    wordless: str
    audio: str
    video: str
    both: str
    ask: str
    answer: str
    beside: tuple[str, ...]
    forms: Mapping[str, tuple[str, ...]]

    @classmethod
    def load(cls, version: str) -> "EmotionPrompt":
        """Reads the prompt called `version`.

        Raises:
            ValueError: There is none; the message lists those there are.
        """
        content = content_of(version, "emotion-*", "E3RG_MLLM_EMOTION_PROMPT")
        beside, forms = tuple(content.pop("beside")), content.pop("forms")
        return cls(
            version=version,
            beside=beside,
            forms={label: tuple(words) for label, words in forms.items()},
            **{name: text.strip("\n") for name, text in content.items()},
        )

    def turns(
        self,
        message: Message,
        history: Sequence[Utterance],
        examples: Sequence[tuple[str, str]],
        labels: Sequence[str],
        saw: frozenset[Modality],
    ) -> tuple[Turn, ...]:
        """Returns the question: a system turn and one user turn, which ends where the answer begins.

        What stays the same from turn to turn comes first, so that a model that keeps what it read reads it once.

        Args:
            message: Whose emotion is asked for.
            history: What came before and fits.
            examples: Messages with their labels.
            labels: What may be answered.
            saw: What the model gets of the message.
        """
        parts = [self.task.format(labels=", ".join(labels)), self.form]
        if examples:
            solved = [self.example.format(text=as_data(text), label=label) for text, label in examples]
            parts.append("\n".join((self.examples, *solved)))
        parts.append("\n".join((self.dialogue, *self._lines(message, history, saw))))
        parts.append("\n".join((self.ask, self.answer)))
        return (
            Turn("system", self.system),
            Turn(
                "user",
                "\n\n".join(parts),
                audio=message.audio if Modality.AUDIO in saw else None,
                frames=message.frames if Modality.VIDEO in saw else (),
            ),
        )

    def _lines(self, message: Message, history: Sequence[Utterance], saw: frozenset[Modality]) -> list[str]:
        lines = [
            (self.user if one.speaker == "user" else self.avatar).format(text=as_data(one.text)) for one in history
        ]
        lines.append(self.user.format(text=as_data(message.text)) if Modality.TEXT in saw else self.wordless)
        attached = saw - {Modality.TEXT}
        if attached == {Modality.AUDIO}:
            lines.append(self.audio)
        elif attached == {Modality.VIDEO}:
            lines.append(self.video)
        elif attached:
            lines.append(self.both)
        return lines
