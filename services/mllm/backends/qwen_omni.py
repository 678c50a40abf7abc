"""Qwen2.5-Omni (Qwen team 2025, Technical Report): the Thinker, which reads, hears and sees, and answers in text.

The talker and the vocoder of the checkpoint are not loaded: speech is the work of `services/tts`.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from transformers import DynamicCache, Qwen2_5OmniProcessor, Qwen2_5OmniThinkerForConditionalGeneration

from services.common.errors import TooLarge
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.limits import Limits
from services.mllm.chat.model import Sampling, Turn
from services.mllm.chat.settings import ChatSettings
from services.mllm.chat.template import ChatTemplate
from services.mllm.decoding.chat_format import ChatFormat
from services.mllm.decoding.folder import check_complete, digest_of_folder
from services.mllm.decoding.frames import check_one_size
from services.mllm.decoding.prefix import Prefix, answer_log_likelihoods, draw, pieces
from services.mllm.domain import AUDIO_RATE_HZ, Frame, Modality

TOKEN_PX = 28 * 28
"""Pixels of two frames that become one token."""
AUDIO_S_MIN = 0.1
"""Shorter sounds are filled up with silence: the audio tower makes a token of 40 ms."""
FRAMES_PER_S = 2.0
"""Assumed of a single frame, which has no distance to another: the rate that the model was trained with."""


class Settings(ChatSettings):
    """Settings of Qwen2.5-Omni. At full resolution a minute of video takes 60 GB (its README); hence the limits."""

    weights: Path = Field(default=...)
    """Folder of the whole checkpoint or of the Thinker alone, with its processor. Its name is the model's name."""
    device: str = "cuda"
    """Where the model runs: "cuda", "cuda:1", "cpu"; "auto" spreads it over all devices."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Type of the weights."""
    audio_s_max: float = Field(default=60, gt=0, le=300)
    """Seconds of sound that the model gets, from the end; 25 tokens each. 300 is the processor's own limit."""
    frames_max: int = Field(default=16, ge=1, le=768)
    """Frames that the model gets, evenly spread."""
    frame_px_max: int = Field(default=256 * TOKEN_PX, ge=4 * TOKEN_PX, le=768 * TOKEN_PX)
    """Pixels that a frame is scaled down to; two frames become at most a token per 784 of them."""
    answers_at_once: int = Field(default=12, ge=1)
    """Labels that are scored side by side; each holds a copy of the prompt's keys and values on the device."""


class QwenOmniModel:
    """The Thinker and its processor.

    Raises:
        FileNotFoundError: The folder is missing.
        ValueError: The folder lacks weights or a chat template.
    """

    perceives = frozenset({Modality.TEXT, Modality.AUDIO, Modality.VIDEO})

    def __init__(self, settings: Settings) -> None:
        self.name = settings.weights.resolve().name
        self.digest = digest_of_folder(settings.weights)
        self.limits = Limits(settings.audio_s_max, settings.frames_max)
        self._at_once = settings.answers_at_once
        self._frame_px_max = settings.frame_px_max
        self._processor = Qwen2_5OmniProcessor.from_pretrained(settings.weights, local_files_only=True)
        model, loaded = Qwen2_5OmniThinkerForConditionalGeneration.from_pretrained(
            settings.weights,
            dtype=settings.dtype,
            device_map=settings.device,
            output_loading_info=True,
            local_files_only=True,
        )
        check_complete(loaded, settings.weights)
        self._thinker = model.eval()
        jinja = self._processor.chat_template
        template = ChatTemplate(jinja) if jinja else None
        self._format = ChatFormat(self._processor.tokenizer, template)

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the answer piece by piece, a token or some at a time.

        Raises:
            InvalidRequest: The frames are not of one size.
            TooLarge: The chat is longer than the model reads.
        """
        inputs = self.inputs(turns)
        if not stopped():
            yield from pieces(draw(self._read(inputs), sampling, self._format.stops, stopped), self._format.decode)

    def log_likelihoods(
        self, turns: Sequence[Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        """Returns the log-likelihood of each answer with the token that ends its turn; nothing once `stopped`.

        Raises:
            InvalidRequest: The frames are not of one size.
            TooLarge: The chat is longer than the model reads.
        """
        wanted = self._format.answers(answers)
        inputs = self.inputs(turns)
        if stopped():
            return []
        prefix = self._read(inputs, len(wanted.rewritten))
        return answer_log_likelihoods(prefix, wanted, self._at_once, stopped)

    def close(self) -> None:
        """Frees the model."""
        del self._thinker

    def inputs(self, turns: Sequence[Turn]) -> Any:
        """Returns what the towers and the Thinker get of a chat, as the processor lays it out.

        Sound and frames are items of their own, not a film with its sound track: they may be of different length.
        """
        messages = self._format.messages(turns)
        last, frames, sound = turns[-1], turns[-1].frames, turns[-1].audio
        media: dict[str, Any] = {}
        items = []
        if frames:
            items.append({"type": "video", "video": "frames"})
            media["videos"] = [_film(frames)]
            media["videos_kwargs"] = {
                "fps": _rate_hz(frames),
                "do_sample_frames": False,
                "size": {"shortest_edge": 4 * TOKEN_PX, "longest_edge": self._frame_px_max},
                "cap_pixels_per_frame": False,
            }
        if sound is not None and len(sound):
            items.append({"type": "audio", "audio": "sound"})
            short = max(0, round(AUDIO_S_MIN * AUDIO_RATE_HZ) - len(sound))
            media["audio"] = [np.pad(sound, (0, short))]
            media["audio_kwargs"] = {"sampling_rate": AUDIO_RATE_HZ}
        if items:
            messages[-1] = {"role": last.role, "content": [*items, {"type": "text", "text": messages[-1]["content"]}]}
        inputs = self._processor(text=[self._format.prompt(messages)], return_tensors="pt", **media)
        length, longest = inputs["input_ids"].shape[1], self._thinker.config.text_config.max_position_embeddings
        if length >= longest:
            problem = f"{length} tokens with history, sound and frames; this model reads {longest}, send less"
            raise TooLarge("text", f"{problem} or lower E3RG_MLLM_HISTORY_CHARS_MAX and E3RG_MLLM_FRAMES_MAX")
        return inputs.to(self._thinker.device)

    def _read(self, inputs: Any, left: int = 0) -> Prefix:
        """Reads a prompt but for its last `left` tokens.

        The positions are those of the model's 3-D rotary embedding: a frame's tokens share a time, so that the text
        after it continues behind a gap, which stays the same for all that follows.
        """
        length = inputs["input_ids"].shape[1] - left
        inputs["input_ids"] = inputs["input_ids"][:, :length]
        inputs["attention_mask"] = inputs["attention_mask"][:, :length]
        heard = inputs.get("feature_attention_mask")
        positions, gaps = self._thinker.get_rope_index(
            inputs["input_ids"],
            video_grid_thw=inputs.get("video_grid_thw"),
            attention_mask=inputs["attention_mask"],
            audio_seqlens=None if heard is None else heard.sum(-1),
            second_per_grids=inputs.get("video_second_per_grid"),
        )
        gap = int(gaps[0, 0])
        cache = DynamicCache(config=self._thinker.config.text_config)
        with torch.inference_mode():
            hidden = self._thinker.model(
                **inputs, position_ids=positions, past_key_values=cache, use_cache=True
            ).last_hidden_state
            logits = self._thinker.lm_head(hidden[0, -1])

        def step(tokens: torch.Tensor, cache: DynamicCache, read: int) -> torch.Tensor:
            count, more = tokens.shape
            places = torch.arange(read, read + more, device=tokens.device) + gap
            with torch.inference_mode():
                output = self._thinker.model(
                    input_ids=tokens,
                    attention_mask=torch.ones((count, read + more), dtype=torch.long, device=tokens.device),
                    position_ids=places.expand(3, count, more),
                    past_key_values=cache,
                    use_cache=True,
                )
                after: torch.Tensor = self._thinker.lm_head(output.last_hidden_state)
            return after

        return Prefix(logits, cache, length, step)


def _film(frames: Sequence[Frame]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns the images as one array, uint8 (frames, height, width, 3)."""
    check_one_size(frames)
    return np.stack([frame.image for frame in frames])


def _rate_hz(frames: Sequence[Frame]) -> float:
    """Returns frames per second; the model is told from it how much time lies between them."""
    span_s = frames[-1].time_s - frames[0].time_s
    return (len(frames) - 1) / span_s if span_s > 0 else FRAMES_PER_S


def create() -> ChatBackend:
    """Loads the model and warms it up."""
    settings = Settings()
    backend = ChatBackend(QwenOmniModel(settings), settings)
    backend.warm_up()
    return backend
