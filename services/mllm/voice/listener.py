"""Second listener, for speech that the English recogniser is unsure of: its language, and what is said in it.

Whisper base, of 99 languages. Of a sentence read aloud by each of 47 people in German it told German, of each of 21 in
English English. The English recogniser, which makes English words of any speech, was unsure, as `is_unsure` has it, of
each of the 47 and of one of the 21.
"""

from collections.abc import Sequence

import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.transcribe import Segment
from numpy.typing import NDArray

from services.mllm.domain import Transcript

LOGPROB_MIN = -0.35
"""Mean logarithm of a token's probability below which words are doubted; Whisper's own bar for a failure is -1."""
COMPRESSION_MAX = 2.4
"""Above this, Whisper's own bar, the words go round in circles."""
ENGLISH_MIN = 0.1
"""Probability from which speech is left to the English recogniser: an accent is no other language."""
SURE_MIN = 0.75
"""Probability from which the language is told; below it only that it is not English."""
UNKNOWN = Transcript("(speech in another language)", "und", 0.0)

Floats = NDArray[np.float32]


def is_unsure(segments: Sequence[Segment]) -> bool:
    """Tells whether words of the English recogniser may be no English at all; so are none."""
    if not segments:
        return True
    logprob = np.average([one.avg_logprob for one in segments], weights=[len(one.tokens) + 1 for one in segments])
    return bool(logprob < LOGPROB_MIN) or max(one.compression_ratio for one in segments) > COMPRESSION_MAX


class Listener:
    """Hears other languages than English.

    Args:
        whisper: A multilingual model.
    """

    def __init__(self, whisper: WhisperModel) -> None:
        self._whisper = whisper

    def hear(self, speech: Floats) -> Transcript | None:
        """Transcribes speech, float32 (n,) at 16 kHz; None when it may be English."""
        language, probability, ranks = self._whisper.detect_language(speech)
        if dict(ranks)["en"] >= ENGLISH_MIN:
            return None
        if probability < SURE_MIN:
            return UNKNOWN
        segments, _ = self._whisper.transcribe(
            speech, language=language, beam_size=1, temperature=0.0, condition_on_previous_text=False
        )
        text = " ".join(segment.text.strip() for segment in segments).strip()
        return Transcript(text, language, 0.0) if text else UNKNOWN

    def close(self) -> None:
        """Frees its memory."""
        self._whisper.model.unload_model()
