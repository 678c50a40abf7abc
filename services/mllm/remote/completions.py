"""Reads chat completions as OpenAI's library hands them on: as they came, whatever came."""

from typing import Any

from services.mllm.remote.alternatives import Token


def piece_of(chunk: Any) -> tuple[str, bool]:
    """Returns the text of a chunk, and whether it is the last one with text. One that counts tokens has neither."""
    if not chunk.choices:
        return "", False
    choice = chunk.choices[0]
    return choice.delta.content or "", choice.finish_reason is not None


def text_of(answer: Any) -> tuple[str, list[Token]]:
    """Returns the text of a completion, and its tokens where the server tells them."""
    choice = answer.choices[0]
    content = choice.logprobs.content if choice.logprobs else None
    tokens = [
        Token(_text(one.token), {_text(other.token): other.logprob for other in [*(one.top_logprobs or ()), one]})
        for one in content or ()
    ]
    return choice.message.content or "", tokens


def _text(token: str) -> str:
    """Returns a token's text; some servers leave the tokenizer's mark for a space in it."""
    return token.replace("\u2581", " ").replace("\u0120", " ")
