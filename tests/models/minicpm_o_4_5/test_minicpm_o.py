"""MiniCPM-o 4.5, loaded by the transformers that it needs."""

from tests.models.minicpm_o.promises import Promises


class TestMiniCpmO45(Promises):
    """The promises, with the marks of this release."""

    version = "4.5"
    other_version = "2.6"
    film = "".join("<image>./</image>" * frames + "<audio>./</audio>" for frames in (2, 2, 1))
    spoken = "<think>\n\n</think>\n\n<|tts_bos|>"
