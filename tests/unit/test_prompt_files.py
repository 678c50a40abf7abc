"""A prompt file is named by a setting; a wrong name is refused by that setting's name with the known ones."""

import re

import pytest

from services.mllm.chat.question import EmotionPrompt
from services.mllm.chat.reply import ReplyChatPrompt
from services.mllm.language.vote import VotePrompt

KINDS = [
    (EmotionPrompt, "EMOTION_PROMPT", ["emotion-1", "emotion-plain-1"]),
    (ReplyChatPrompt, "REPLY_PROMPT", ["reply-chat-4"]),
    (VotePrompt, "VOTE_PROMPT", ["vote-1", "vote-2"]),
]
WRONG = ["", "emotion-0", "reply-chat-0", "vote-0", "../prompts/emotion-1", "__init__"]
Kind = type[EmotionPrompt | ReplyChatPrompt | VotePrompt]


@pytest.mark.parametrize(("kind", "setting", "known"), KINDS)
def test_every_file_of_a_kind_is_called_by_its_name(kind: Kind, setting: str, known: list[str]) -> None:
    assert [kind.load(name).version for name in known] == known


@pytest.mark.parametrize(("kind", "setting", "known"), KINDS)
def test_a_wrong_name_is_refused_with_the_setting_and_the_names_of_that_kind(
    kind: Kind, setting: str, known: list[str]
) -> None:
    others = [name for _, _, names in KINDS for name in names if name not in known]
    for name in WRONG + others:
        problem = f"E3RG_MLLM_{setting} is {name!r}; it must be one of: {', '.join(known)}"
        with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
            kind.load(name)
