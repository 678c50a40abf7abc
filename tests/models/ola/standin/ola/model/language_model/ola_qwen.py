"""A Qwen2 that is asked as Ola is, with encoders of one layer, and fills places as Ola does, pictures first."""

from typing import Any

import torch
from ola.constants import IMAGE_TOKEN_INDEX, SPEECH_TOKEN_INDEX  # type: ignore[import-not-found]
from ola.model.multimodal_encoder.oryx_vit import VisionTower  # type: ignore[import-not-found]
from ola.model.speech_encoder.builder import build_speech_encoder  # type: ignore[import-not-found]
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model


class OlaConfigQwen(Qwen2Config):  # type: ignore[misc]
    """Configuration."""

    model_type = "ola_qwen"


class OlaQwenModel(Qwen2Model):  # type: ignore[misc]
    """Builds its encoders first, as Ola does, from the paths of the configuration."""

    config_class = OlaConfigQwen

    def __init__(self, config: OlaConfigQwen) -> None:
        super().__init__(config)
        self.speech_encoder = build_speech_encoder(config)
        self.vision_tower = VisionTower(config.hidden_size)


class OlaQwenForCausalLM(Qwen2ForCausalLM):  # type: ignore[misc]
    """The model with its media."""

    config_class = OlaConfigQwen

    def __init__(self, config: OlaConfigQwen) -> None:
        super().__init__(config)
        self.model = OlaQwenModel(config)

    def get_model(self) -> OlaQwenModel:
        return self.model

    def get_vision_tower(self) -> VisionTower:
        return self.model.vision_tower

    def prepare_inputs_labels_for_speech_vision_text(
        self,
        input_ids: torch.Tensor,
        position_ids: None,
        attention_mask: None,
        past_key_values: None,
        labels: None,
        speech: list[torch.Tensor],
        speech_lengths: list[torch.Tensor],
        speech_chunks: list[torch.Tensor],
        speech_wav: list[torch.Tensor],
        images: Any,
        modalities: list[str],
        image_sizes: Any = None,
        images_highres: Any = None,
    ) -> tuple[Any, ...]:
        both = zip(speech, speech_wav, strict=True)
        sounds = [self.model.speech_encoder(mel, raw_wav=wav).flatten(0, 1) for mel, wav in both]
        pictures = []
        for one in images_highres:  # a tensor falls apart into its frames here, and the first is taken for the clip
            features, _ = self.model.vision_tower(one.squeeze(1) if one.ndim == 5 else one)
            pictures.append(features.flatten(0, 1))
        features = [*pictures[: len(modalities)] * int((input_ids == IMAGE_TOKEN_INDEX).any()), *sounds]
        parts, begin = [], 0
        places = ((input_ids[0] == IMAGE_TOKEN_INDEX) | (input_ids[0] == SPEECH_TOKEN_INDEX)).nonzero()[:, 0].tolist()
        for place, feature in zip(places, features, strict=False):
            parts += [self.model.embed_tokens(input_ids[0, begin:place]), feature]
            begin = place + 1
        whole = torch.cat([*parts, self.model.embed_tokens(input_ids[0, begin:])])
        longest = getattr(self.config, "tokenizer_model_max_length", None)
        return None, None, None, None, whole[None, :longest], None
