"""The prompt that a chat model writes the avatar's reply from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Literal

from services.mllm.chat.dialogue import as_data, latest
from services.mllm.chat.model import Turn
from services.mllm.domain import Memory, ReplyRequest, Utterance
from services.mllm.prompts import content_of

NAME_CHARS_MAX = 60
ABOUT_CHARS_MAX = 300
STYLE_CHARS_MAX = 200
"""Of what the profile says of the avatar; it comes from outside."""
MEMORY_CHARS_MAX = 300
"""Of each memory."""
EXAMPLE_CHARS_MAX = 300
"""Of each side of an example."""

_ROLES: Mapping[str, Literal["user", "assistant"]] = {"user": "user", "avatar": "assistant"}


@dataclass(frozen=True)
class ReplyChatPrompt:
    """A versioned prompt file of `services/mllm/prompts`; the fields are its entries.

    Attributes:
        version: Its name.
        about: What follows in `system` when the profile says something of the person.
        style: What follows there when it says how the person talks.
        examples: What follows after `system` when there are examples of how the person answers.
        begin: Where the examples end and the dialogue begins.
        persons: By gender of a profile: the noun.
        languages: By ISO 639-1 code: the English name.
        acts: By what the message does: a hint how to answer that.
    """

    version: str
    system: str
    about: str
    style: str
    examples: str
    begin: str
    user: str
    avatar: str
    memories: str
    memory: str
    feeling: str
    earlier: str
    before: str
    ask: str
    persons: Mapping[str, str]
    languages: Mapping[str, str]
    acts: Mapping[str, str]

    @classmethod
    def load(cls, version: str) -> "ReplyChatPrompt":
        """Reads the prompt called `version`.

        Raises:
            ValueError: There is none; the message lists those there are.
        """
        content = content_of(version, "reply-chat-*", "E3RG_MLLM_REPLY_PROMPT")
        persons, languages, acts = (content.pop(table) for table in ("persons", "languages", "acts"))
        texts = {name: text.strip("\n") for name, text in content.items()}
        return cls(version=version, persons=persons, languages=languages, acts=acts, **texts)

    def turns(
        self, request: ReplyRequest, history: Sequence[Utterance], language: str, memories: Sequence[Memory] = ()
    ) -> tuple[Turn, ...]:
        """Returns the prompt: a system turn, then user and assistant in turn, the user last.

        Chat templates refuse two turns of one role in a row: these are joined.

        Args:
            request: What to reply to.
            history: What of the dialogue before it is told; see `told`.
            language: In which the reply is wanted, ISO 639-1.
            memories: What is told of what the user said before that history.
        """
        profile = request.profile
        name = _brief(profile.name) or "the listener"
        person = self.persons.get(profile.gender, "person")
        about = self.about.format(text=as_data(profile.about)[:ABOUT_CHARS_MAX]) if profile.about.strip() else ""
        talks = as_data(profile.speaking_style)[:STYLE_CHARS_MAX]
        style = self.style.format(text=talks) if profile.speaking_style.strip() else ""
        system = self.system.format(name=name, age=_brief(profile.age), person=person, about=about, style=style)
        if request.examples:
            system += f"\n{self.examples}"
        turns = [Turn("system", system)]
        for example in reversed(request.examples):  # the nearest stands last, where a model looks most
            _append(turns, "user", self.user.format(text=as_data(example.user_text)[:EXAMPLE_CHARS_MAX]))
            _append(turns, "assistant", self.avatar.format(text=as_data(example.reply_text)[:EXAMPLE_CHARS_MAX]))
        if request.examples:
            _append(turns, "user", self.begin)
        for one in history:
            _append(turns, _ROLES[one.speaker], self._line(one))
        _append(turns, "user", self._line(Utterance("user", request.message.text)))
        if memories:
            recalled = "\n".join(map(self._recalled, memories))
            _append(turns, "user", f"\n{self.memories.format(recalled=recalled)}")
        ask = self.ask.format(
            name=name,
            user_emotion=request.user_emotion,
            reply_emotion=request.reply_emotion,
            language=self.languages.get(language, _brief(language)),
        )
        hint = self.acts.get(request.act, "")
        _append(turns, "user", "\n" + "\n".join(filter(None, (hint, ask))))
        return tuple(turns)

    def _recalled(self, memory: Memory) -> str:
        feeling = self.feeling.format(emotion=memory.emotion) if memory.emotion else ""
        when = self.earlier if memory.turns_ago else self.before
        return self.memory.format(when=when, feeling=feeling, text=as_data(memory.text)[:MEMORY_CHARS_MAX])

    def _line(self, utterance: Utterance) -> str:
        form = self.user if utterance.speaker == "user" else self.avatar
        return form.format(text=as_data(utterance.text))


def told(history: Sequence[Utterance], turns_max: int, chars_max: int) -> tuple[Utterance, ...]:
    """Returns the end of `history` that a reply is written from.

    It begins with the user: chat templates refuse a dialogue that the assistant opens.

    Args:
        history: Oldest first.
        turns_max: Utterances that may stand in it.
        chars_max: Their characters in all.
    """
    kept = latest(history, turns_max, chars_max)
    return tuple(dropwhile(lambda utterance: utterance.speaker == "avatar", kept))


def _append(turns: list[Turn], role: Literal["user", "assistant"], text: str) -> None:
    if turns[-1].role == role:
        turns[-1] = Turn(role, f"{turns[-1].text}\n{text}")
    else:
        turns.append(Turn(role, text))


def _brief(text: str) -> str:
    return as_data(text)[:NAME_CHARS_MAX]
