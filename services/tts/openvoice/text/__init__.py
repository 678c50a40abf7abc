"""The text front-ends of OpenVoice's base speakers: what was trained on is what is read, symbol for symbol."""
