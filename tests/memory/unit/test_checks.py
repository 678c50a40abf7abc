"""Rules for names and texts: each refusal shows the value in ASCII and says what would be right."""

from collections.abc import Callable

import pytest

from services.common.errors import InvalidRequest
from services.memory.checks import check_digest, check_handle, check_id, check_line, check_media_type, check_text


@pytest.mark.parametrize("name", ["a", "a-1", "x" * 63])
def test_an_id_of_lower_case_letters_digits_and_hyphens_passes(name: str) -> None:
    check_id("tenant", name)


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "a\\b", "ada\n", "ada\0", "Ada", "1a", "-a", "a b", "x" * 64, "\u0430da", "ad\u200ba"]
)
def test_another_id_is_refused(name: str) -> None:
    check_refusal(lambda: check_id("tenant", name), "tenant", "is not a name; use 1 to 63 lower-case letters a-z")


@pytest.mark.parametrize("name", ["a", "-", "A-1", "x" * 63, "0"])
def test_a_handle_of_letters_digits_and_hyphens_passes(name: str) -> None:
    check_handle("person", name)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "é", "x" * 64, "a_b", "a\n", "\u0430"])
def test_another_handle_is_refused(name: str) -> None:
    check_refusal(lambda: check_handle("person", name), "person", "is not a name; use 1 to 63 letters A-Z a-z")


@pytest.mark.parametrize("digest", ["", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 64 + "\n", "../" + "a" * 61])
def test_what_is_no_digest_is_refused(digest: str) -> None:
    check_digest("digest", "0123456789abcdef" * 4)
    check_refusal(lambda: check_digest("digest", digest), "digest", "is not a SHA-256; send 64 digits 0-9 a-f")


@pytest.mark.parametrize("media_type", ["", "audio", "/wav", "Audio/wav", "audio/wav\n", "a b/c", "a/b/c"])
def test_what_is_no_media_type_is_refused(media_type: str) -> None:
    check_media_type("media_type", "application/vnd.e3rg+json")
    check_refusal(lambda: check_media_type("media_type", media_type), "media_type", "is not a MIME type; write type")


@pytest.mark.parametrize("text", ["", " \n", "xxxxxx", "a\0b"])
def test_a_text_that_is_empty_too_long_or_has_a_nul_is_refused(text: str) -> None:
    check_text("text", "a\nb", 5)
    check_refusal(lambda: check_text("text", text, 5), "text", "give|leave it out")


@pytest.mark.parametrize("text", ["a\nb", "a\u2028b", "a\x1b[31mb", "a\x7fb"])
def test_a_line_with_a_break_or_a_control_character_is_refused(text: str) -> None:
    check_line("name", "نازنین‌زهرا 安", 20)
    check_refusal(lambda: check_line("name", text, 20), "name", "has line breaks or control characters; write one line")


def check_refusal(check: Callable[[], None], field: str, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text) as refusal:
        check()
    assert str(refusal.value).startswith(f"{field}: ")
    assert str(refusal.value).isascii()
