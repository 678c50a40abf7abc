"""Decodes what the user sent, once, for all voters."""

from services.understanding.media.clip import Audio, Media, read_audio, read_video
from services.understanding.media.film import Frame
from services.understanding.media.work import RATE_HZ, Limits

__all__ = ["RATE_HZ", "Audio", "Frame", "Limits", "Media", "read_audio", "read_video"]
