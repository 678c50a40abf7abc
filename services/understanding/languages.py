"""Languages other than English: tells which one a message is in, and what is said to those that nobody here writes."""

import tomllib
from collections.abc import Collection
from importlib import resources

from perception.language import LanguageReader, is_latin

UNKNOWN = "und"
"""Speech in a language that was not recognised, as ISO 639-2 has it; it is answered in English."""
SPOKEN_BY_MORE = {"bg": "ru", "uk": "ru", "fa": "ar"}
"""Of a word or two in letters that several languages have, the likelier guess."""


class Languages:
    """Reads languages of messages, and keeps a reply for each."""

    def __init__(self) -> None:
        content = tomllib.loads(resources.files(__package__).joinpath("languages.toml").read_text("utf-8"))
        unknown = content.pop("unknown")
        self._replies: dict[str, list[str]] = content | {UNKNOWN: unknown}
        self._reader = LanguageReader({"en", *self.known})

    @property
    def known(self) -> Collection[str]:
        """ISO 639-1 codes of the languages that have a reply."""
        return self._replies.keys() - {UNKNOWN}

    def language_of(self, text: str, among: Collection[str] = ()) -> str:
        """Return the language of a message; empty for English and where it is not sure.

        Args:
            text: The message.
            among: The languages that it can be in, where its words tell that it is in one of them.
        """
        if among:
            return self._reader.likeliest(text, among)
        found = self._reader.language_of(text)
        if not found and not is_latin(text):
            guess = self._reader.likeliest(text, self.known)
            return SPOKEN_BY_MORE.get(guess, guess)
        return "" if found == "en" else found

    def reply(self, language: str) -> list[str]:
        """Return the sentences for who writes in a language; in English where it has none of its own."""
        return self._replies.get(language, self._replies[UNKNOWN])
