"""Marks in a prompt, and the tokens that stand for them."""

SPEECH_TOKEN_INDEX = -200
DEFAULT_SPEECH_TOKEN = "<speech>"
IMAGE_TOKEN_INDEX = -300
DEFAULT_IMAGE_TOKEN = "<image>"
