"""MiniCPM-o 2.6, loaded by the transformers that it needs."""

from tests.models.minicpm_o.promises import Promises


class TestMiniCpmO26(Promises):
    """The promises, with the marks of this release."""

    version = "2.6"
    other_version = "4.5"
    film = "".join(
        "<unit>" + "(<image>./</image>)" * frames + "(<audio>./</audio>)" for frames in (2, 2, 1)
    )  # two frames a second, and one in the last half
    spoken = "<|tts_bos|>"
