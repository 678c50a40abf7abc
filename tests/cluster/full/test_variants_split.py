"""Two hundred conversations share two voices."""

from tests.support.talks import check_split
from tests.support.variant_commands import change

CONVERSATIONS = 200


def test_two_hundred_conversations_are_split_by_weight_and_keep_their_voice(voices: str, address: str) -> None:
    change(address, "put", "tts", "kokoro", f"dns:///{voices}-tts-kokoro:50051")
    change(address, "set", "tts", "kokoro=10")
    check_split(address, "long", CONVERSATIONS, {"default": 90, "kokoro": 10})
