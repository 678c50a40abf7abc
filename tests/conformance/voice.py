"""What holds of every back-end of tts: the tests, for a module of each back-end to take up.

A back-end whose real weights cannot be had is tested with random ones (`trained = False`): then nothing is asked of how
it sounds, only that what is asked for changes the sound.
"""

import hashlib
import wave
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from perception.voice import Prosody, VoiceReader
from services.common.errors import InvalidRequest
from services.tts.domain import VISEMES, Backend, Delivery, Profile, Speech, Voice, VoiceReference
from services.tts.servicer import CHUNK_S
from tests.conformance import ends
from tests.model_services import serving_tts
from tests.samples import wav
from tests.serving import refused

if TYPE_CHECKING:
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub as Stub

WHEEL = emotions.load()
IDENTITIES = Path(__file__).parents[2] / "services" / "memory" / "identities"
PROFILES = {"anna": Profile("young", "female", "high"), "marcus": Profile("middle-aged", "male", "low")}
TEXT = "The weather stays warm by the river."
LONG = "The first boat left the harbour at nine. The second one waited for the mail. Then it left as well."
CALM = Delivery("default", 0.0)

Say = Callable[..., NDArray[np.float32]]


def semitones(pitch_hz: float, other_hz: float) -> float:
    return float(12 * np.log2(pitch_hz / other_hz))


def recording(name: str) -> VoiceReference:
    content = (IDENTITIES / name / "voice.wav").read_bytes()
    with wave.open(str(IDENTITIES / name / "voice.wav")) as file:
        samples = np.asarray(np.frombuffer(file.readframes(-1), "<i2") / 32768, np.float32)
        return VoiceReference(hashlib.sha256(content).hexdigest(), samples, file.getframerate())


def cut(reference: VoiceReference, duration_s: float) -> VoiceReference:
    """The middle of a recording."""
    count = round(duration_s * reference.sample_rate_hz)
    start = (len(reference.samples) - count) // 2
    return VoiceReference("cut", reference.samples[start : start + count], reference.sample_rate_hz)


def joined(speeches: list[Speech]) -> NDArray[np.float32]:
    return np.asarray(np.concatenate([speech.samples for speech in speeches]) / 32768, np.float32)


def header(name: str = "anna", content: bytes = b"", style: str = "default", language: str = "en") -> pb.SpeakRequest:
    content = content or (IDENTITIES / name / "voice.wav").read_bytes()
    profile = PROFILES[name]
    return pb.SpeakRequest(
        header=pb.SpeakHeader(
            emotion=common.Emotion(label="neutral", intensity=0.0, ontology_hash=WHEEL.digest),
            style=style,
            profile=common.Profile(age=profile.age, gender=profile.gender, timbre=profile.timbre, language=language),
            voices=[pb.VoiceFile(digest=hashlib.sha256(content).hexdigest(), size_bytes=len(content))],
        )
    )


def asked(*texts: str, content: bytes = b"", **head: str) -> list[pb.SpeakRequest]:
    content = content or (IDENTITIES / "anna" / "voice.wav").read_bytes()
    parts = [header(content=content, **head), pb.SpeakRequest(voice=content)]
    return parts + [pb.SpeakRequest(sentence=text) for text in texts]


class Watched(ends.Watched[Speech]):
    """A back-end, of which a test sees how many texts it ends."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(lambda speech: speech.ends_text)
        self._backend = backend

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def speak(self, texts: Sequence[str], voice: Voice, delivery: Delivery) -> Iterator[Speech]:
        return self.watch(self._backend.speak(texts, voice, delivery))


class VoicePromises:
    """The tests. A back-end's own class is called `Test…` and gives `create`."""

    trained = True

    @classmethod
    def create(cls) -> Backend:
        """Loads the back-end."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> Iterator[Backend]:
        backend = cls.create()
        yield backend
        backend.close()

    @pytest.fixture(scope="class")
    @classmethod
    def voices(cls, backend: Backend) -> dict[str, Voice]:
        return {name: backend.prepare([recording(name)], profile) for name, profile in PROFILES.items()}

    @pytest.fixture(scope="class")
    @classmethod
    def say(cls, backend: Backend, voices: dict[str, Voice]) -> Say:
        """Speaks `TEXT` once for each way of saying it."""

        @cache
        def say(name: str = "anna", delivery: Delivery = CALM) -> NDArray[np.float32]:
            return joined(list(backend.speak([TEXT], voices[name], delivery)))

        return say

    @pytest.fixture(scope="class")
    @classmethod
    def hear(cls, backend: Backend, say: Say) -> Callable[..., Prosody]:
        reader = VoiceReader()
        return lambda *way: reader.read(say(*way), backend.sample_rate_hz)

    @pytest.fixture
    async def stub(self, backend: Backend) -> AsyncIterator["Stub"]:
        async with serving_tts(backend, WHEEL) as served:
            yield cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel))

    # What it says of itself

    async def test_its_card_names_what_it_has(self, stub: "Stub", backend: Backend) -> None:
        model = await stub.GetModel(pb.GetModelRequest())
        assert model.card.model
        assert len(bytes.fromhex(model.card.digest)) == 32
        assert set(model.styles) <= set(WHEEL.styles)
        assert "default" in model.styles
        assert model.languages
        assert 16_000 <= model.sample_rate_hz <= 48_000

    # Pieces and times

    async def test_speech_comes_in_short_pieces_of_one_rate_and_every_sentence_is_ended(
        self, stub: "Stub", backend: Backend
    ) -> None:
        texts = ["It is late. The lamp is on.", "Sit down."]
        parts = [part async for part in stub.Speak(iter(asked(*texts)), timeout=300)]
        model = await stub.GetModel(pb.GetModelRequest())
        assert parts[0].ready.fitted
        assert (parts[0].ready.card, parts[0].ready.sample_rate_hz) == (model.card, backend.sample_rate_hz)
        assert [part.WhichOneof("part") for part in parts].count("ready") == 1
        chunks = [part.chunk for part in parts if part.HasField("chunk")]
        assert {chunk.sample_rate_hz for chunk in chunks} == {backend.sample_rate_hz}
        assert max(len(chunk.samples) for chunk in chunks) <= 2 * round(CHUNK_S * backend.sample_rate_hz)
        ends = [part.sentence_end for part in parts if part.HasField("sentence_end")]
        assert [end.sentence for end in ends] == texts
        assert parts[-1].HasField("sentence_end")
        duration_s = sum(len(chunk.samples) for chunk in chunks) / 2 / backend.sample_rate_hz
        assert sum(end.duration_s for end in ends) == pytest.approx(duration_s)
        assert all(end.applied for end in ends)

    def test_sounds_follow_each_other_without_gaps_to_the_end(self, backend: Backend, voices: dict[str, Voice]) -> None:
        for speech in backend.speak([LONG], voices["anna"], CALM):
            place_s = 0.0
            for sound in speech.phonemes:
                assert sound.viseme in VISEMES
                assert sound.duration_s >= 0
                assert sound.start_s == pytest.approx(place_s, abs=1e-6)
                place_s += sound.duration_s
            assert place_s == pytest.approx(len(speech.samples) / speech.sample_rate_hz, abs=1e-6)

    def test_every_text_is_ended_once_and_texts_together_are_texts_one_by_one(
        self, backend: Backend, voices: dict[str, Voice]
    ) -> None:
        texts = [LONG, "Good.", TEXT]
        together = list(backend.speak(texts, voices["anna"], CALM))
        assert [speech.ends_text for speech in together].count(True) == len(texts)
        assert together[-1].ends_text
        apart = [speech for text in texts for speech in backend.speak([text], voices["anna"], CALM)]
        difference = np.abs(joined(together) - joined(apart))
        assert difference.max() < 2e-3

    # Sound

    def test_it_is_as_loud_as_speech_and_does_not_clip(self, say: Say) -> None:
        samples = say()
        assert np.abs(samples).max() < 1.0
        if self.trained:
            active = np.abs(samples) > 0.02
            level_dbfs = 10 * np.log10(np.mean(samples[active] ** 2))
            assert -32 < level_dbfs < -12

    def test_the_same_asked_twice_sounds_the_same(self, backend: Backend, voices: dict[str, Voice], say: Say) -> None:
        assert np.array_equal(say(), joined(list(backend.speak([TEXT], voices["anna"], CALM))))

    # Emotion

    def test_intensity_zero_is_the_default_whatever_the_style(self, backend: Backend, say: Say) -> None:
        for style in backend.styles:
            assert np.array_equal(say(), say("anna", Delivery(style, 0.0))), style

    def test_every_style_is_heard_and_more_of_it_is_heard_more(
        self, backend: Backend, say: Say, hear: Callable[..., Prosody]
    ) -> None:
        calm = hear()
        for style in set(backend.styles) - {"default"}:
            if not self.trained:
                half, full = (say("anna", Delivery(style, intensity)) for intensity in (0.5, 1.0))
                assert not np.array_equal(half, full)
                assert not np.array_equal(full, say())
                continue
            part, whole = (_effect(hear("anna", Delivery(style, intensity)), calm) for intensity in (0.5, 1.0))
            # Steps that people just notice, less a margin: hibari's friendly is 1.12 of them on VNNI, 1.17 on AVX2.
            assert max(np.abs(whole)) > 0.9, (style, whole)
            strongest = int(np.argmax(np.abs(whole)))
            # The least measured: half of kokoro's friendly is 0.15 of the whole on VNNI, 0.06 on AVX2, 0.08 on SSE.
            share = part[strongest] / whole[strongest]
            assert 0 < share < 1.1, (style, part, whole)

    # Identity

    def test_people_sound_like_their_recordings(self, say: Say, hear: Callable[..., Prosody]) -> None:
        assert not np.array_equal(say("anna"), say("marcus"))
        if not self.trained:
            return
        reader = VoiceReader()
        own = {name: reader.read(recording(name).samples, recording(name).sample_rate_hz) for name in PROFILES}
        for name, other in (("anna", "marcus"), ("marcus", "anna")):
            off = abs(semitones(hear(name).pitch_hz, own[name].pitch_hz))
            assert off < 3 < abs(semitones(hear(name).pitch_hz, own[other].pitch_hz))

    def test_a_fitted_voice_comes_back_from_its_bytes(
        self, backend: Backend, voices: dict[str, Voice], say: Say
    ) -> None:
        content = backend.pack(voices["marcus"])
        assert 1 <= len(content) < 1 << 20
        assert np.array_equal(say("marcus"), joined(list(backend.speak([TEXT], backend.unpack(content), CALM))))
        for damaged in (b"", content[: len(content) // 2], b"\x00" * 7):
            with pytest.raises(ValueError):  # noqa: PT011 - each format has its own words for it
                backend.unpack(damaged)

    def test_short_and_several_recordings_do(self, backend: Backend) -> None:
        for references in ([cut(recording("anna"), 2.0)], [cut(recording("anna"), 2.5), recording("anna")]):
            voice = backend.prepare(references, PROFILES["anna"])
            assert len(joined(list(backend.speak(["Good evening."], voice, CALM)))) > backend.sample_rate_hz // 4

    def test_a_voice_of_another_back_end_is_an_error(self, backend: Backend) -> None:
        with pytest.raises(TypeError):
            next(iter(backend.speak([TEXT], object(), CALM)))

    # Bad input

    @pytest.mark.parametrize(
        ("parts", "text"),
        [
            (asked("Hello.", content=wav(0.3)), "voice: "),
            (asked("Hello.", content=wav(0.0)), "voice: "),
            (asked("Hello.", language="xx"), "header.profile.language: "),
            (asked("Hello.", style="operatic"), "header.style: 'operatic'; use one of: "),
            (asked(""), "sentence: empty"),
            (asked("..."), "sentence: "),
        ],
        ids=["too short", "empty", "unknown language", "unknown style", "no text", "no sound"],
    )
    async def test_bad_input_is_refused_with_its_field_and_the_voice_goes_on(
        self, stub: "Stub", parts: list[pb.SpeakRequest], text: str
    ) -> None:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
            async for _ in stub.Speak(iter(parts), timeout=300):
                pass
        assert [part async for part in stub.Speak(iter(asked("Good.")), timeout=300)][-1].HasField("sentence_end")

    def test_silence_is_no_voice(self, backend: Backend) -> None:
        with pytest.raises(InvalidRequest, match="voice: "):
            backend.prepare([VoiceReference("silence", np.zeros(48_000, np.float32), 24_000)], PROFILES["anna"])

    # Ends

    async def test_speech_that_nobody_wants_stops_and_the_next_is_spoken(self, backend: Backend) -> None:
        watched = Watched(backend)
        async with serving_tts(cast("Backend", watched), WHEEL) as served:
            stub = cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel))
            call = stub.Speak(iter(asked(f"{LONG} " * 19)), timeout=300)
            await ends.read_until(call, "chunk")
            call.cancel()
            await watched.let_go()
            assert not watched.count
            assert [part async for part in stub.Speak(iter(asked("Good.")), timeout=300)][-1].HasField("sentence_end")

    async def test_a_service_that_is_stopped_ends_what_it_was_asked(self, backend: Backend) -> None:
        async with ends.leaving(serving_tts(backend, WHEEL, grace_s=120)) as (channel, stop):
            call = cast("Stub", tts_pb2_grpc.TtsServiceStub(channel)).Speak(iter(asked(LONG)), timeout=300)
            await ends.read_until(call, "chunk")
            stop.set()
            assert (await ends.read_until(call, "sentence_end")).sentence_end.sentence == LONG
            assert await call.read() is grpc.aio.EOF


def _effect(heard: Prosody, calm: Prosody) -> NDArray[np.float64]:
    """How far speech is from calm speech, each measure in steps that people just notice."""
    pitched = min(heard.voiced_fraction, calm.voiced_fraction) > 0.2
    return np.array(
        [
            semitones(heard.pitch_hz, calm.pitch_hz) if pitched else 0.0,
            heard.level_dbfs - calm.level_dbfs,
            np.log(calm.speech_s / heard.speech_s) / 0.05,
            (heard.pitch_range_semitones - calm.pitch_range_semitones) / 1.5 if pitched else 0.0,
            (calm.voiced_fraction - heard.voiced_fraction) / 0.3,
        ]
    )
