"""The gate: refuses a sentence that a kind, sensible person would not say in this situation, and says why.

It judges the user's words told back, the identity's own examples and stored replies to other messages: said here they
may be untrue, mix up who is speaking, say a thing again or cheer at the wrong moment. Each rule catches one of these by
looking at words only; a sentence passes when no rule speaks up. The strictest rule is "ungrounded": every word must
come from what the user said, or from those words of the stored replies that name no concrete thing, number or
circumstance.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources

SENTENCE_WORDS_MIN = 2
SENTENCE_WORDS_MAX = 26
ECHO_RUN_WORDS = 6
"""As many words in a row, taken over from the message, are an echo."""
ECHO_SHARE = 0.75
REPEAT_SHARE = 0.67
BAD_VALENCE, GOOD_VALENCE = -0.3, 0.4
"""The user feels bad below the first and good above the second (`emotions.Label.valence`)."""

FIGURES = re.compile(
    r"\b(dying|killing me|kill me) (to|of|for|with)"
    r" (laugh\w*|see|know|hear|meet|boredom|curiosity|embarrassment|shame)\b"
    r"|\b(die|died|dying) ((of|from|with) )?(laugh\w*|embarrassment|shame|boredom|excitement)\b"
    r"|\b(don't|do not|didn't) want to die\b|\brather die than (?!live|go on|be alive|wake)"
)
"""Ways of speaking that mean nothing of the kind."""
CHARSET = re.compile(r"[A-Za-z' ,;.!?-]+")
COMPOUND = re.compile(r"[a-z']+(?:-[a-z']+)+")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
FIRST_PERSON = re.compile(r"\b(i|i'm|i'd|i've|i'll|me|my|mine|myself|we|we're|we've|we'll|our|ours|us|let's)\b")
DANGLING = re.compile(r"\b(a|an|the|and|my|your|or|but|very|because|if|than)[.!?]$")
KNOWN_COMPOUNDS = {"mix-up", "grown-up"}
MALE = {"he", "him", "his", "he's", "himself"}
FEMALE = {"she", "her", "hers", "she's", "herself"}
CONTENT_CHARS_MIN = 4
DOUBLED = re.compile(r"\b(\w+) (?:after|and|by) \1\b")
"""A word said twice on purpose, as in "night after night"."""
MAY_RECUR = set(
    WORD.findall(
        """
        that that's this these them they your you're yours have having with from it's there when what will would
        been being more much very just some hope hoping after every
        """
    )
)
"""Any other longer word that comes twice in a sentence sounds like a stammer."""
SUFFIXES = ("ingly", "fully", "ness", "ing", "ies", "ied", "ed", "es", "ly", "er", "s", "y", "e")


@dataclass(frozen=True)
class Situation:
    """What a sentence is judged against.

    Attributes:
        message: What the user said this turn.
        valence: Of the user's emotion, -1 to 1.
        said: The sentences of this reply so far.
        earlier: What the avatar said in earlier turns.
        context: What the user said in earlier turns.
        name: The avatar's name.
    """

    message: str
    valence: float
    said: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    name: str = ""


class Gate:
    """The rules with their word lists. `replies` are the stored replies with their labels."""

    def __init__(self, replies: Iterable[tuple[str, str]]) -> None:
        content = tomllib.loads(resources.files("services.mllm.reply").joinpath("gate.toml").read_text("utf-8"))
        self.version: str = content["version"]
        self._allowed = _any(content["first_person"])
        self._claim = _any(content["claim"])
        self._unsafe = _any(content["unsafe"])
        self._advice = _any(content["advice"])
        self._meta = _any(content["meta"])
        self._cheer = re.compile(content["cheer"])
        self._cheer_safe = _any(content["cheer_safe"])
        self._sorrow = re.compile(content["sorrow"])
        self._grave = re.compile(content["grave"])
        self._condolence = re.compile(content["condolence"])
        self._death = re.compile(content["death"])
        stored = {stem(word) for _, reply in replies for word in words(reply)}
        concrete = {stem(word) for word in words(content["concrete"])}
        self._common = (stored - concrete) | {stem(word) for word in words(content["common"])}
        self._circumstances = [(re.compile(said), re.compile(heard)) for said, heard in content["circumstances"]]
        self._male, self._female = set(words(content["male"])), set(words(content["female"]))
        self._anybody = set(words(content["anybody"]))
        self._rules: dict[str, Callable[[str, Situation], bool]] = {
            "incomplete": _incomplete,
            "charset": _charset,
            "length": _length,
            "meta": lambda text, _: bool(self._meta.search(text.lower())),
            "unsafe": lambda text, _: bool(self._unsafe.search(text.lower())),
            "false claim": lambda text, _: bool(self._claim.search(text.lower())),
            "role confusion": self._role,
            "advice": lambda text, _: bool(self._advice.search(text.lower())),
            "echo": _echo,
            "repetition": _repetition,
            "questions": _questions,
            "polarity": self._polarity,
            "person": self._person,
            "ungrounded": self._ungrounded,
        }

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules, in the order in which they are asked."""
        return tuple(self._rules)

    def refusal(self, sentence: str, situation: Situation) -> str:
        """Returns the name of the first rule that refuses `sentence`, or an empty string when it passes."""
        for name, refuses in self._rules.items():
            if refuses(sentence, situation):
                return name
        return ""

    def is_grave(self, message: str) -> bool:
        """Tells whether the message speaks of death, illness, violence or ruin."""
        return bool(self._grave.search(FIGURES.sub(" ", message.lower())))

    def _role(self, text: str, situation: Situation) -> bool:
        rest = self._allowed.sub(" ", text.lower())
        speaks_as_user = bool(FIRST_PERSON.search(rest))
        names_itself = bool(situation.name) and situation.name.lower() in words(text)
        return speaks_as_user or names_itself

    def _polarity(self, text: str, situation: Situation) -> bool:
        spoken, message = text.lower(), situation.message.lower()
        if self._condolence.search(spoken) and not self._death.search(message):
            return True
        if situation.valence <= BAD_VALENCE or self.is_grave(message):
            return bool(self._cheer.search(self._cheer_safe.sub(" ", spoken)))
        return situation.valence >= GOOD_VALENCE and bool(self._sorrow.search(spoken))

    def _person(self, text: str, situation: Situation) -> bool:
        heard = {word.removesuffix("'s") for said in (situation.message, *situation.context) for word in words(said)}
        spoken = set(words(text))
        male, female = bool(heard & (MALE | self._male)), bool(heard & (FEMALE | self._female))
        anybody = bool(heard & self._anybody)
        if spoken & MALE and not (male or (anybody and not female)):
            return True
        return bool(spoken & FEMALE) and not (female or (anybody and not male))

    def _ungrounded(self, text: str, situation: Situation) -> bool:
        heard = " ".join((situation.message, *situation.context))
        known = self._common.union(stem(word) for word in words(heard))
        if any(stem(word) not in known for word in words(text)):
            return True
        spoken, heard = text.lower(), heard.lower()
        return any(said.search(spoken) and not implied.search(heard) for said, implied in self._circumstances)


def words(text: str) -> list[str]:
    """Returns the lower-case words of `text`, apostrophes kept."""
    return WORD.findall(text.lower().replace("\u2019", "'"))


def stem(word: str) -> str:
    """Cuts the endings of `word` so that its forms meet; crude, but the same crudeness on both sides."""
    word = word.removesuffix("'s")
    for suffix in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word.removesuffix(suffix)
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def sentences(text: str) -> tuple[str, ...]:
    """Splits `text` after every full stop, exclamation and question mark."""
    return tuple(part.strip() for part in re.findall(r"[^.!?]+[.!?]*", text) if part.strip())


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def _incomplete(text: str, _: Situation) -> bool:
    return not text or text[-1] not in ".!?" or not text[0].isupper() or bool(DANGLING.search(text.lower()))


def _charset(text: str, situation: Situation) -> bool:
    invented = set(COMPOUND.findall(text.lower())) - set(COMPOUND.findall(situation.message.lower())) - KNOWN_COMPOUNDS
    return CHARSET.fullmatch(text) is None or bool(invented)


def _length(text: str, _: Situation) -> bool:
    return not SENTENCE_WORDS_MIN <= len(words(text)) <= SENTENCE_WORDS_MAX


def _echo(text: str, situation: Situation) -> bool:
    spoken, heard = words(text), words(situation.message)
    runs = {tuple(heard[i : i + ECHO_RUN_WORDS]) for i in range(len(heard) - ECHO_RUN_WORDS + 1)}
    if any(tuple(spoken[i : i + ECHO_RUN_WORDS]) in runs for i in range(len(spoken) - ECHO_RUN_WORDS + 1)):
        return True
    taken = sum(word in heard for word in spoken)
    return len(spoken) > 6 and taken / len(spoken) >= ECHO_SHARE


def _repetition(text: str, situation: Situation) -> bool:
    spoken = words(text)
    triples = [tuple(spoken[i : i + 3]) for i in range(len(spoken) - 2)]
    if len(set(triples)) < len(triples) or _says_twice(text):
        return True
    for earlier in (*situation.said, *(s for turn in situation.earlier for s in sentences(turn))):
        before = words(earlier)
        if before[:3] == spoken[:3] or (spoken and sum(word in before for word in spoken) / len(spoken) > REPEAT_SHARE):
            return True
    return False


def _says_twice(text: str) -> bool:
    once = DOUBLED.sub(r"\1", text.lower())
    content = [stem(word) for word in words(once) if len(word) >= CONTENT_CHARS_MIN and word not in MAY_RECUR]
    return len(set(content)) < len(content)


def _questions(text: str, situation: Situation) -> bool:
    return "".join((*situation.said, text)).count("?") > 1
