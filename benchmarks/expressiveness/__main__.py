"""Films replies of every ready identity in every emotion and measures what the finished films show.

    make models WITH='judges kokoro'
    pip install 'e3rg[bench]'
    python -m benchmarks.expressiveness [--identity NAME]… [--keep FOLDER]

The voice and the face are the real ones, in this process; nothing needs to be up. About 30 films an identity, each
measured after it was encoded and decoded again, by networks that no service uses. `docs/expressiveness.md` explains
the tables.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.expressiveness import agreement, controls, tables
from benchmarks.expressiveness.faces import Eye, Sight, faces
from benchmarks.expressiveness.judges import Facex, Judge, WhatTheFace
from benchmarks.expressiveness.likeness import Likeness
from benchmarks.expressiveness.lips import gap_mm
from benchmarks.expressiveness.takes import LINES, Set
from perception.face import FaceReader
from perception.speaker import SpeakerReader
from services.memory.ready import ready_identities
from services.tts.backends import hibari
from services.video.backends import portrait

INTENSITIES = (0.3, 0.6, 1.0)


def main() -> int:
    """Runs the benchmark; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ready = {identity.id: identity for identity in ready_identities()}
    parser.add_argument("--identity", action="append", choices=ready, help="only this one; may be given several times")
    parser.add_argument("--keep", type=Path, help="put the films into this folder")
    arguments = parser.parse_args()
    settings = portrait.Settings()
    voice, face = hibari.create(), portrait.create()
    try:
        judges: list[Judge] = [Facex(settings.models_dir), WhatTheFace(settings.models_dir)]
        speaker = SpeakerReader(settings.models_dir / "ge2e" / "pretrained.pt")
        eye = Eye(FaceReader(settings.models_dir), judges, Likeness(settings.models_dir))
    except FileNotFoundError as error:
        print(f"{error}; `make models WITH='judges kokoro'` fetches what is missing", file=sys.stderr)
        return 1
    sets = [Set(ready[name], voice, face) for name in arguments.identity or ready]
    sights = [sight for stage in sets for sight in _watch(stage, eye, arguments.keep)]
    rest = {stage.name: eye.judge(stage.portrait, eye.find(stage.portrait)) for stage in sets}
    tables.print_controls(rest, controls.look(eye))
    tables.print_seen(sights, INTENSITIES)
    for judge in judges:
        tables.print_confusion(sights, judge.name, INTENSITIES[-1])
    heard = agreement.fits(agreement.listen(sight.take for sight in sights), voice.styles)
    tables.print_agreement(sights, judges[0].name, agreement.read_lines(), heard)
    if len(sets) > 1:
        seen, portraits = faces(sights), {stage.name: eye.embed(stage.portrait) for stage in sets}
        tables.print_likeness("face (dlib)", seen, portraits)
        tables.print_distances(seen, portraits)
        recordings = {stage.name: _speaker(stage, speaker) for stage in sets}
        tables.print_likeness("voice (GE2E)", agreement.speakers((s.take for s in sights), speaker), recordings)
    tables.print_lips(sights)
    return 0


def _watch(stage: Set, eye: Eye, keep: Path | None) -> Iterator[Sight]:
    """Films and watches all replies of one identity."""
    rest_mm = gap_mm(eye.find(stage.portrait))
    for asked in LINES:
        for intensity in _intensities(asked):
            take = stage.film(asked, intensity)
            if keep:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{stage.name}-{asked}-{intensity:g}.mp4").write_bytes(take.mp4)
            yield eye.watch(take, rest_mm)
    print(f"{stage.name} filmed and watched", file=sys.stderr, flush=True)


def _speaker(stage: Set, reader: SpeakerReader) -> NDArray[np.float64]:
    """Whose voice is in the recording that the identity's voice was fitted to, float64 (256,)."""
    return reader.embed(stage.recording.samples, stage.recording.sample_rate_hz).astype(np.float64)


def _intensities(asked: str) -> Sequence[float]:
    """Neutral has no strength; every other emotion is compared with the same words said plainly."""
    return (0.0,) if asked == "neutral" else (0.0, *INTENSITIES)


if __name__ == "__main__":
    sys.exit(main())
