"""Ola-Omni-7B (Liu et al. 2025): a Qwen2.5 that hears by Whisper and BEATs and sees by a SigLIP of its own.

The model's code is no package of a registry: the operator names a checkout of it. It is called here as its own script
calls it, but for two things. A clip is passed whole: the script passes a tensor where a list belongs, and the code then
takes the first frame for the clip. And no frame is left out: the script drops those whose place in the clip is not also
the place of a frame it chose.

The code fills the places of sound and of pictures pictures first, whichever was named first. The released weights are
run like that, so it stays; both places stand side by side, so that the words around them are where they should be.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field
from transformers import AutoTokenizer, DynamicCache, WhisperFeatureExtractor

from services.common.errors import TooLarge
from services.common.weights import digest_of
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.limits import Limits
from services.mllm.chat.model import Sampling, Turn
from services.mllm.chat.settings import ChatSettings
from services.mllm.decoding.folder import check_complete, digest_of_folder
from services.mllm.decoding.frames import check_one_size
from services.mllm.decoding.pinned import check_transformers
from services.mllm.decoding.prefix import Prefix, draw, log_likelihoods, pieces
from services.mllm.domain import AUDIO_RATE_HZ, Frame, Modality
from services.mllm.ola.checkout import open_checkout

TRANSFORMERS = "4.43.4"
"""What Ola's code is written for. Later ones build a model without memory, where its speech encoder cannot be loaded
(Ola-Omni/Ola#36: "Cannot copy out of meta tensor")."""
CONTEXT_TOKENS = 16_384
"""Longest chat; the model's code cuts longer ones off at the end, where the question stands."""
CHUNK_SAMPLES = 30 * AUDIO_RATE_HZ
"""What the speech encoder takes at once; shorter sound is followed by silence."""
MEL_BANDS = 128


class Settings(ChatSettings):
    """Settings of Ola."""

    checkout: Path = Field(default=...)
    """Folder with a checkout of Ola's code: the one that holds `ola/`. It is run: read it before."""
    weights: Path = Field(default=...)
    """Folder of the model. Its name is the model's name."""
    speech_encoder: Path = Field(default=...)
    """OpenAI's Whisper large-v3 as `large-v3.pt`."""
    music_encoder: Path = Field(default=...)
    """BEATs as `BEATs_iter3_plus_AS2M_finetuned_on_AS2M_cpt2.pt`."""
    device: str = "cuda"
    """Where the model runs: "cuda", "cuda:1", "cpu"."""
    audio_s_max: float = Field(default=60, gt=0, le=750)
    """Seconds of sound that the model gets, from the end."""
    frames_max: int = Field(default=32, ge=1, le=64)
    """Frames that the model gets, evenly spread; 65 to 240 tokens each, by their size."""
    answers_at_once: int = Field(default=12, ge=1)
    """Labels that are scored side by side; each holds a copy of the prompt's keys and values on the device."""


class OlaModel:
    """Ola from a checkout and its weights, in bfloat16: its speech encoder answers in nothing else.

    Raises:
        FileNotFoundError: The checkout, the weights or an encoder is missing; the message names it.
        ValueError: Weights are missing, or this is not the transformers that it needs.
    """

    perceives = frozenset({Modality.TEXT, Modality.AUDIO, Modality.VIDEO})

    def __init__(self, settings: Settings) -> None:
        check_transformers("Ola", TRANSFORMERS)
        _check_encoders(settings)
        self.name = settings.weights.resolve().name
        parts = digest_of_folder(settings.weights), digest_of(settings.speech_encoder, settings.music_encoder)
        self.digest = hashlib.sha256("".join(parts).encode()).hexdigest()
        self.limits = Limits(settings.audio_s_max, settings.frames_max)
        self._settings = settings
        self._ola = open_checkout(settings.checkout)
        self._tokenizer = AutoTokenizer.from_pretrained(settings.weights, use_fast=False, local_files_only=True)
        self._model = self._loaded().to(settings.device).bfloat16().eval()
        self._mel = WhisperFeatureExtractor(feature_size=MEL_BANDS)
        self._pictures = self._model.get_vision_tower().image_processor
        self._pictures.do_resize = self._pictures.do_center_crop = False
        end = self._tokenizer.convert_tokens_to_ids(self._ola.conversation.sep)
        self._ends = (end, self._tokenizer.eos_token_id)

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the answer piece by piece, a token or some at a time.

        Raises:
            InvalidRequest: The frames are not of one size.
            TooLarge: The chat is longer than the model reads.
        """
        if not stopped():
            yield from pieces(draw(self._read(turns), sampling, frozenset(self._ends), stopped), self._decode)

    def log_likelihoods(
        self, turns: Sequence[Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        """Returns the log-likelihood of each answer with the token that ends it; nothing once `stopped`.

        Raises:
            InvalidRequest: The frames are not of one size.
            TooLarge: The chat is longer than the model reads.
        """
        if stopped():
            return []
        written = [[*self._tokenizer(answer)["input_ids"], self._ends[0]] for answer in answers]
        return log_likelihoods(self._read(turns), written, self._settings.answers_at_once, stopped)

    def close(self) -> None:
        """Frees the model."""
        del self._model

    def _loaded(self) -> Any:
        """Loads the model with its encoders from the paths of the settings, and nothing from a hub."""
        settings = self._settings
        config = self._ola.config.from_pretrained(settings.weights, local_files_only=True)
        config.speech_encoder = str(settings.speech_encoder.resolve())
        config.music_encoder = str(settings.music_encoder.resolve())
        model, loaded = self._ola.model.from_pretrained(
            settings.weights,
            config=config,
            torch_dtype=torch.bfloat16,
            low_cpu_mem_usage=False,  # the encoders are loaded while the model is built, and need real memory
            local_files_only=True,
            output_loading_info=True,
        )
        # The encoders have files of their own; what a checkpoint holds of them is not used.
        own = {kind: [key for key in keys if "speech_encoder." not in key] for kind, keys in _keys(loaded).items()}
        check_complete(own, settings.weights)
        model.get_model().speech_encoder = self._ola.build_speech_encoder(config).to(torch.float16)
        model.resize_token_embeddings(len(self._tokenizer))
        return model

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def _read(self, turns: Sequence[Turn]) -> Prefix:
        """Reads a chat: words, frames and sound become embeddings, and these go through the language model."""
        with torch.inference_mode():
            embeddings = self.embeddings(turns)
            length = embeddings.shape[1]
            longest = min(CONTEXT_TOKENS, getattr(self._model.config, "tokenizer_model_max_length", CONTEXT_TOKENS))
            if length >= longest:
                problem = f"{length} tokens or more with history, frames, sound and the question; Ola reads {longest}"
                raise TooLarge("text", f"{problem}: send less, or lower E3RG_MLLM_FRAMES_MAX")
            cache = DynamicCache()
            # The scores of a whole prompt over a whole vocabulary would be gigabytes; only the last are needed.
            hidden = self._model.model(inputs_embeds=embeddings, past_key_values=cache, use_cache=True)[0]
            logits = self._model.lm_head(hidden[0, -1])
        return Prefix(logits, cache, length, self._step)

    def _step(self, tokens: torch.Tensor, cache: DynamicCache, read: int) -> torch.Tensor:
        with torch.inference_mode():
            hidden = self._model.model(input_ids=tokens, past_key_values=cache, use_cache=True)[0]
            logits: torch.Tensor = self._model.lm_head(hidden)
        return logits

    def embeddings(self, turns: Sequence[Turn]) -> torch.Tensor:
        """Returns bfloat16 (1, tokens, width): what the language model reads of a chat."""
        frames, sound = turns[-1].frames, turns[-1].audio
        hears = sound is not None and sound.size > 0
        tokens = torch.tensor([self._tokens(turns, hears, bool(frames))], device=self._settings.device)
        speech, wave = self._speech(sound if sound is not None and hears else np.zeros(1, np.float32))
        video = self._video(frames) if frames else self._bfloat16(torch.zeros(1, 3, 224, 224))
        chunks = torch.tensor([len(speech)], device=self._settings.device)
        # Lists of one: a tensor of frames would be taken for a batch of clips of one frame each.
        prepared = self._model.prepare_inputs_labels_for_speech_vision_text(
            tokens,
            None,
            None,
            None,
            None,
            speech=[speech],
            speech_lengths=[torch.full((len(speech),), speech.shape[1], device=self._settings.device)],
            speech_chunks=[chunks],
            speech_wav=[wave],
            images=[video],
            modalities=["video" if frames else "text"],
            images_highres=[video],
        )
        embeddings: torch.Tensor = prepared[4]
        return embeddings

    def _tokens(self, turns: Sequence[Turn], hears: bool, sees: bool) -> list[int]:
        """Returns the tokens of a chat; sound and frames are one token each, by which the model's code knows them."""
        ola = self._ola
        media = ola.speech_mark * hears + ola.image_mark * sees
        talk = ola.conversation.copy()
        for place, turn in enumerate(turns):
            text = f"{media}\n{turn.text}" if media and place == len(turns) - 1 else turn.text
            if turn.role == "system":
                talk.system = f"<|im_start|>system\n{text}"
            else:
                talk.append_message(talk.roles[turn.role == "assistant"], text)
        talk.append_message(talk.roles[1], None)
        tokens: list[int] = []
        for part in re.split(f"({'|'.join(map(re.escape, ola.places))})", talk.get_prompt()):
            tokens += [ola.places[part]] if part in ola.places else self._tokenizer(part)["input_ids"]
        return tokens

    def _speech(self, sound: NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the chunks of a sound: mel bands (chunks, frames, bands), and samples (chunks, samples)."""
        chunks = [sound[begin : begin + CHUNK_SAMPLES] for begin in range(0, sound.size, CHUNK_SAMPLES)]
        wave = np.stack([np.pad(chunk, (0, CHUNK_SAMPLES - chunk.size)) for chunk in chunks]).astype(np.float32)
        mel = self._mel(list(wave), sampling_rate=AUDIO_RATE_HZ, return_tensors="pt")["input_features"]
        return self._bfloat16(mel.transpose(1, 2)), torch.from_numpy(wave).to(self._settings.device)

    def _video(self, frames: Sequence[Frame]) -> torch.Tensor:
        """Returns bfloat16 (frames, 1, 3, height, width).

        Raises:
            InvalidRequest: The frames are not of one size.
        """
        check_one_size(frames)
        images = (self._ola.process_video(Image.fromarray(frame.image), self._pictures) for frame in frames)
        return self._bfloat16(torch.stack(list(images)))

    def _bfloat16(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._settings.device, torch.bfloat16)


def _check_encoders(settings: Settings) -> None:
    """Checks that the encoders which the settings name are there.

    Raises:
        FileNotFoundError: One is missing.
    """
    for name in ("speech_encoder", "music_encoder"):
        path: Path = getattr(settings, name)
        if not path.is_file():
            raise FileNotFoundError(f"{path} is no file; E3RG_MLLM_{name.upper()} names the encoder's weights")


def _keys(loaded: Mapping[str, Any]) -> dict[str, list[str]]:
    return {kind: [str(key) for key in loaded[kind]] for kind in ("missing_keys", "mismatched_keys")}


def create() -> ChatBackend:
    """Loads the model and warms it up."""
    settings = Settings()
    backend = ChatBackend(OlaModel(settings), settings)
    backend.warm_up()
    return backend
