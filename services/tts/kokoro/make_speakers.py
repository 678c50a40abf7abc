"""Makes `speakers.npz` from the style vectors as they were published.

    python -m services.tts.kokoro.make_speakers FOLDER

FOLDER holds `af_heart.bin` and the others, 510 x 256 float32 each: `voices` of the package kokoro-js 1.2.1
(SHA-256 1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860, Apache-2.0) of the registry of Node.js.
"""

import sys
from dataclasses import fields
from pathlib import Path

import numpy as np

from perception.speaker import SpeakerReader
from perception.voice import Floats, Prosody, VoiceReader, resample
from services.tts.kokoro.network import PHONEMES_MAX, RATE_HZ, STYLE_SIZE, Network
from services.tts.kokoro.speakers import FILE
from services.tts.speech.reading import Dictionary

RANK = 16
FORMANTS = np.round(np.arange(0.72, 1.26, 0.04), 2)
AUDITION = (
    "The boy was there when the sun rose, a rod is used to catch pink salmon.",
    "The source of the huge river is the clear spring, kick the ball straight and follow through.",
)
"""Four of the Harvard sentences (IEEE, 1969), which hold English sounds in their usual shares."""


def main(folder: Path, models_dir: Path) -> None:
    """Reads, measures and writes."""
    names = sorted(path.stem for path in folder.glob("[ab][fm]_*.bin"))
    styles = np.stack([np.fromfile(folder / f"{name}.bin", "<f4").reshape(PHONEMES_MAX, STYLE_SIZE) for name in names])
    network = Network(models_dir / "kokoro" / "kokoro-v1.0.int8.onnx", threads=1)
    reader, speaker_reader = VoiceReader(), SpeakerReader(models_dir / "ge2e" / "pretrained.pt")
    dictionaries = {"a": Dictionary(), "b": Dictionary(is_british=True)}
    basis, coordinates = _factors(styles)
    measures = [field.name for field in fields(Prosody) if field.name != "envelope"]
    measured, embeddings, envelopes = [], [], []
    for name, own in zip(names, styles, strict=True):
        dictionary = dictionaries[name[0]]
        said = [network.sound(network.score(dictionary.phonemes(text), own, dictionary)) for text in AUDITION]
        samples = np.concatenate(said)
        prosody = reader.read(samples, RATE_HZ)
        measured.append([getattr(prosody, measure) for measure in measures])
        embeddings.append(speaker_reader.embed(samples, RATE_HZ))
        envelopes.append([_at_size(samples, formant, reader) for formant in FORMANTS])
    np.savez_compressed(
        FILE,
        names=np.array(names),
        basis=basis,
        coordinates=coordinates,
        embeddings=np.stack(embeddings),
        formants=FORMANTS.astype(np.float32),
        envelopes=np.array(envelopes, np.float32),
        measures=np.array(measures),
        prosody=np.array(measured, np.float32),
    )


def _factors(styles: Floats) -> tuple[Floats, Floats]:
    """Factors float32 (speakers, lengths, size) into (lengths, RANK) and (speakers, RANK, size)."""
    speakers, lengths, size = styles.shape
    flat = styles.transpose(1, 0, 2).reshape(lengths, -1).astype(np.float64)
    left, scale, right = np.linalg.svd(flat, full_matrices=False)
    root = np.sqrt(scale[:RANK])
    coordinates = (right[:RANK] * root[:, None]).reshape(RANK, speakers, size).transpose(1, 0, 2)
    return np.asarray(left[:, :RANK] * root, np.float32), np.asarray(coordinates, np.float32)


def _at_size(samples: Floats, formant: float, reader: VoiceReader) -> Floats:
    """The envelope with resonances `formant` times as high: that of the sound played so much faster."""
    return reader.read(resample(samples, round(RATE_HZ * formant), RATE_HZ), RATE_HZ).envelope


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(".models"))
