"""Reads the likelihoods of labels out of the tokens that a model wrote and those that it might have written."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Token:
    """A token of an answer. `alternatives` are log-probabilities by text of what could stand there, itself included."""

    text: str
    alternatives: Mapping[str, float]


def label_log_likelihoods(tokens: Sequence[Token], labels: Iterable[str], start: int, guided: bool) -> dict[str, float]:
    """Returns the log-likelihood of those labels of which the alternatives tell it.

    At the token with which the label starts, an alternative that only one label begins with counts for that label.
    Labels that share their first token are told apart at the tokens that follow, which is possible for the token that
    was written only: labels that share another first token are left out, since nobody knows how they would go on.

    Args:
        tokens: Of the answer, in order.
        labels: What could be answered.
        start: Characters of the answer before the label.
        guided: Whether the model could write nothing but a label. Then the beginning of a label leads to it with
            certainty, and what is no beginning to the letter could not come: the others share its probability.
            Otherwise only whole labels count, in any case and with any space before them ("sad" and
            " Sad" together), and the one that was written.
    """
    offset = 0
    for place, token in enumerate(tokens):
        if offset + len(token.text) > start:
            lead = token.text[: start - offset]
            rests = {label: label if guided else label.casefold() for label in labels}
            masses = _masses(tokens[place:], lead, rests, guided)
            inside = _inside(token, lead, rests) if guided else 1.0
            return {label: math.log(mass / inside) for label, mass in masses.items() if mass > 0}
        offset += len(token.text)
    return {}


def _masses(tokens: Sequence[Token], lead: str | None, rests: Mapping[str, str], guided: bool) -> dict[str, float]:
    """Returns the probability of each label whose rest is still to be written.

    Args:
        tokens: From here on.
        lead: What stands before the label in the first token; None within a label.
        rests: By label.
        guided: As above.
    """
    if not tokens:
        # The answer ended here, so what is whole by now was said.
        return {label: 1.0 for label, rest in rests.items() if not rest}
    head, *tail = tokens
    masses: dict[str, float] = {}
    for text, log_probability in head.alternatives.items():
        piece = text if lead is None else _beginning(text, lead, guided)
        if piece is None:
            continue
        piece = piece if guided else piece.casefold()
        reached = {label: rest[len(piece) :] for label, rest in rests.items() if _leads_to(piece, rest)}
        shares: dict[str, float] = {}
        if len(reached) == 1 and (guided or not any(reached.values())):
            shares = dict.fromkeys(reached, 1.0)
        elif reached and text == head.text:
            shares = _masses(tail, None, reached, guided)
            # Held to the labels, the model could go on in these ways only.
            total = sum(shares.values()) if guided else 1.0
            shares = {label: share / total for label, share in shares.items()}
        for label, share in shares.items():
            masses[label] = masses.get(label, 0.0) + share * math.exp(min(0.0, log_probability))
    return masses


def _inside(token: Token, lead: str, rests: Mapping[str, str]) -> float:
    """Returns the probability of all that could stand there, where nothing but a label could.

    vLLM tells what was likely before it held the answer to the set; of that, only the set's part could come.
    """
    pieces = {text: _beginning(text, lead, guided=True) for text in token.alternatives}
    could = [text for text, piece in pieces.items() if piece and any(_leads_to(piece, rest) for rest in rests.values())]
    return sum(math.exp(min(0.0, token.alternatives[text])) for text in could)


def _beginning(text: str, lead: str, guided: bool) -> str | None:
    """Returns what `text` says of the label, or None when it does not begin as the written token did."""
    if lead.strip() or guided:
        return text.removeprefix(lead) if text.startswith(lead) else None
    return text.lstrip()


def _leads_to(piece: str, rest: str) -> bool:
    if not piece:
        return not rest
    if rest.startswith(piece):
        return True
    # A token may hold the end of a label and what follows it: 'sad."'.
    return piece.startswith(rest) and not piece[len(rest)].isalpha()
