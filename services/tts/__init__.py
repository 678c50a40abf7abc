"""The tts service."""
