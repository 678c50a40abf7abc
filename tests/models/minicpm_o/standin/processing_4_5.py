"""The processor of 4.5."""

from typing import ClassVar

from tests.models.minicpm_o.standin.media import MediaProcessor


class MiniCPMOProcessor(MediaProcessor):
    """Takes `stream_input`, and marks without brackets."""

    image_mark = "<image>./</image>"
    audio_mark = "<audio>./</audio>"
    layout: ClassVar[dict[str, bool]] = {"stream_input": False}
