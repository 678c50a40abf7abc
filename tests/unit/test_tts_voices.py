"""The voices that a model was lent, without a server."""

import weakref
from collections.abc import Sequence

import numpy as np
import pytest

from services.common.errors import InvalidRequest
from services.tts.domain import VOICE_KEEP_S, Delivery, Profile, Voice, VoiceReference, Voices
from tests.fake_voice import FakeVoice

ANNA = Profile("young", "female", "mid")
CALM = Delivery("default", 0.0)
REFERENCE = VoiceReference("a" * 64, np.ones(8, np.float32), 16_000)


class FreshVoice(FakeVoice):
    """Makes of each recording an object of its own."""

    def prepare(self, references: Sequence[VoiceReference], profile: Profile) -> Voice:
        return set()


def read() -> Sequence[VoiceReference]:
    return [REFERENCE]


def unread() -> Sequence[VoiceReference]:
    raise AssertionError("a recording was decoded whose voice is known")


def test_recordings_are_decoded_once_and_not_where_the_fitted_voice_is_sent() -> None:
    one, other = Voices(FakeVoice(), 4), Voices(FakeVoice(), 4)
    packed = one.fit([REFERENCE.digest], ANNA, b"", read).packed
    for voices, sent in ((one, b""), (one, packed), (other, packed)):
        assert voices.fit([REFERENCE.digest], ANNA, sent, unread).fit_s == 0


def test_a_fitted_voice_that_was_sent_is_heard_from_nobody_else() -> None:
    model = FakeVoice()
    packed = Voices(FakeVoice(), 4).fit([REFERENCE.digest], ANNA, b"", read).packed
    voices = Voices(model, 4)
    sent = voices.fit([REFERENCE.digest], ANNA, packed, unread).voice
    own = voices.fit([REFERENCE.digest], ANNA, b"", read).voice
    assert (own is sent, len(model.prepared)) == (False, 1)
    assert voices.fit([REFERENCE.digest], ANNA, packed, unread).voice is sent


def test_a_voice_is_gone_so_long_after_its_last_use_also_when_nobody_speaks() -> None:
    now_s = 0.0
    voices = Voices(FreshVoice(), 4, lambda: now_s)
    voices.fit([REFERENCE.digest], ANNA, b"", read)
    fitted = weakref.ref(voices.fit([REFERENCE.digest], ANNA, b"", unread).voice)
    now_s = VOICE_KEEP_S - 1
    voices.drop_unused()
    voices.fit([REFERENCE.digest], ANNA, b"", unread)
    now_s += VOICE_KEEP_S - 1
    voices.drop_unused()
    assert fitted() is not None
    now_s += 1
    voices.drop_unused()
    assert fitted() is None


def test_what_the_model_cannot_read_is_fitted_again_and_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    key = Voices(FakeVoice(), 4).fit([REFERENCE.digest], ANNA, b"", read).packed.removesuffix(b"a fitted voice")
    found = Voices(FakeVoice(), 4).fit([REFERENCE.digest], ANNA, key + b"{}", read)
    assert found.fit_s > 0
    assert found.packed == key + b"a fitted voice"
    assert "fitted again: not a fitted voice" in caplog.text


@pytest.mark.parametrize(
    ("profile", "delivery", "problem"),
    [
        (Profile("young", "female", "mid", "de"), CALM, "header.profile.language: 'de'; use one of: en"),
        (ANNA, Delivery("bored", 0.5), "header.style: 'bored'; use one of: default, friendly"),
        (ANNA, Delivery("sad", 1.5), r"header.emotion.intensity: 1\.5; send 0 to 1"),
        (ANNA, Delivery("sad", float("nan")), "header.emotion.intensity: nan"),
    ],
)
def test_what_a_model_cannot_speak_is_refused(profile: Profile, delivery: Delivery, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        Voices(FakeVoice(), 4).check(profile, delivery)


def test_an_accent_of_a_language_is_that_language() -> None:
    Voices(FakeVoice(), 4).check(Profile("young", "female", "mid", "en-GB"), CALM)
