"""Gathers the events of a turn into files and a summary that a person can read."""

import json
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from client.client import Timed
from client.terminal import age, count
from client.turn_lines import recalled_line, risk_line, served_line
from client.votes import vote_lines
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding


class Reply:
    """Writes `reply.json`, and `reply.mp4` or `reply.wav`, into a folder while the events come.

    Args:
        folder: Made when absent. An earlier reply in it is replaced once this one begins.
        clock: Returns Unix time in seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._audio = bytearray()
        self._rate_hz = 0
        self._record: dict[str, Any] = {"text": [], "served": [], "timings": [], "degraded": [], "video_qualities": []}
        self.begun = False

    def take(self, timed: Timed) -> Iterator[str]:
        """Takes an event; yields lines that tell a person what happened."""
        if not self.begun:
            self._begin()
        event, record = timed.event, self._record
        match event.WhichOneof("event"):
            case "risk_raised" | "understood" as kind:
                record[kind] = _plain(getattr(event, kind))
                yield from _understood_lines(event.understood) if kind == "understood" else _risk_lines(event)
            case "identity":
                record["identity"] = _plain(event.identity)
                turns = count(len(event.identity.turns), "earlier turn")
                stale = f", as known {age(event.identity.stale_s)}" if event.identity.stale_s else ""
                yield f"identity   {event.identity.identity.profile.name}; {turns} recalled{stale}"
                yield from _mood_lines(event.identity)
            case "recalled":
                record["recalled"] = _plain(event.recalled)
                yield from (f"recalled   {recalled_line(hit, self._clock())}" for hit in event.recalled.hits)
            case "delivery":
                record["delivery"] = _plain(event.delivery)
                yield from _delivery_lines(event.delivery)
            case "served":
                record["served"].append(_plain(event.served))
                yield f"served     {served_line(event.served)}"
            case "text":
                record["text"].append(event.text.sentence)
                yield f"reply      {event.text.sentence}"
            case "audio":
                record.setdefault("first_audio_s", round(timed.seconds, 3))
                self._audio += event.audio.samples
                self._rate_hz = event.audio.sample_rate_hz
            case "video":
                record.setdefault("first_video_s", round(timed.seconds, 3))
                yield from self._film(event.video)
            case "timing":
                record["timings"].append(_plain(event.timing))
            case "degraded":
                record["degraded"].append(_plain(event.degraded))
                yield f"degraded   {event.degraded.stage}: without {event.degraded.dropped} ({event.degraded.reason})"
            case "done":
                record["done"] = _plain(event.done)
                record["total_s"] = round(timed.seconds, 3)
                yield self._kept(event.done)

    def _film(self, video: pb.VideoChunk) -> Iterator[str]:
        qualities = self._record["video_qualities"]
        if video.quality:
            if video.quality not in qualities[-1:]:
                yield f"video      in quality {video.quality}"
            qualities.append(video.quality)
        with (self.folder / "reply.mp4").open("ab") as file:
            file.write(video.content)

    def _kept(self, done: pb.Done) -> str:
        if done.turn:
            return f"kept       as turn {done.turn}"
        # Whether it was to be kept, the memory's own stage tells.
        wanted = any(dropped["stage"] == "remember" for dropped in self._record["degraded"])
        return f"not kept   {'as said above' if wanted else 'it stood alone: name a --conversation'}"

    def _begin(self) -> None:
        self.begun = True
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("reply.mp4", "reply.wav", "reply.json"):
            (self.folder / name).unlink(missing_ok=True)

    def finish(self) -> Iterator[str]:
        """Writes what remains to be written; yields the summary."""
        record = self._record
        if self._audio and not (self.folder / "reply.mp4").exists():
            with wave.open(str(self.folder / "reply.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(self._rate_hz)
                file.writeframes(self._audio)
        (self.folder / "reply.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", "utf-8")
        yield from _timing_lines(record)
        written = [name for name in ("reply.mp4", "reply.wav", "reply.json") if (self.folder / name).exists()]
        yield f"written    {', '.join(str(self.folder / name) for name in written)}"


def _plain(message: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return plain


def _understood_lines(understood: understanding.UnderstandResponse) -> Iterator[str]:
    how = "heard" if understood.transcribed else "read"
    yield f"{how:10} {understood.text!r}"
    yield from (f"note       {note}" for note in understood.notes)
    yield from vote_lines(understood.record)


def _risk_lines(event: pb.RespondResponse) -> Iterator[str]:
    yield f"risk       {risk_line(event.risk_raised.risk)}"


def _mood_lines(recalled: memory.RecallResponse) -> Iterator[str]:
    felt = recalled.trajectory
    if recalled.turns and felt.label:
        change = round(felt.valence_change, 1)
        course = f", getting {'better' if change > 0 else 'worse'}" if change else ""
        yield f"mood       {felt.label}, valence {felt.valence:z.2f}{course}"


def _delivery_lines(delivery: pb.Delivery) -> Iterator[str]:
    emotion = delivery.emotion
    yield f"answers    {emotion.label} at {emotion.intensity:.2f}, by {delivery.decided_by}"
    for kind, name, exact in (
        ("voice style", delivery.voice_style, delivery.voice_exact),
        ("face class", delivery.face_class, delivery.face_exact),
    ):
        if name:
            yield f"mapped     {kind} {name}{'' if exact else ' (the nearest there is)'}"


def _timing_lines(record: dict[str, Any]) -> Iterator[str]:
    yield "stage            start   first     end   seconds after the end of the request"
    for timing in sorted(record["timings"], key=lambda row: (row["stage"] == "turn", row["start_s"])):
        # "z": recall begins just before the request ends, which is no "-0.00".
        yield f"  {timing['stage']:12} {timing['start_s']:z7.2f} {timing['first_s']:z7.2f} {timing['end_s']:z7.2f}"
    for name in ("first_audio_s", "first_video_s", "total_s"):
        if name in record:
            yield f"{name.removesuffix('_s').replace('_', ' '):11} {record[name]:.2f} s"
