"""A U-Net without the U: it is called as DICE-Talk's is, and every input changes what it answers."""

import math
from typing import Any

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch.nn import functional


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Attends to CLIP's token, and with adapters to others, which a mask may confine to a part of the picture."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.to_q = torch.nn.Linear(channels, channels)
        self.to_k = torch.nn.Linear(width, channels)
        self.to_v = torch.nn.Linear(width, channels)
        self.processor: Any = None

    def forward(self, places: torch.Tensor, context: Any, mask: torch.Tensor | None) -> torch.Tensor:
        clip, heard = context
        query = self.to_q(places)
        answer = functional.scaled_dot_product_attention(query, self.to_k(clip), self.to_v(clip))
        for number, tokens in enumerate(heard):
            processor = self.processor
            key, value = processor.to_k_ip[number](tokens), processor.to_v_ip[number](tokens)
            more = functional.scaled_dot_product_attention(query, key, value) * processor.scale[number]
            answer = answer + (more if mask is None else more * mask)
        return answer


class Adapter(torch.nn.Module):  # type: ignore[misc]
    """Keys and values for each further input."""

    def __init__(self, channels: int, width: int, scale: list[float]) -> None:
        super().__init__()
        self.scale = scale
        self.to_k_ip = torch.nn.ModuleList([torch.nn.Linear(width, channels) for _ in scale])
        self.to_v_ip = torch.nn.ModuleList([torch.nn.Linear(width, channels) for _ in scale])


class UNetSpatioTemporalConditionModel(ModelMixin, ConfigMixin):  # type: ignore[misc]
    """One convolution in, attention in space and in time, neighbours in time, one convolution out."""

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        in_channels: int = 8,
        out_channels: int = 4,
        block_out_channels: tuple[int, ...] = (32,),
        cross_attention_dim: int = 32,
    ) -> None:
        super().__init__()
        channels = block_out_channels[0]
        self.conv_in = torch.nn.Conv2d(in_channels, channels, 3, padding=1)
        self.when = torch.nn.Linear(4, channels)
        self.space = Attention(channels, cross_attention_dim)
        self.time = Attention(channels, cross_attention_dim)
        self.neighbours = torch.nn.Conv1d(channels, channels, 3, padding=1)
        self.conv_out = torch.nn.Conv2d(channels, out_channels, 3, padding=1)

    def forward(
        self,
        sample: torch.Tensor,
        timestep: torch.Tensor,
        encoder_hidden_states: Any,
        added_time_ids: torch.Tensor,
        spatial_condition: torch.Tensor | None = None,
        cross_attention_kwargs: Any = None,
        return_dict: bool = True,
    ) -> Any:
        batch, frames, _, height, width = sample.shape
        hidden = self.conv_in(sample.flatten(0, 1))
        if spatial_condition is not None:
            hidden = hidden + spatial_condition.flatten(0, 1)
        when = torch.cat([timestep.to(hidden.dtype).expand(batch, 1) / 2, added_time_ids / 20], 1)
        hidden = hidden + self.when(when).repeat_interleave(frames, 0)[:, :, None, None]
        clip, heard = encoder_hidden_states
        mask = functional.interpolate(cross_attention_kwargs["ip_adapter_masks"][0], size=(height, width))
        places = hidden.flatten(2).transpose(1, 2)
        places = places + self.space(places, (clip, heard), mask.flatten(2).transpose(1, 2))
        means = [tokens.unflatten(0, (batch, frames)).mean(1).repeat_interleave(frames, 0) for tokens in (clip, *heard)]
        places = places + self.time(places, (means[0], means[1:]), None)
        for number, tokens in enumerate(heard):
            heard[number] = tokens[:, None]  # DICE-Talk's code, too, leaves its callers another list than they gave
        film = places.unflatten(0, (batch, frames)).permute(0, 2, 3, 1).flatten(0, 1)
        film = torch.tanh(self.neighbours(film)).unflatten(0, (batch, height * width)).permute(0, 3, 2, 1)
        answer = self.conv_out(film.flatten(0, 1).unflatten(2, (height, width)))
        answer = answer.unflatten(0, (batch, frames)) / math.sqrt(height)
        return {"sample": answer} if return_dict else (answer,)


def add_ip_adapters(unet: Any, num_adapter_embeds: list[int], scale: list[float]) -> Any:
    """Gives every attention keys and values for each further input."""
    config = unet.config
    for attention in (unet.space, unet.time):
        attention.processor = Adapter(config.block_out_channels[0], config.cross_attention_dim, scale)
    return torch.nn.ModuleList([unet.space.processor, unet.time.processor])
