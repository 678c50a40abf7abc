"""Sentence that tells the user's words back at the beginning of a reply, as "So the biopsy came back clear" does.

It is done where the caller says that the tone bears it, and is left out rather than forced: of a failure, a death or a
deed nobody wants to hear it said again.
"""

import re

from services.mllm.domain import ReplyRequest
from services.mllm.reply.gate import Gate, sentences, words
from services.mllm.reply.recall import ACCUSED, VIOLENT
from services.mllm.reply.second_person import clause

OPENING = "So"
WORDS_MIN, WORDS_MAX = 4, 12
PAUSE_REPLIES = 2
"""After a reply that began so, this many begin otherwise."""
HELPERS = {"is", "are", "was", "were", "has", "have", "had", "will", "can", "do", "does", "did", "be", "been"}
"""None of them ends a clause of which nothing was cut off."""
SORE = re.compile(
    r"\b(fail\w*|los[et]|losing|miss\w*|bro?ke\w*|wrong|never|no|not|nobody|nothing|none|without|reject\w*|refus\w*"
    r"|turned down|laugh\w*|cry|cried|hurt\w*|alone|lonely|ugly|fat|old|worthless|asham\w*|embarrass\w*|sex|naked|drunk"
    r"|thank god|lol|lmao|omg|haha\w*|pregnan\w*|debt\w*|owe[sd]?|fired|dump\w*|only|still|even)\b|n't\b",
    re.IGNORECASE,
)
"""Nobody likes to be told back what is sore, and "only" and "still" change their meaning when another says them."""

CUT = re.compile(r"\b(?:but|except|unless|though|although|ago)\b", re.IGNORECASE)
"""What a clause is cut before, though it would say something else without it."""


def restated(request: ReplyRequest, gate: Gate) -> str:
    """Returns the sentence that begins the reply, empty where none should."""
    first = next(iter(sentences(request.message.text)), "")
    said = [turn.text for turn in request.message.history if turn.speaker == "avatar"]
    if not request.may_restate or any(text.startswith(f"{OPENING} ") for text in said[-PAUSE_REPLIES:]):
        return ""
    told = clause(first, is_past=False)
    if not WORDS_MIN <= len(words(told)) <= WORDS_MAX or words(told)[-1] in HELPERS or gate.is_grave(first):
        return ""
    if CUT.search(first) and not CUT.search(told):
        return ""
    return "" if any(found.search(told) for found in (SORE, ACCUSED, VIOLENT)) else f"{OPENING} {told}."
