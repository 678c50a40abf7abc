"""An author over a fake chat model, what it is asked to write, and what it says."""

from functools import cache
from pathlib import Path

import emotions
from perception.language import LanguageReader
from perception.text import SentenceReader
from services.mllm.chat.author import ChatAuthor
from services.mllm.chat.reply import ReplyChatPrompt
from services.mllm.chat.settings import ChatSettings
from services.mllm.domain import Message, Profile, ReplyRecord, ReplyRequest, ReplySentence
from services.mllm.reply.exemplars import Exemplars
from tests.fake_chat_models import FakeChatModel

STORE = Exemplars()
LANGUAGES = LanguageReader()
PROMPT = ReplyChatPrompt.load("reply-chat-4")
PROFILE = Profile(name="Anna", age="young", gender="female", timbre="mid")
MESSAGE = Message(text="I lost my job last week and nobody has called me since.")
REQUEST = ReplyRequest(MESSAGE, "lonely", "caring", PROFILE, seed=7)
GOOD = "Losing your job is a heavy blow. I'm here for you."
GERMAN = "Das tut mir wirklich sehr leid f\u00fcr dich. Ich bin da."


@cache
def sentence_reader() -> SentenceReader:
    return SentenceReader(Path(".models"))


def author(model: FakeChatModel, reader: SentenceReader, settings: ChatSettings | None = None) -> ChatAuthor:
    return ChatAuthor(model, settings or ChatSettings(), PROMPT, emotions.load(), STORE, LANGUAGES)


def reply(
    reader: SentenceReader, *answers: str, request: ReplyRequest = REQUEST
) -> tuple[list[str], ReplyRecord, FakeChatModel]:
    model = FakeChatModel(*answers)
    *said, record = author(model, reader).write(request)
    assert isinstance(record, ReplyRecord)
    return [piece.text for piece in said if isinstance(piece, ReplySentence)], record, model
