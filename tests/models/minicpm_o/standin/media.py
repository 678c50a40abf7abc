"""How words, frames and sound are laid out in a prompt."""

import re
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import BatchFeature, ProcessorMixin

STEP = 1600
"""Samples of a place of sound."""


class Features(BatchFeature):  # type: ignore[misc]
    """What the model reads; images are a list of tensors, as they may differ in size."""

    def to(self, device: str) -> "Features":
        self.data = {name: _on(device, value) for name, value in self.items()}
        return self


class MediaProcessor(ProcessorMixin):  # type: ignore[misc]
    """Puts as many places into a prompt as the encoders fill."""

    attributes: ClassVar[list[str]] = ["tokenizer"]
    tokenizer_class = "AutoTokenizer"
    image_mark = ""
    audio_mark = ""
    layout: ClassVar[dict[str, bool]] = {}
    """How sound is to be laid out for a clip; each release says it in its own way."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self.prompts: list[str] = []

    def __call__(
        self, text: list[str], images: list[Any], audios: list[Any], audio_parts: list[Any], **settings: Any
    ) -> Features:
        """Returns what the model reads of one prompt.

        Raises:
            ValueError: It is not asked as for a clip, the prompt does not name the media one by one, or they are not of
                one message.
        """
        usual = {"max_length": None, "max_slice_nums": 1, "use_image_id": False, "return_tensors": "pt"}
        if settings != usual | self.layout:
            raise ValueError(f"not as for a clip: {settings}")
        self.prompts.append(text[0])
        if len(text) != 1 or audio_parts != [[0] * len(audios[0])]:
            raise ValueError("one prompt, all of its sound in one message")
        marks = re.findall(f"{re.escape(self.image_mark)}|{re.escape(self.audio_mark)}", text[0])
        if (marks.count(self.image_mark), marks.count(self.audio_mark)) != (len(images[0]), len(audios[0])):
            raise ValueError(f"{len(images[0])} frames and {len(audios[0])} sounds for the marks {marks}")
        full = text[0].replace(self.image_mark, "<image>" + "<unk>" * 4 + "</image>")
        for sound in audios[0]:
            places = "<unk>" * (len(sound) // STEP)
            full = full.replace(self.audio_mark, f"<|audio_start|>{places}<|audio_end|>", 1)
        tokens = torch.tensor([self.tokenizer(full, add_special_tokens=False)["input_ids"]], dtype=torch.int32)
        heard = np.concatenate([np.zeros(0, np.float32), *audios[0]]).reshape(-1, STEP)
        roughness = np.abs(np.diff(heard, axis=1)).mean(1)
        return Features(
            {
                "input_ids": tokens,
                "pixel_values": [[_quarters(np.asarray(image)) for image in images[0]]],
                "image_bound": [self._bounds(tokens, "<image>", "</image>")],
                "audio_features": torch.tensor(np.stack([np.abs(heard).mean(1), roughness], axis=1)),
                "audio_bounds": [self._bounds(tokens, "<|audio_start|>", "<|audio_end|>")],
            }
        )

    def _bounds(self, tokens: torch.Tensor, begin: str, end: str) -> torch.Tensor:
        begins = (tokens[0] == self.tokenizer.convert_tokens_to_ids(begin)).nonzero() + 1
        return torch.hstack([begins, (tokens[0] == self.tokenizer.convert_tokens_to_ids(end)).nonzero()])


def _on(device: str, value: Any) -> Any:
    return [_on(device, one) for one in value] if isinstance(value, list) else value.to(device)


def _quarters(image: np.ndarray) -> torch.Tensor:
    halves = [half for row in np.array_split(image / 255, 2) for half in np.array_split(row, 2, axis=1)]
    return torch.tensor(np.stack([half.mean((0, 1)) for half in halves]))
