"""A chat as the tokens of one model, by the model's own chat template."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from services.mllm.chat.model import Turn
from services.mllm.chat.template import PROBE, ChatTemplate, Marks, messages_of, names
from services.mllm.decoding.prefix import Answers


class ChatFormat:
    """How chats are written for one model.

    Args:
        tokenizer: A tokenizer of transformers.
        template: Replaces the tokenizer's own.
        stops: Tokens that end an answer, besides the tokenizer's and the template's own.

    Raises:
        ValueError: There is no template, or it does not close the assistant's turns with a special token.
    """

    def __init__(self, tokenizer: Any, template: ChatTemplate | None = None, stops: Iterable[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._jinja = template.jinja if template else tokenizer.chat_template
        if not self._jinja:
            known = ", ".join(names())
            raise ValueError(f"the tokenizer has no chat template; name one by E3RG_MLLM_CHAT_TEMPLATE: {known}")
        special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
        own = template.marks if template else ()
        self._marks = Marks({*own, *(one for one in special if one.strip() and len(one) > 1)})
        self._special = frozenset(tokenizer.convert_tokens_to_ids(sorted(special)))
        self._takes_system = self._has_system_role()
        self._end = self._end_of_turn()
        self.stops = frozenset({self._end, *stops} | {tokenizer.eos_token_id} - {None})

    def messages(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        """Returns `turns` as the template takes them, with no special token of this tokenizer in their text."""
        return messages_of(turns, self._takes_system, self._marks)

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Returns the chat as one text that ends where the model's answer begins."""
        return self._render(messages, asks=True)

    def tokens(self, text: str) -> list[int]:
        """Returns the tokens of a rendered chat; special tokens in it count as such."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def answers(self, answers: Sequence[str]) -> Answers:
        """Returns `answers` as the template writes them after any prompt that ends with the user's turn.

        The whole chat is rendered with the answer in it, so that a space or a line that the template puts before an
        answer is there, and what the tokenizer merges across the boundary is merged.
        """
        asked = [{"role": "user", "content": PROBE}]
        prompt = self.tokens(self._render(asked, asks=True))
        chats = []
        for answer in answers:
            said = [*asked, {"role": "assistant", "content": answer}]
            chats.append(self.tokens(self._render(said, asks=False)))
        kept = min(_common(prompt, chat) for chat in chats)
        return Answers(tuple(self._until_end(chat[kept:]) for chat in chats), tuple(prompt[kept:]))

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of an answer's tokens."""
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _render(self, messages: Sequence[Mapping[str, Any]], asks: bool) -> str:
        text = self._tokenizer.apply_chat_template(
            list(messages),
            chat_template=self._jinja,
            tokenize=False,
            add_generation_prompt=asks,
            enable_thinking=False,  # a vote has a deadline; templates that know no thoughts ignore it
        )
        return str(text)

    def _has_system_role(self) -> bool:
        """Tells whether the template writes a system turn; some raise an error instead, some leave it out."""
        try:
            text = self._render([{"role": "system", "content": PROBE}, {"role": "user", "content": "a"}], asks=True)
        except TemplateError:
            return False
        return PROBE in text

    def _end_of_turn(self) -> int:
        asked = [{"role": "user", "content": "a"}]
        prompt = self.tokens(self._render(asked, asks=True))
        chat = self.tokens(self._render([*asked, {"role": "assistant", "content": PROBE}], asks=False))
        for token in chat[_common(prompt, chat) :]:
            if token in self._special:
                return token
        raise ValueError(
            "the chat template ends the assistant's turn with none of the tokenizer's special tokens; "
            "name another by E3RG_MLLM_CHAT_TEMPLATE"
        )

    def _until_end(self, tokens: Sequence[int]) -> tuple[int, ...]:
        return tuple(tokens[: tokens.index(self._end) + 1])


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Returns how many tokens both begin with."""
    for place, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return place
    return min(len(one), len(other))
