"""The processor of 2.6."""

from typing import ClassVar

from tests.models.minicpm_o.standin.media import MediaProcessor


class MiniCPMOProcessor(MediaProcessor):
    """Takes `chunk_input`, and marks in brackets."""

    image_mark = "(<image>./</image>)"
    audio_mark = "(<audio>./</audio>)"
    layout: ClassVar[dict[str, bool]] = {"chunk_input": True}
