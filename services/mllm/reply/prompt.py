"""The prompt that a reply is written from."""

from dataclasses import dataclass

from services.mllm.domain import ReplyRequest
from services.mllm.prompts import content_of

HISTORY_TURNS_MAX = 2
"""Earlier turns that the model reads; each costs about 0.2 s."""
HISTORY_CHARS_MAX = 160
MESSAGE_CHARS_MAX = 600
PERSONS = {"female": "woman", "male": "man"}
ROLES = {"user": "user", "avatar": "assistant"}


@dataclass(frozen=True)
class ReplyPrompt:
    """A versioned prompt file of `services/mllm/prompts`; the fields are its entries."""

    version: str
    system: str
    turn: str
    ask: str
    first_grammar: str
    next_grammar: str

    @classmethod
    def load(cls, version: str) -> "ReplyPrompt":
        """Reads the prompt called `version`.

        Raises:
            ValueError: There is none; the message lists those there are.
        """
        return cls(version=version, **content_of(version, "reply-[0-9]*", "E3RG_MLLM_REPLY_PROMPT"))

    def text(self, request: ReplyRequest) -> str:
        """Returns the prompt up to where the reply starts. What stays the same from turn to turn comes first."""
        profile, message = request.profile, request.message
        history = message.history[-HISTORY_TURNS_MAX:]
        parts = [self.system.format(name=profile.name, age=profile.age, person=PERSONS.get(profile.gender, "person"))]
        parts += [self.turn.format(role=ROLES[one.speaker], text=_line(one.text, HISTORY_CHARS_MAX)) for one in history]
        parts.append(
            self.ask.format(
                user_emotion=request.user_emotion,
                reply_emotion=request.reply_emotion,
                message=_line(message.text, MESSAGE_CHARS_MAX),
            )
        )
        return "".join(parts)


def _line(text: str, chars_max: int) -> str:
    # The model's own marks must not come from outside, or a message could speak as the system.
    return " ".join(text.replace("<|", "<").replace("|>", ">").split())[-chars_max:]
