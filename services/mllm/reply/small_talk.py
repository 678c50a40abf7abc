"""Tells messages that hold no feeling to answer: a greeting, a filler, a question to the avatar about itself.

A vote on such a message is a guess, so an emotional reply to it would answer something that was never said.
"""

import re

from services.mllm.reply.gate import words

GREETING, ABOUT_AVATAR = "greeting", "about_avatar"
"""Groups of `exemplars.toml` that answer such messages."""

GREETINGS = frozenset(
    words(
        """
        hello hi hey hiya howdy greetings good morning afternoon evening day there test testing
        """
    )
)
FILLERS = frozenset(
    words(
        """
        ok okay yes yeah yep no nope hm hmm hmmm um uh well so oh ah sure maybe right see i
        """
    )
)
QUESTION_WORDS_MAX = 10

ABOUT = re.compile(
    r"^(so |but |and |hey |hello |hi )*("
    r"(why|how come) (do|are|did|don't|can't|aren't) you\b"
    r"|how (are|old are) you\b|how (do|can|did) you (feel|sound|know|work|talk|speak)\b"
    r"|(who|what|where) are you\b|(what's|what is) your\b|(are|were) you\b"
    r"|(do|don't|can|did|will|would|have) you (?!(believe|imagine|know|think|guess|remember|see)\b)"
    r")"
)
"""How a question to the avatar begins; "can you believe it?" asks nothing of it."""
SOMEBODY_ELSE = frozenset(
    words(
        """
        i i'm i've my me mine we our us he him his she her they them their it's someone
        """
    )
)
"""With one of these the question is not about the avatar alone."""


def small_talk(message: str, context: tuple[str, ...] = (), name: str = "") -> str:
    """Returns the group whose replies answer `message`, or an empty string when the message says something.

    Args:
        message: What the user said.
        context: What the user said before; a filler then belongs to that.
        name: The avatar's name, which may come in a greeting.
    """
    spoken = words(message)
    said = set(spoken) - set(words(name))
    if spoken and (said <= GREETINGS or (not context and said <= GREETINGS | FILLERS)):
        return GREETING
    asks = ABOUT.search(" ".join(spoken)) is not None and len(spoken) <= QUESTION_WORDS_MAX
    return ABOUT_AVATAR if asks and not said & SOMEBODY_ELSE else ""
