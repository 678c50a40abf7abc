"""The 28 English speakers of Kokoro, and which of them is nearest to a recording.

`speakers.npz` holds, for each, the style vectors that Kokoro's author published (Apache-2.0), and how it sounds;
`make_speakers.py` made it. A speaker has a style for every number of phonemes; these lie in a space of 16 dimensions,
so they are kept as coordinates in it, exact to 0.0001, in a thirtieth of the room.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from perception.speaker import likeness
from perception.voice import Floats, Prosody, envelope_of_curve, semitones
from services.tts.domain import Profile
from services.tts.speech.timbre import Timbre, tilt_curve_db

FILE = Path(__file__).with_name("speakers.npz")
PITCH_COST = 0.015
"""Likeness that a semitone between speaker and recording costs: far from its own pitch a voice is another's."""
GENDERS = {"female": "f", "male": "m"}
_FREQUENCY_HZ = np.linspace(0, 8000, 513, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Speaker:
    """One speaker.

    Attributes:
        name: Kokoro's name for it: accent (a, b), gender (f, m), and a first name.
        styles: float32 (510, 256).
        embedding: float32 (256,), see `perception.speaker`.
        prosody: How it sounds when it is calm.
        formants: Sizes of the vocal tract for which the envelope is known, rising.
        envelopes: float32 (formants, cepstra).
    """

    name: str
    styles: Floats
    embedding: Floats
    prosody: Prosody
    formants: Floats
    envelopes: Floats

    @property
    def is_british(self) -> bool:
        """Whether it speaks British English."""
        return self.name.startswith("b")

    @property
    def gender(self) -> str:
        """Female or male."""
        return next(gender for gender, letter in GENDERS.items() if self.name[1] == letter)

    def audition(self, timbre: Timbre) -> Prosody:
        """Says how the speaker would sound with a timbre, without a sound. Breathiness stays as it is."""
        envelope = np.array([np.interp(timbre.formant, self.formants, column) for column in self.envelopes.T])
        envelope += timbre.tilt_db_octave * envelope_of_curve(_FREQUENCY_HZ, tilt_curve_db(_FREQUENCY_HZ))
        if timbre.colour is not None:
            envelope += timbre.colour
        return replace(
            self.prosody,
            pitch_hz=self.prosody.pitch_hz * timbre.pitch,
            pitch_range_semitones=self.prosody.pitch_range_semitones * timbre.pitch_range,
            rate_hz=self.prosody.rate_hz * timbre.rate,
            envelope=envelope.astype(np.float32),
        )


def load(file: Path = FILE) -> dict[str, Speaker]:
    """Returns the speakers by name."""
    with np.load(file, allow_pickle=False) as stored:
        content = {name: stored[name] for name in stored.files}
    speakers = {}
    for index, name in enumerate(content["names"].tolist()):
        numbers = dict(zip(content["measures"].tolist(), content["prosody"][index].tolist(), strict=True))
        formants, envelopes = content["formants"], content["envelopes"][index]
        calm = envelopes[int(np.argmin(np.abs(formants - 1)))]
        speakers[name] = Speaker(
            name=name,
            styles=np.asarray(content["basis"] @ content["coordinates"][index], np.float32),
            embedding=content["embeddings"][index],
            prosody=Prosody(**numbers, envelope=calm),
            formants=formants,
            envelopes=envelopes,
        )
    return speakers


def nearest(speakers: Sequence[Speaker], embedding: Floats, pitch_hz: float, profile: Profile) -> Speaker:
    """Returns the speaker that is most like a recording.

    Only speakers of the profile's gender are asked; for a child, the women, whose voices are nearest in size.

    Args:
        speakers: Who can be chosen.
        embedding: Of the recording.
        pitch_hz: Of the recording.
        profile: Whose recording.
    """
    gender = "female" if profile.age == "child" else profile.gender
    asked = [speaker for speaker in speakers if speaker.gender == gender] or speakers
    return max(
        asked,
        key=lambda speaker: (
            likeness(speaker.embedding, embedding) - PITCH_COST * abs(semitones(pitch_hz, speaker.prosody.pitch_hz))
        ),
    )
