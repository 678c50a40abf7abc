"""The processor of 4.5."""

from typing import Any

from transformers import BatchFeature

from tests.models.minicpm_o.standin.media import MediaProcessor


class MiniCPMOProcessor(MediaProcessor):
    """Takes `stream_input`, and marks without brackets."""

    image_mark = "<image>./</image>"
    audio_mark = "<audio>./</audio>"

    def __call__(
        self,
        text: list[str],
        images: list[Any],
        audios: list[Any],
        audio_parts: list[Any],
        max_length: int | None,
        max_slice_nums: int,
        use_image_id: bool,
        stream_input: bool,
        return_tensors: str,
    ) -> BatchFeature:
        if (max_length, max_slice_nums, use_image_id, stream_input, return_tensors) != (None, 1, False, False, "pt"):
            raise ValueError("not as for a clip")
        return self.laid_out(text, images, audios, audio_parts)
