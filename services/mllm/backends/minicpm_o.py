"""MiniCPM-o 2.6 and 4.5 (OpenBMB): models of 8 B that hear and see, and run the code that lies beside their weights.

Their own `chat` is not used: 2.6 streams from a thread that nothing stops, 4.5 fails when it is asked to stream, and
neither takes a seed or scores an answer. The prompt is prepared as `chat` prepares it, by the model's own processor and
encoders; the language model inside is driven here.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field
from transformers import AutoModel, AutoProcessor, DynamicCache

from services.common.errors import TooLarge
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.limits import Limits
from services.mllm.chat.model import Sampling, Turn
from services.mllm.chat.settings import ChatSettings
from services.mllm.decoding.folder import check_complete, digest_of_folder
from services.mllm.decoding.pinned import check_transformers
from services.mllm.decoding.prefix import Prefix, draw, log_likelihoods, pieces
from services.mllm.domain import AUDIO_RATE_HZ, Modality

PIECE_S = 30
"""Longest piece of sound that the encoder takes at once."""
SPOKEN_END = "<|tts_eos|>"
"""Ends an answer that is to be spoken; the model gives such an answer to sound, whether it is spoken or not."""


class Settings(ChatSettings):
    """Settings of MiniCPM-o."""

    weights: Path = Field(default=...)
    """Folder of the model with the Python files beside the weights. They are run: read them before. Its name is the
    model's name."""
    version: Literal["", "2.6", "4.5"] = ""
    """Which release it is; empty reads it from the folder's config.json."""
    device: str = "cuda"
    """Where the model runs: "cuda", "cuda:1", "cpu"."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Type of the weights."""
    audio_s_max: float = Field(default=60, gt=0, le=600)
    """Seconds of sound that the model gets, from the end; 27 tokens each in 2.6, 10 or 12 in 4.5."""
    frames_max: int = Field(default=16, ge=1, le=64)
    """Frames that the model gets, evenly spread; 66 tokens each, times the slices."""
    slices_max: int = Field(default=1, ge=1, le=9)
    """Parts that a large frame is cut into besides, each seen at full resolution; 1 cuts none."""
    answers_at_once: int = Field(default=12, ge=1)
    """Labels that are scored side by side; each holds a copy of the prompt's keys and values on the device."""


@dataclass(frozen=True)
class Release:
    """What differs between the releases.

    Attributes:
        transformers: The version that the release's own code is written for.
        image: Stands for an image in the prompt.
        audio: Stands for a piece of sound in the prompt.
        unit: Begins a second of a clip with sound.
        processing: How the processor is to lay out sound.
    """

    transformers: str
    image: str
    audio: str
    unit: str
    processing: Mapping[str, bool]


RELEASES = {
    "2.6": Release("4.44.2", "(<image>./</image>)", "(<audio>./</audio>)", "<unit>", {"chunk_input": True}),
    "4.5": Release("4.51.0", "<image>./</image>", "<audio>./</audio>", "", {"stream_input": False}),
}


class MiniCpmOModel:
    """MiniCPM-o from a folder, without its voice.

    Raises:
        FileNotFoundError: The folder is missing or holds no weights.
        ValueError: It is another model, lacks weights, or this is not the transformers that it needs.
    """

    perceives = frozenset({Modality.TEXT, Modality.AUDIO, Modality.VIDEO})

    def __init__(self, settings: Settings) -> None:
        self.name = settings.weights.resolve().name
        self.digest = digest_of_folder(settings.weights)
        self.limits = Limits(settings.audio_s_max, settings.frames_max)
        self._settings = settings
        self._version = settings.version or _version_of(settings.weights)
        self._release = RELEASES[self._version]
        check_transformers(f"MiniCPM-o {self._version}", self._release.transformers)
        local: dict[str, Any] = {"trust_remote_code": True, "local_files_only": True}
        self._processor = AutoProcessor.from_pretrained(settings.weights, **local)
        model, loaded = AutoModel.from_pretrained(
            settings.weights,
            attn_implementation="sdpa",
            torch_dtype=getattr(torch, settings.dtype),
            init_vision=True,
            init_audio=True,
            init_tts=False,
            output_loading_info=True,
            **local,
        )
        check_complete(loaded, settings.weights)
        self._model = model.eval().to(settings.device)
        tokenizer = self._processor.tokenizer
        self._spoken_end: int = tokenizer.convert_tokens_to_ids(SPOKEN_END)
        self._ends: list[int] = [tokenizer.convert_tokens_to_ids(end) for end in model.terminators]

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the answer piece by piece, a token or some at a time.

        Raises:
            TooLarge: The chat is longer than the model reads.
        """
        if not stopped():
            tokens = draw(self._read(turns), sampling, frozenset({*self._ends, self._spoken_end}), stopped)
            yield from pieces(tokens, self._decode)

    def log_likelihoods(
        self, turns: Sequence[Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        """Returns the log-likelihood of each answer with the token that ends it; nothing once `stopped`.

        Raises:
            TooLarge: The chat is longer than the model reads.
        """
        if stopped():
            return []
        end = self._spoken_end if _hears(turns[-1]) else self._ends[0]
        written = self._processor.tokenizer(list(answers), add_special_tokens=False)["input_ids"]
        return log_likelihoods(
            self._read(turns), [[*tokens, end] for tokens in written], self._settings.answers_at_once, stopped
        )

    def close(self) -> None:
        """Frees the model."""
        del self._model

    def inputs(self, turns: Sequence[Turn]) -> Any:
        """Returns what the processor makes of a chat, on the device."""
        images, sounds, media = self._media(turns[-1])
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        messages[-1]["content"] = media + messages[-1]["content"]
        prompt = self._processor.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **self._template(bool(sounds))
        )
        inputs = self._processor(
            [prompt],
            [images],
            [sounds],
            [[0] * len(sounds)],  # one message: what was cut by the second is heard as one
            max_slice_nums=self._settings.slices_max,
            use_image_id=False,
            return_tensors="pt",
            max_length=None,
            **self._release.processing,
        )
        return inputs.to(self._settings.device)

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._processor.tokenizer.decode(tokens, skip_special_tokens=True))

    def _read(self, turns: Sequence[Turn]) -> Prefix:
        """Reads a chat: words, frames and sound become embeddings, and these go through the language model."""
        inputs = self.inputs(turns)
        length = inputs["input_ids"].shape[1]
        longest = self._model.config.max_position_embeddings
        if length >= longest:
            problem = f"{length} tokens with history, frames, sound and the question; this model reads {longest}"
            raise TooLarge("text", f"{problem}: send less, or lower E3RG_MLLM_HISTORY_CHARS_MAX")
        cache = DynamicCache()
        with torch.inference_mode():
            embeddings, _ = self._model.get_vllm_embedding(inputs)
            if _hears(turns[-1]):
                chunk_length = self._model.config.audio_chunk_length
                embeddings = self._model.get_omni_embedding(inputs, embeddings, chunk_length=chunk_length)
            # The scores of a whole prompt over a whole vocabulary would be gigabytes; only the last are needed.
            hidden = self._model.llm.model(inputs_embeds=embeddings, past_key_values=cache, use_cache=True)[0]
            logits = self._model.llm.lm_head(hidden[0, -1])
        return Prefix(logits, cache, length, self._step)

    def _step(self, tokens: torch.Tensor, cache: DynamicCache, read: int) -> torch.Tensor:
        with torch.inference_mode():
            hidden = self._model.llm.model(input_ids=tokens, past_key_values=cache, use_cache=True)[0]
            logits: torch.Tensor = self._model.llm.lm_head(hidden)
        return logits

    def _template(self, hears: bool) -> dict[str, Any]:
        if self._version == "2.6":
            return {"chat_template": self._model.default_tts_chat_template} if hears else {}
        return {"use_tts_template": hears, "enable_thinking": False}

    def _media(self, turn: Turn) -> tuple[list[Image.Image], list[NDArray[np.float32]], str]:
        """Returns the images and the sounds of a turn, and the text that stands for them in the order they come.

        A clip with sound comes by the second: what was seen in it, then what was heard.
        """
        release, images = self._release, [Image.fromarray(frame.image) for frame in turn.frames]
        if turn.audio is None or not _hears(turn):
            return images, [], f"{release.image}\n" * len(images)
        sound = _whole_seconds(turn.audio)
        seconds = sound.size // AUDIO_RATE_HZ
        if not images:
            sounds = np.split(sound, range(PIECE_S * AUDIO_RATE_HZ, sound.size, PIECE_S * AUDIO_RATE_HZ))
            return [], sounds, f"{release.audio}\n" * len(sounds)
        shown = Counter(min(int(frame.time_s), seconds - 1) for frame in turn.frames)
        units = (release.unit + release.image * shown[second] + release.audio for second in range(seconds))
        return images, np.split(sound, seconds), "".join(units) + "\n"


def _hears(turn: Turn) -> bool:
    return turn.audio is not None and turn.audio.size > 0


def _whole_seconds(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns `sound` with silence up to the next whole second.

    The model counts the places of a second of sound in the prompt, and what its encoder makes of the whole; they agree
    for whole seconds only.
    """
    return np.pad(sound, (0, -sound.size % AUDIO_RATE_HZ)).astype(np.float32)


def _version_of(folder: Path) -> str:
    """Reads the release from a model's config.json.

    Raises:
        ValueError: It is no MiniCPM-o, or a release that is not known.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind, version = config.get("model_type"), str(config.get("version", ""))
    if kind != "minicpmo" or version not in RELEASES:
        known = " and ".join(RELEASES)
        problem = f"{folder} holds model_type {kind!r}, version {version!r}; this back-end runs minicpmo {known}"
        raise ValueError(f"{problem} (E3RG_MLLM_VERSION says which it is where config.json does not)")
    return version


def create() -> ChatBackend:
    """Loads the model and warms it up."""
    settings = Settings()
    backend = ChatBackend(MiniCpmOModel(settings), settings)
    backend.warm_up()
    return backend
