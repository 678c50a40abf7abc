"""What is wrong with a sentence of a reply: nothing in it, no beginning, another's words, or another language."""

import re
from collections.abc import Iterable, Sequence

from perception.language import LanguageReader
from services.mllm.chat.model import Turn

RUN_WORDS = 6
"""As many words in a row, taken over from the instructions or the user's message, are a repetition of the prompt."""
RUN_LETTERS = 12
"""The same in scripts that write a word in one or two letters."""
RECALLED_WORDS = 9
"""In earlier turns: a kind phrase ("I am so sorry to hear that") may be said again."""
WHOLE_WORDS_MIN = 4
"""A whole sentence of fewer words ("I see.") may stand in the prompt by chance."""
LABELS_MAX = 4
"""More labels of the wheel in one sentence are the list of labels."""

_AS_THE_USER = re.compile(r"\W*(the other person|other person|user|speaker)\W*[:\uff1a]", re.IGNORECASE)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+(?:'[^\W_]+)?")


class Faults:
    """Judges sentences of a reply to `turns`.

    Args:
        turns: The prompt; the last turn holds `message`.
        lead: With what a turn of the user begins in it.
        message: What the user said.
        language: Of the user, ISO 639-1.
        labels: Of the wheel.
        reader: Tells languages.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        lead: str,
        message: str,
        language: str,
        labels: Iterable[str],
        reader: LanguageReader,
    ) -> None:
        self._language, self._reader = language, reader
        self._labels = frozenset(labels)
        self._lead, self._message = _words(lead), _words(message)
        self._prompt = _line((turns[0].text, turns[-1].text))
        self._recalled = _line(turn.text for turn in turns[1:-1])

    def of(self, sentence: str) -> str:
        """Returns what is wrong with `sentence`, or an empty string."""
        spoken = _words(sentence)
        if not spoken:
            return "empty"
        if _AS_THE_USER.match(sentence):
            return "speaks as the user"
        if sentence.lstrip()[0].islower():
            return "begins in the middle"
        is_whole = len(spoken) >= WHOLE_WORDS_MIN and f" {' '.join(spoken)} " in self._prompt
        is_message = len(spoken) >= WHOLE_WORDS_MIN - 1 and spoken == self._message
        is_partly = _shares(spoken, self._prompt, RUN_WORDS) or _shares(spoken, self._recalled, RECALLED_WORDS)
        is_led = bool(self._lead) and spoken[: len(self._lead)] == self._lead
        is_list = len(self._labels.intersection(spoken)) > LABELS_MAX
        if is_whole or is_message or is_partly or is_led or is_list:
            return "repeats the prompt"
        if self._reader.leaves(sentence, self._language):
            return f"leaves the language {self._language}"
        return ""


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def _line(texts: Iterable[str]) -> str:
    """The words of `texts` with a space around each, and two between texts."""
    return "".join(f" {' '.join(_words(text))} " for text in texts)


def _shares(spoken: Sequence[str], line: str, length: int) -> bool:
    """Tells whether so many words in a row of a sentence stand in `line`."""
    # The sentence decides: a prompt is English but for what is quoted in it.
    is_by_letters = sum(len(word) == 1 for word in spoken) * 2 > len(spoken)
    size = length * RUN_LETTERS // RUN_WORDS if is_by_letters else length
    return any(f" {' '.join(spoken[at : at + size])} " in line for at in range(len(spoken) - size + 1))
