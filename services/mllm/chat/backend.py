"""Makes a voter and a writer of any chat model."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import emotions
from perception.language import LanguageReader
from perception.text import SentenceReader
from services.mllm.chat.author import ChatAuthor
from services.mllm.chat.model import ChatModel
from services.mllm.chat.question import EmotionPrompt
from services.mllm.chat.reply import ReplyChatPrompt
from services.mllm.chat.settings import ChatSettings
from services.mllm.chat.shots import Shots
from services.mllm.chat.voter import ChatVoter
from services.mllm.domain import (
    AUDIO_RATE_HZ,
    Card,
    Frame,
    Level,
    Message,
    Modality,
    Prediction,
    Profile,
    ReplyRecord,
    ReplyRequest,
    ReplySentence,
)
from services.mllm.reply.exemplars import Exemplars


class ChatBackend:
    """Votes over the wheel's labels and writes replies with `model`.

    Raises:
        ValueError: There is no prompt file of that name.
        FileNotFoundError: The reader of sentences in `models_dir` is missing.
    """

    def __init__(self, model: ChatModel, settings: ChatSettings) -> None:
        wheel, exemplars = emotions.load(), Exemplars()
        reader = SentenceReader(settings.models_dir)
        question, order = EmotionPrompt.load(settings.emotion_prompt), ReplyChatPrompt.load(settings.reply_prompt)
        self._model = model
        self._voter = ChatVoter(
            model, settings, question, tuple(wheel.labels), Shots(exemplars, reader, settings.shots)
        )
        self._author = ChatAuthor(model, settings, order, wheel, exemplars, LanguageReader())
        self.card = Card(
            model=model.name,
            digest=model.digest,
            perceives=model.perceives,
            level=Level.LABEL,
            prompt_version=f"{question.version}+{order.version}",
        )

    def predict(self, message: Message) -> Prediction:
        """Votes; see `ChatVoter.predict`."""
        return self._voter.predict(message)

    def write(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        """Writes the reply; see `ChatAuthor.write`."""
        return self._author.write(request)

    def warm_up(self) -> None:
        """Asks the model once for each operation, with all that it perceives, so that the first caller does not wait.

        Raises:
            BackendFailed: The model fails at that.
        """
        message = Message(text="I am home.")
        if Modality.AUDIO in self._model.perceives:
            message = replace(message, audio=np.zeros(AUDIO_RATE_HZ, np.float32))
        if Modality.VIDEO in self._model.perceives:
            message = replace(message, frames=(Frame(0.0, np.zeros((224, 224, 3), np.uint8)),))
        self.predict(message)
        profile = Profile(name="Anna", age="young", gender="female", timbre="mid")
        list(self.write(ReplyRequest(Message(text=message.text), "content", "content", profile)))

    def close(self) -> None:
        """Frees the model."""
        self._model.close()
