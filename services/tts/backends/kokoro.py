"""Speaks English with Kokoro (82 M parameters, 8 bit): the nearest of its 28 speakers, fitted to the identity.

About forty times slower than hibari, and with more different voices: for machines that can afford it. Each
sentence is cut where nobody hears it, and its start leaves while its end is still being made.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from perception.speaker import SpeakerReader
from perception.voice import VoiceReader
from services.common.weights import digest_of
from services.tts import domain
from services.tts.domain import Delivery, Profile, Speech, VoiceReference, own
from services.tts.kokoro import speakers
from services.tts.kokoro.network import PHONEMES_MAX, RATE_HZ, Network
from services.tts.kokoro.passage import Passage
from services.tts.kokoro.speakers import Speaker
from services.tts.speech import sentences
from services.tts.speech.likeness import FITTING, average, fit, listen
from services.tts.speech.manner import STYLES, Manner, manner
from services.tts.speech.reading import Dictionary, Reading, readings
from services.tts.speech.sentences import Sentence
from services.tts.speech.timbre import Timbre, decode, encode

WARM_UP = "You know."


class Settings(BaseSettings):
    """What the Kokoro back-end can be told."""

    model_config = SettingsConfigDict(env_prefix="E3RG_TTS_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """Folder of the weights, as `make models WITH=kokoro` fills it."""
    threads: int = Field(default=1, ge=1)
    """Cores that a sentence may use."""


@dataclass(frozen=True, eq=False)
class KokoroVoice:
    """A voice of this back-end: one of Kokoro's speakers, with the timbre that makes it the identity's."""

    speaker: Speaker
    timbre: Timbre


class KokoroBackend:
    """Speaks with one network; made by `create`."""

    model = "kokoro-82m-v1.0-int8"
    sample_rate_hz = RATE_HZ
    styles: tuple[str, ...] = tuple(STYLES)
    languages: tuple[str, ...] = ("en",)
    fitting = FITTING
    texts_max = 1

    def __init__(self, network: Network, speaker_reader: SpeakerReader, reader: VoiceReader, digest: str) -> None:
        self._network = network
        self._speaker_reader = speaker_reader
        self._reader = reader
        self._speakers = speakers.load()
        self._dictionaries = {is_british: Dictionary(is_british) for is_british in (False, True)}
        self.digest = digest

    def check(self, reference: VoiceReference) -> None:
        """Listens whether a voice can be fitted to a recording.

        Raises:
            InvalidRequest: It is too short, silent or not speech.
        """
        listen(reference, self._reader)

    def prepare(self, references: Sequence[VoiceReference], profile: Profile) -> KokoroVoice:
        """Takes the speaker nearest to the recordings, and fits it to what they have in common; about 0.3 s.

        Raises:
            InvalidRequest: A recording is too short, silent or not speech.
        """
        heard = average([listen(reference, self._reader) for reference in references])
        embedding = np.mean(
            [self._speaker_reader.embed(each.samples, each.sample_rate_hz) for each in references], axis=0
        )
        speaker = speakers.nearest(list(self._speakers.values()), embedding, heard.pitch_hz, profile)
        return KokoroVoice(speaker, fit(heard, profile, speaker.audition))

    def pack(self, voice: domain.Voice) -> bytes:
        """Returns the speaker's name and the timbre as JSON."""
        known = own(voice, KokoroVoice)
        return json.dumps({"speaker": known.speaker.name, "timbre": encode(known.timbre).decode()}).encode()

    def unpack(self, content: bytes) -> KokoroVoice:
        """Returns the voice that `pack` wrote.

        Raises:
            ValueError: These are no bytes of `pack`.
        """
        try:
            stored = json.loads(content)
            return KokoroVoice(self._speakers[stored["speaker"]], decode(stored["timbre"].encode()))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a voice of {self.model}: {error!r}") from error

    def voice(self, name: str) -> KokoroVoice:
        """Returns one of Kokoro's speakers as it is.

        Raises:
            KeyError: There is none of that name.
        """
        return KokoroVoice(self._speakers[name], Timbre())

    def speak(self, texts: Sequence[str], voice: domain.Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks the texts, each sentence in stretches of 0.7 s at first and up to 4 s later.

        Raises:
            InvalidRequest: Nothing in a text has a sound.
            TypeError: The voice is another back-end's.
        """
        known, move = own(voice, KokoroVoice), manner(delivery)
        # A text without a sound is refused here and not when its turn comes.
        found = readings(texts, self._dictionaries[known.speaker.is_british].phonemes)
        return (speech for reading in found for part in _parts(reading) for speech in self._say(part, known, move))

    def close(self) -> None:
        """Nothing to free: the runtime frees the model with the object."""

    def _say(self, reading: Reading, voice: KokoroVoice, move: Manner) -> Iterator[Speech]:
        speaker, timbre = voice.speaker, voice.timbre
        score = self._network.score(reading.phonemes, speaker.styles, self._dictionaries[speaker.is_british])
        pause_s = sentences.pause_s(reading.sentence) * move.pause / timbre.rate
        passage = Passage(score, speaker.prosody.pitch_hz, timbre, move, pause_s)
        for played in passage.play(self._network, seed=zlib.crc32(reading.phonemes.encode())):
            yield Speech(
                samples=np.round(played.samples * 32767).astype(np.int16),
                sample_rate_hz=RATE_HZ,
                phonemes=played.phonemes,
                applied=played.applied,
                ends_text=played.is_last and reading.ends_text,
            )


def create() -> KokoroBackend:
    """Loads the model and says a sentence, so that the first caller does not wait.

    Raises:
        FileNotFoundError: The weights are missing.
    """
    settings = Settings()
    weights = settings.models_dir / "kokoro" / "kokoro-v1.0.int8.onnx"
    embedding = settings.models_dir / "ge2e" / "pretrained.pt"
    network, speaker_reader = Network(weights, settings.threads), SpeakerReader(embedding)
    digest = digest_of(weights, embedding, speakers.FILE)
    backend = KokoroBackend(network, speaker_reader, VoiceReader(), digest)
    for _ in backend.speak([WARM_UP], backend.voice("af_heart"), Delivery("cheerful", 1.0)):
        pass
    return backend


def _parts(reading: Reading) -> Iterator[Reading]:
    """Cuts a sentence of too many sounds for the network, like a long number, where a word ends."""
    if len(reading.phonemes) <= PHONEMES_MAX:
        yield reading
        return
    end = reading.phonemes.rfind(" ", 0, PHONEMES_MAX) + 1 or PHONEMES_MAX
    head = Sentence(reading.sentence.text, is_cut=True)
    yield Reading(head, reading.phonemes[:end], ends_text=False)
    yield from _parts(reading._replace(phonemes=reading.phonemes[end:]))
