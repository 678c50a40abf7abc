"""What the sound of a voice says about its speaker; used by the voice back-end."""
