"""What identities can show: nothing that the emotion wheel does not know."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import emotions
from services.common.errors import Damaged, InvalidRequest, NotFound
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import EmotionBank
from services.memory.records import sealed
from services.memory.registry.banks import Banks
from services.memory.store import Store
from tests.avatars import ADA, read, registry
from tests.fake_store import FakeStore
from tests.talking import TENANT

CALM = EmotionBank("calm", ("neutral", "sad"), ("default", "whispering"))
KEY = keys.bank(TENANT, "calm")


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def test_the_default_bank_has_all_that_the_wheel_has_and_is_not_stored(fake: FakeStore) -> None:
    bank, wheel = Banks(fake).get(TENANT, "default"), emotions.load()
    assert bank == EmotionBank("default", wheel.classes, wheel.styles)
    assert (len(bank.face_classes), len(bank.voice_styles)) == (8, 9)
    assert Banks(fake).has(TENANT, "default")
    assert fake.objects == {}


def test_a_stored_bank_is_there_for_the_identities_of_its_tenant(store: Store) -> None:
    banks = Banks(store)
    banks.put(TENANT, CALM)
    assert banks.get(TENANT, "calm") == CALM
    assert (banks.has(TENANT, "calm"), banks.has("shop", "calm")) == (True, False)
    assert registry(store).add(TENANT, replace(ADA, emotion_bank="calm")).emotion_bank == "calm"
    with pytest.raises(NotFound, match="emotion bank 'calm' is unknown"):
        banks.get("shop", "calm")
    with pytest.raises(InvalidRequest, match=r"^header\.emotion_bank: 'calm' is unknown; store it first, or use 'def"):
        registry(store).add("shop", replace(ADA, emotion_bank="calm"))
    other = replace(CALM, face_classes=("happy",))
    banks.put("shop", other)
    banks.put(TENANT, replace(CALM, voice_styles=("sad",)))
    assert banks.get("shop", "calm") == other
    assert banks.get(TENANT, "calm").voice_styles == ("sad",)


@pytest.mark.parametrize(
    ("field", "bank"),
    [
        ("emotion_bank.name", EmotionBank("../x", ("happy",), ("default",))),
        ("emotion_bank.name", EmotionBank("cаlm", ("happy",), ("default",))),  # noqa: RUF001 - Cyrillic
        ("emotion_bank.name", EmotionBank("default", ("happy",), ("default",))),
        ("emotion_bank.face_classes", EmotionBank("few", (), ("default",))),
        ("emotion_bank.face_classes", EmotionBank("few", ("joyful",), ("default",))),
        ("emotion_bank.face_classes", EmotionBank("few", ("happy", "sad", "happy"), ("default",))),
        ("emotion_bank.voice_styles", EmotionBank("few", ("happy",), ())),
        ("emotion_bank.voice_styles", EmotionBank("few", ("happy",), ("singing",))),
    ],
)
def test_a_bank_that_the_wheel_does_not_know_is_refused(fake: FakeStore, field: str, bank: EmotionBank) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(field)}: ") as refusal:
        Banks(fake).put(TENANT, bank)
    assert str(refusal.value).isascii()
    assert fake.objects == {}


def test_a_bank_is_asked_for_by_names_that_are_allowed(fake: FakeStore) -> None:
    asks: list[tuple[str, Callable[[], object]]] = [
        ("tenant", lambda: Banks(fake).get("../x", "calm")),
        ("tenant", lambda: Banks(fake).put("", CALM)),
        ("emotion_bank", lambda: Banks(fake).get(TENANT, "../x")),
    ]
    for field, ask in asks:
        with pytest.raises(InvalidRequest, match=f"^{field}: '.*' is not a name"):
            ask()


def test_a_bank_that_is_damaged_or_of_another_wheel_is_named_and_not_served(store: Store) -> None:
    Banks(store).put(TENANT, CALM)
    whole = read(store, KEY)
    store.put(KEY, whole[:-1])
    with pytest.raises(Damaged, match=KEY):
        Banks(store).get(TENANT, "calm")
    store.put(KEY, sealed(whole.partition(b"\n")[2].replace(b"whispering", b"murmuring")))
    with pytest.raises(Damaged, match=rf"{KEY}.*does not fit the emotion wheel.*murmuring"):
        Banks(store).get(TENANT, "calm")
