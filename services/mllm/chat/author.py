"""Writes the avatar's reply with a chat model: streamed, cut at sentences, each judged before it is said."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from emotions import Wheel
from perception.language import LanguageReader
from services.common.errors import BackendFailed
from services.mllm.chat.faults import Faults
from services.mllm.chat.model import ChatModel, Sampling, pieces_of
from services.mllm.chat.reply import ReplyChatPrompt, told
from services.mllm.chat.sentences import Sentences
from services.mllm.chat.settings import ChatSettings
from services.mllm.chat.speakable import speakable
from services.mllm.chat.thoughts import without_thoughts
from services.mllm.domain import MemoryUse, ReplyRecord, ReplyRequest, ReplySentence, check_order
from services.mllm.reply.exemplars import Exemplars
from services.mllm.reply.gate import Gate
from services.mllm.reply.stored import general_reply, situation_of

TRIES = 2
"""The whole reply is begun anew once."""
TOLD = "stands in the history"
"""Why a memory was not put into the prompt."""
STORED_LANGUAGE = "en"
"""Of the stored replies."""
ENDS = tuple(".!?\u2026\u3002\uff01\uff1f\"'\u201d\u300d)")

PAUSES = " ,;-\u2013\u2014"


@dataclass
class _Account:
    """What is put on record of a reply while it is written."""

    rejected: list[str] = field(default_factory=list)
    uses: tuple[MemoryUse, ...] = ()
    examples: int = 0
    tries: int = 0
    unread: int = 0

    def record(self, degraded: str = "") -> ReplyRecord:
        retries = max(0, self.tries - 1)
        # Of a reply in free words nobody can tell which memory is in it, only which ones the model read.
        uses = tuple(MemoryUse(unused=degraded) if degraded else use for use in self.uses)
        examples = 0 if degraded else self.examples
        return ReplyRecord(degraded, self.tries, tuple(self.rejected), retries, self.unread, uses, examples)


class ChatAuthor:
    """Writes replies with `model`; stored ones stand in."""

    def __init__(
        self,
        model: ChatModel,
        settings: ChatSettings,
        prompt: ReplyChatPrompt,
        wheel: Wheel,
        exemplars: Exemplars,
        languages: LanguageReader,
    ) -> None:
        self._model, self._settings, self._prompt, self._wheel = model, settings, prompt, wheel
        self._exemplars, self._languages = exemplars, languages
        self._gate = Gate(exemplars.replies())

    def write(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        """Yields the reply's sentences, each as soon as it is written, then its record.

        A reply whose first sentence is empty, repeats the prompt or leaves the user's language is begun anew with the
        next seed; when that fails too, a stored reply stands in ("exemplar"). At a later sentence with such a fault
        the reply ends. Once `request.stop` is set it ends at the model's next piece, without a record.

        Raises:
            InvalidRequest: The message has no text, or an emotion is no label of the wheel.
            BackendFailed: The model failed; or its reply was refused twice and the user speaks another language than
                the stored replies, so that none can stand in.
        """
        check_order(request, self._wheel)
        return self._reply(request)

    def _reply(self, request: ReplyRequest) -> Iterator[ReplySentence | ReplyRecord]:
        account = _Account(uses=(MemoryUse(),) * len(request.memories))
        language = self._language(request)
        while account.tries < TRIES:
            is_said = yield from self._try(request, language, account)
            if request.stop.is_set():
                return
            if is_said:
                yield account.record()
                return
        if language != STORED_LANGUAGE:
            refused = "; ".join(account.rejected)
            raise BackendFailed(
                f"no reply in {language!r} that can be said, and the stored ones are English: {refused}"
            )
        situation = situation_of(request, self._wheel)
        stored = general_reply(request, situation, self._exemplars, self._gate, self._wheel)
        yield from map(ReplySentence, stored)
        yield account.record("exemplar")

    def _try(self, request: ReplyRequest, language: str, account: _Account) -> Generator[ReplySentence, None, bool]:
        """Writes the reply once; returns whether anything of it was said."""
        settings = self._settings
        history = told(request.message.history, settings.history_turns_max, settings.history_chars_max)
        account.unread = len(request.message.history) - len(history)
        heard = {one.text for one in history}
        memories = [memory for memory in request.memories if memory.text not in heard]
        account.uses = tuple(
            MemoryUse(is_read=True) if memory in memories else MemoryUse(unused=TOLD) for memory in request.memories
        )
        account.examples = len(request.examples)
        turns = self._prompt.turns(request, history, language, memories)
        seed = (request.seed + account.tries) & 0x7FFFFFFF
        sampling = Sampling(settings.reply_tokens_max, settings.temperature, settings.top_p, seed)
        account.tries += 1
        lead, labels = self._prompt.user.partition("{text}")[0], self._wheel.labels
        faults = Faults(turns, lead, request.message.text, language, labels, self._languages)
        said, written = 0, ""
        with closing(pieces_of(self._model, turns, sampling, request.stop.is_set)) as pieces:
            for sentence, is_whole in _cut(pieces, settings.reply_tokens_max):
                if request.stop.is_set():
                    return False
                text = speakable(sentence, request.profile.name)
                written = written or sentence
                if not text:
                    continue  # a name of a role or a stage direction on its own
                fault = faults.of(text) if is_whole else "unfinished"
                if fault:
                    # What comes after it is of no better kind: in the other language, or more of the prompt.
                    account.rejected.append(f"{fault}: {text}")
                    return said > 0
                yield ReplySentence(text if text.endswith(ENDS) else f"{text.rstrip(PAUSES)}.")
                said += 1
                if said == settings.reply_sentences_max:
                    break
        if not said:
            account.rejected.append(f"empty: {written}")
        return said > 0

    def _language(self, request: ReplyRequest) -> str:
        """The language that the user surely speaks, in this message or else before it; else the avatar's."""
        before = " ".join(one.text for one in request.message.history if one.speaker == "user")
        found = (self._languages.language_of(text) for text in (request.message.text, before))
        return next(filter(None, found), "") or request.profile.language.replace("_", "-").split("-")[0].lower()


def _cut(pieces: Iterable[str], chars_unfinished_min: int) -> Iterator[tuple[str, bool]]:
    """Yields the sentences of a stream, and of each whether it is whole.

    A last one without a mark at its end was cut off by the limit of tokens if the reply has as many characters as that
    has tokens; a shorter reply only lacks its full stop.
    """
    cutter, chars = Sentences(), 0
    for piece in without_thoughts(pieces):
        chars += len(piece)
        for sentence in cutter.add(piece):
            yield sentence, True
    if rest := cutter.finish():
        yield rest, chars < chars_unfinished_min or rest.endswith(ENDS)
