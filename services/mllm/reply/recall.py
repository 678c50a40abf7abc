"""One true sentence about something that the user said earlier, when what they say now is about the same.

The sentence is made of the recalled words, told back to the user (`second_person`), and judged by the gate like any
other. It is left out rather than forced: a reply without it is a good reply, one that recalls the wrong thing is not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from emotions import Wheel
from services.mllm.domain import Act, Memory, MemoryUse, ReplyRequest
from services.mllm.reply.gate import GOOD_VALENCE, Gate, Situation, sentences, stem, words
from services.mllm.reply.legible import unreadable
from services.mllm.reply.second_person import clause, topic

SIMILARITY_MIN = 0.45
"""To something said in this conversation; `benchmarks/recall.py` prints what it was read off: all right turns lie above
it, none of the others, and of any two stored messages 0.6 %, which among twenty earlier turns is one in nine."""
ELSEWHERE_SIMILARITY_MIN = 0.6
"""To something said in another: among hundreds of turns something is near by chance; 0.03 % of two messages are."""
ASKED_SIMILARITY_MIN = 0.35
"""To something said in this conversation, when the user asks the avatar, as they do when they ask what it remembers: a
question is less like what it asks for than talk about the same is."""
NOTHING_TOLD = frozenset({Act.ABOUT, Act.ANSWER, Act.COMPLAINT, Act.SMALLTALK, Act.THANKS, Act.GOODBYE})
ASKS_MEMORY = re.compile(
    r"\b(?:remember|recall|forg[eo]t|told you|tell you|mention(?:ed)?"
    r"|what(?:'s| is| was| are) (?:my|his|her|their|the name)|who(?:'s| is| was) my"
    r"|do you (?:still )?know (?:my|what|who|how|when|where))\b",
    re.IGNORECASE,
)
"""Of messages that tell nothing new only one that asks for what was told is answered with it."""
SAME_SIMILARITY = 0.9
JUST_SAID_UTTERANCES = 2
"""The user still has these in their ears."""
LONG_AGO_S = 12 * 3600.0

CLAUSE_OPENINGS = ("You told me that", "You mentioned that")
TOPIC_OPENINGS = ("You told me about", "You mentioned")
LONG_AGO_CLAUSE_OPENINGS = ("You once told me that", "You told me once that")
LONG_AGO_TOPIC_OPENINGS = ("You once told me about", "You told me once about")
OPENING = re.compile(r"\b[Yy]ou (?:once )?(?:told me|mentioned)(?: once)? (?:that|about|your)\b")

VIOLENT = re.compile(
    r"\b(rap(?:e|ed|es|ing|ist)|molest\w*|abus\w+|assault\w*|stab\w*|strangl\w*|shot|shoot\w*|murder\w*|tortur\w*"
    r"|(?:beat|beats|slap\w*|punch\w*|choke[sd]?) (?:me|us|him|her|them|my|our|the)"
    r"|(?:hurt|hit|kill|harm)(?:s|ed|ing)? (?:me|us|him|her|them|somebody|someone|people|my|our))\b",
    re.IGNORECASE,
)
"""Violence, suffered or meant: it is not brought up unasked."""
ACCUSED = re.compile(
    r"\b(lie[sd]?|lying|liar|cheat\w*|stole|steal\w*|thief|betray\w*|hit|hits|beat|beats|slap\w*|punch\w*"
    r"|threaten\w*|bull(?:y|ied|ies)|attack\w*|blam\w+|fault|idiots?|stupid|bastard|bitch|asshole|hate[sd]?|useless"
    r"|selfish|lazy|disgust\w*|cruel|evil|monster|racist|drunk\w*|drugs?|kill\w*|own life)\b",
    re.IGNORECASE,
)
"""Who is accused in a memory, the user or another, is not accused again by the avatar."""
NAMED_ONLY_LABELS = frozenset(
    {"guilty", "ashamed", "embarrassed", "contempt", "jealous", "disgusted", "furious", "devastated"}
)
"""What the user is sorry for is not held up to them, their scorn and rage not stirred, their worst hour not retold."""


@dataclass(frozen=True)
class Recalled:
    """The sentence that refers to a memory, empty when none fits, and what became of each memory of the request."""

    sentence: str
    uses: tuple[MemoryUse, ...]


def unused(request: ReplyRequest, reason: str) -> tuple[MemoryUse, ...]:
    """Return the record of a reply that no memory was looked at for."""
    return tuple(MemoryUse(unused=reason) for _ in request.memories)


class Recall:
    """Choice of the memory, and the sentence; `gate` judges it."""

    def __init__(self, wheel: Wheel, gate: Gate) -> None:
        self._wheel, self._gate = wheel, gate

    def sentence(self, request: ReplyRequest, situation: Situation) -> Recalled:
        """Return a sentence about the nearest memory that one can and may speak of."""
        reasons = [next(self._refusals(memory, request), "") for memory in request.memories]
        nearest = sorted(range(len(reasons)), key=lambda place: -request.memories[place].similarity)
        chosen, said = None, ""
        for place in nearest:
            if reasons[place]:
                continue
            if said:
                reasons[place] = "another memory is nearer"
                continue
            said = self._say(request.memories[place], request, situation)
            chosen = place if said else None
            reasons[place] = "" if said else "nothing of it can be said back"
        uses = [MemoryUse(unused=reason) for reason in reasons]
        if chosen is not None:
            uses[chosen] = MemoryUse(sentence=said)
        return Recalled(said, tuple(uses))

    def _refusals(self, memory: Memory, request: ReplyRequest) -> Iterator[str]:
        """Yield why a memory is not to be spoken of; nothing when it may be."""
        history = request.message.history
        in_ears = [one.text for one in history[-JUST_SAID_UTTERANCES:]]
        avatar = [one.text for one in history if one.speaker == "avatar"]
        if request.act in NOTHING_TOLD and not ASKS_MEMORY.search(request.message.text):
            yield "the message tells nothing that it belongs to"
        if memory.text in (*in_ears, request.message.text) or memory.turns_ago == 1:
            yield "was said just now"
        here = ASKED_SIMILARITY_MIN if request.act is Act.ABOUT else SIMILARITY_MIN
        least = here if memory.turns_ago else ELSEWHERE_SIMILARITY_MIN
        if memory.similarity < least:
            yield f"unlike the message: {memory.similarity:.2f}, from {least} on it is used"
        if memory.similarity > SAME_SIMILARITY:
            yield "the message says the same"
        if avatar and OPENING.search(avatar[-1]):
            yield "the last reply spoke of a memory"
        if any(form in text for form, _ in _forms(memory.text) for text in avatar):
            yield "was spoken of in this conversation"
        if _are_of_others(memory.text, request.message.text):
            yield "is about somebody else"
        if VIOLENT.search(memory.text):
            yield "speaks of violence"
        if unreadable(memory.text):
            yield "is not legible"

    def _say(self, memory: Memory, request: ReplyRequest, situation: Situation) -> str:
        situation = replace(situation, context=(*situation.context, memory.text))
        is_tender = self._is_tender(memory, request)
        for form, is_clause in _forms(memory.text):
            if is_clause and is_tender:
                continue
            openings = _openings(memory, is_clause)
            start = request.seed % len(openings)
            for opening in openings[start:] + openings[:start]:
                said = f"{opening} {form}."
                if not self._gate.refusal(said, situation):
                    return said
        return ""

    def _is_tender(self, memory: Memory, request: ReplyRequest) -> bool:
        """Tell whether a memory is only named and not told: an accusation, a deed, a death, joy before a death."""
        then = self._wheel.label(memory.emotion).valence if memory.emotion else 0.0
        is_worst = request.user_emotion == "devastated" or self._gate.is_grave(request.message.text)
        was_good = then >= GOOD_VALENCE and is_worst
        is_accusing = bool(ACCUSED.search(memory.text)) or memory.emotion in NAMED_ONLY_LABELS
        return is_accusing or was_good or self._gate.is_grave(memory.text)


def _forms(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what can be said of `text`, the fullest first, clauses before topics, and whether it is a clause."""
    parts = sentences(text)
    yield from ((told, True) for told in map(clause, parts) if told)
    yield from ((named, False) for named in map(topic, parts) if named)


def _are_of_others(earlier: str, now: str) -> bool:
    """Tell whether both texts name somebody or something of the user's, and not the same."""
    were, are = (" ".join(filter(None, map(topic, sentences(text)))) for text in (earlier, now))
    shared = {stem(word) for word in words(were)} & {stem(word) for word in words(now)}
    shared |= {stem(word) for word in words(are)} & {stem(word) for word in words(earlier)}
    return bool(were and are) and not shared - {"your"}


def _openings(memory: Memory, is_clause: bool) -> tuple[str, ...]:
    if memory.turns_ago or memory.age_s < LONG_AGO_S:
        return CLAUSE_OPENINGS if is_clause else TOPIC_OPENINGS
    return LONG_AGO_CLAUSE_OPENINGS if is_clause else LONG_AGO_TOPIC_OPENINGS
