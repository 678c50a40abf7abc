"""The emotion wheel: the one ontology that text, voice and face share."""

from emotions.wheel import Emotion, GeneratorClass, Label, Wheel, load

__all__ = ["Emotion", "GeneratorClass", "Label", "Wheel", "load"]
