"""The processor of 2.6."""

from typing import Any

from transformers import BatchFeature

from tests.models.minicpm_o.standin.media import MediaProcessor


class MiniCPMOProcessor(MediaProcessor):
    """Takes `chunk_input`, and marks in brackets."""

    image_mark = "(<image>./</image>)"
    audio_mark = "(<audio>./</audio>)"

    def __call__(
        self,
        text: list[str],
        images: list[Any],
        audios: list[Any],
        audio_parts: list[Any],
        max_length: int | None,
        max_slice_nums: int,
        use_image_id: bool,
        chunk_input: bool,
        return_tensors: str,
    ) -> BatchFeature:
        if (max_length, max_slice_nums, use_image_id, chunk_input, return_tensors) != (None, 1, False, True, "pt"):
            raise ValueError("not as for a clip")
        return self.laid_out(text, images, audios, audio_parts)
