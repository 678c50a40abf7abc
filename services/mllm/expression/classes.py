"""Which emotion a face shows: rules over its actions, and an expression network's opinion, become one distribution.

The rules follow the prototypes of the emotion reading of the Facial Action Coding System (Friesen & Ekman, 1983,
EMFACS-7; Ekman & Friesen, 1978), with contempt as the one-sided mouth (Ekman & Friesen, 1986). Speech moves the jaw
and the lips, so those units weigh little.
"""

import math
from collections.abc import Mapping

NETWORK_CLASSES = ("angry", "disgusted", "fear", "happy", "sad", "surprised", "neutral")
"""What the outputs of mini_Xception (trained on FER2013) mean, as classes of the wheel."""

RULES: Mapping[str, Mapping[str, float]] = {
    "happy": {"smile": 1.3, "one_sided_mouth": -0.8, "mouth_frown": -0.5},
    "surprised": {"brow_raise": 0.9, "eye_wide": 0.3, "jaw_drop": 0.15, "lip_stretch": -0.4, "brow_lower": -0.6},
    "fear": {"brow_raise": 0.4, "inner_brow_raise": 0.3, "eye_wide": 0.4, "lip_stretch": 0.6, "smile": -0.6},
    "sad": {"mouth_frown": 0.8, "inner_brow_raise": 0.7, "chin_raise": 0.2, "smile": -0.6, "nose_wrinkle": -0.5},
    "angry": {"brow_lower": 1.0, "lip_press": 0.3, "squint": 0.2, "inner_brow_raise": -0.6, "nose_wrinkle": -0.3},
    "disgusted": {"nose_wrinkle": 1.0, "mouth_frown": 0.3, "brow_lower": 0.2, "smile": -0.6, "brow_raise": -0.4},
    "contempt": {"one_sided_mouth": 1.3, "mouth_frown": -0.3, "jaw_drop": -0.3, "brow_raise": -0.3},
}
"""How much each action speaks for (or against) a class."""

REST = 0.4
"""What speaks for neutral when nothing moves; the strongest action takes it away."""
RULES_GAIN = 5.0
"""Log-odds of a rule that is wholly met."""
NETWORK_GAIN = 0.6
NETWORK_FLOOR = 0.06
"""Added to the network's probabilities: it was trained on cropped photographs of others and is too sure of itself."""
TEMPERATURE = 1.5
"""Divides the log-odds: the rules were set by eye on few faces, so the vote should be humble."""


def classes_of(actions: Mapping[str, float], network: Mapping[str, float], reliability: float) -> dict[str, float]:
    """Returns the probability of each class.

    Args:
        actions: Strength of each action, 0 to 1.
        network: Probability of each of `NETWORK_CLASSES`.
        reliability: 0 to 1; the less, the flatter the answer.
    """
    logits = {name: RULES_GAIN * value for name, value in _rules(actions).items()}
    # The network does not know contempt; its opinion there is the mean of the others', which says nothing.
    opinions = {name: math.log(network[name] + NETWORK_FLOOR) for name in NETWORK_CLASSES}
    silent = sum(opinions.values()) / len(opinions)
    for name in logits:
        logits[name] += NETWORK_GAIN * opinions.get(name, silent)
    odds = {name: math.exp(value * reliability / TEMPERATURE) for name, value in logits.items()}
    total = sum(odds.values())
    return {name: value / total for name, value in odds.items()}


def _rules(actions: Mapping[str, float]) -> dict[str, float]:
    met = {name: sum(weight * actions[action] for action, weight in rule.items()) for name, rule in RULES.items()}
    strongest = max(*met.values(), 0.0)
    return {"neutral": REST - 0.5 * strongest, **met}
