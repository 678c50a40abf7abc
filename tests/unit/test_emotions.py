"""The wheel holds together: every label is placed, scored, spoken, shown and answered, by one table."""

import re
from importlib import resources

import pytest

import emotions
from emotions.wheel import parse

# fmt: off
EMPATHETIC_DIALOGUES = frozenset({
    "afraid", "angry", "annoyed", "anticipating", "anxious", "apprehensive", "ashamed", "caring", "confident",
    "content", "devastated", "disappointed", "disgusted", "embarrassed", "excited", "faithful", "furious",
    "grateful", "guilty", "hopeful", "impressed", "jealous", "joyful", "lonely", "nostalgic", "prepared", "proud",
    "sad", "sentimental", "surprised", "terrified", "trusting"
})
# fmt: on
"""The 32 labels of Rashkin et al., 2019."""
DISAGREEMENTS = frozenset({"prepared", "anxious", "nostalgic", "disappointed", "devastated"})


def text() -> str:
    return resources.files("emotions").joinpath("ontology.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def wheel() -> emotions.Wheel:
    return emotions.load()


def test_the_labels_are_those_of_empathetic_dialogues_and_four_more(wheel: emotions.Wheel) -> None:
    assert len(EMPATHETIC_DIALOGUES) == 32
    assert set(wheel.labels) == EMPATHETIC_DIALOGUES | {"neutral", "happy", "fear", "contempt"}


def test_every_label_is_scored_spoken_and_shown(wheel: emotions.Wheel) -> None:
    for name, label in wheel.labels.items():
        assert label.name == name
        assert wheel.face_class(name, wheel.classes) == emotions.GeneratorClass(label.coarse, exact=True)
        assert wheel.voice_style(name, wheel.styles) == emotions.GeneratorClass(label.style, exact=True)
        assert label.intensity > 0 or name == "neutral"
        assert label.angle_deg is not None or name == "neutral"


def test_the_two_tables_of_the_original_are_whole_and_disagree_on_five_labels(wheel: emotions.Wheel) -> None:
    hit, render = wheel.reproduction["hit"], wheel.reproduction["render"]
    assert set(hit) == set(render) == set(wheel.labels)
    assert {name for name in wheel.labels if hit[name] != render[name]} == DISAGREEMENTS


def test_ours_is_one_table_for_the_score_and_the_face(wheel: emotions.Wheel) -> None:
    for name in wheel.labels:
        scored = wheel.gather({name: 1.0})
        assert scored[wheel.face_class(name, wheel.classes).name] == 1.0


@pytest.mark.parametrize(
    ("label", "available", "nearest"),
    [
        ("contempt", {"neutral", "happy", "angry", "disgusted"}, "disgusted"),
        ("furious", {"happy", "sad", "fear"}, "fear"),
        ("joyful", {"sad", "surprised", "angry"}, "surprised"),
        ("lonely", {"neutral", "happy"}, "neutral"),
    ],
)
def test_a_class_that_a_bank_lacks_falls_to_the_nearest_and_says_so(
    wheel: emotions.Wheel, label: str, available: set[str], nearest: str
) -> None:
    assert wheel.face_class(label, available) == emotions.GeneratorClass(nearest, exact=False)
    assert nearest == min(available, key=lambda other: wheel.distance(label, other))


def test_a_style_that_a_voice_lacks_falls_to_the_nearest_and_says_so(wheel: emotions.Wheel) -> None:
    assert wheel.voice_style("furious", {"default", "angry", "cheerful"}) == emotions.GeneratorClass(
        "angry", exact=False
    )
    assert wheel.voice_style("devastated", {"sad", "default"}) == emotions.GeneratorClass("sad", exact=True)


def test_nothing_available_is_an_error_and_no_guess(wheel: emotions.Wheel) -> None:
    with pytest.raises(ValueError, match="none of the classes"):
        wheel.face_class("sad", {"dancing"})
    with pytest.raises(ValueError, match="none of the styles"):
        wheel.voice_style("sad", set())


def test_spreading_keeps_the_mass_of_every_class(wheel: emotions.Wheel) -> None:
    coarse = {name: (index + 1) / 36 for index, name in enumerate(wheel.classes)}
    fine = wheel.spread(coarse)
    assert set(fine) == set(wheel.labels)
    assert sum(fine.values()) == pytest.approx(1)
    assert wheel.gather(fine) == pytest.approx(coarse)


def test_a_class_gives_most_to_its_own_label_and_nothing_to_other_classes(wheel: emotions.Wheel) -> None:
    fine = wheel.spread({"sad": 1.0})
    assert max(fine, key=lambda name: fine[name]) == "sad"
    assert fine["lonely"] > fine["nostalgic"] > 0
    assert all(fine[name] == 0 for name, label in wheel.labels.items() if label.coarse != "sad")


def test_mass_for_something_that_is_no_class_is_not_lost_silently(wheel: emotions.Wheel) -> None:
    with pytest.raises(KeyError, match="'joyful' is not an emotion class; use one of: neutral, happy"):
        wheel.spread({"joyful": 1.0})
    with pytest.raises(KeyError, match="'joy' is not an emotion label"):
        wheel.gather({"joy": 1.0})


def test_every_policy_answers_every_label(wheel: emotions.Wheel) -> None:
    assert set(wheel.policies) == {"empathic", "mirror"}
    for policy in wheel.policies:
        for name in wheel.labels:
            reply = wheel.reply_to(name, policy)
            assert reply.label in wheel.labels
            assert 0 <= reply.intensity <= 1


def test_the_policies_do_what_they_are_called(wheel: emotions.Wheel) -> None:
    assert wheel.reply_to("furious", "mirror") == emotions.Emotion("furious", 1.0)
    answer = wheel.reply_to("furious")
    assert answer.label == "caring"
    assert answer.intensity == pytest.approx(0.6 * wheel.label("caring").intensity)
    for name, label in wheel.labels.items():
        if label.coarse in ("angry", "disgusted", "contempt"):
            assert wheel.label(wheel.reply_to(name).label).valence > 0, f"{name} is answered in kind"


def test_an_unknown_label_or_policy_is_told_what_there_is(wheel: emotions.Wheel) -> None:
    with pytest.raises(KeyError) as caught:
        wheel.label("grumpy")
    assert "'grumpy' is not an emotion label; use one of:" in str(caught.value)
    assert all(name in str(caught.value) for name in wheel.labels)
    with pytest.raises(KeyError, match="'stern' is not a reply policy; use one of: mirror, empathic"):
        wheel.reply_to("sad", "stern")
    with pytest.raises(KeyError, match="grumpy"):
        wheel.reply_to("grumpy")


def test_neighbours_on_the_wheel_are_those_of_everyday_language(wheel: emotions.Wheel) -> None:
    assert wheel.distance("sad", "sad") == 0
    assert wheel.distance("sad", "lonely") == wheel.distance("lonely", "sad")
    assert wheel.distance("sad", "disappointed") < wheel.distance("sad", "angry") < wheel.distance("sad", "joyful")


def test_a_wheel_that_is_declared_compatible_goes_by_the_digest_of_the_other(wheel: emotions.Wheel) -> None:
    moved = text().replace('version = "1.0.0"', f'version = "1.0.1"\ncompatible_with = "{wheel.digest}"', 1)
    later = parse(moved.replace("valence = 0.80", "valence = 0.81", 1))
    assert (later.version, later.digest, later.labels == wheel.labels) == ("1.0.1", wheel.digest, False)
    assert later.difference(wheel.digest) == wheel.difference(later.digest) == ""
    with pytest.raises(ValueError, match=r"compatible_with is '1\.0\.0'; give the digest of an earlier wheel"):
        parse(moved.replace(wheel.digest, "1.0.0"))


def test_the_digest_changes_with_the_content_and_not_with_comments(wheel: emotions.Wheel) -> None:
    assert re.fullmatch("[0-9a-f]{64}", wheel.digest)
    assert parse(text()).digest == wheel.digest
    assert (
        parse("# another comment\n\n" + text().replace("\n[labels]", "\n# and one more\n[labels]")).digest
        == wheel.digest
    )
    for old, new in [
        ("valence = 0.80, arousal = 0.40", "valence = 0.81, arousal = 0.40"),
        ('anxious = "fear"', 'anxious = "sad"'),
        ('version = "1.0.0"', 'version = "1.0.1"'),
        ('{ label = "caring", intensity = 1.0 }', '{ label = "caring", intensity = 0.9 }'),
    ]:
        assert old in text()
        assert parse(text().replace(old, new, 1)).digest != wheel.digest


def test_the_wheel_that_ships_is_read_once(wheel: emotions.Wheel) -> None:
    assert emotions.load() is wheel
    assert wheel.version == "1.0.0"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[labels]", "[labels", "Expected"),
        ('version = "1.0.0"', "", "'version' is missing"),
        ("valence = 0.90", "valence = 1.90", "joyful lies outside the wheel"),
        ("intensity = 0.9 }\nanticipating", "intensity = 1.1 }\nanticipating", "excited lies outside the wheel"),
        ('"contempt", style = "default", intensity = 0.5', '"envy", style = "default", intensity = 0.5',
         "jealous has an unknown class or style"),
        ('style = "shouting"', 'style = "roaring"', "furious has an unknown class or style"),
        ("valence = 0.70, arousal = -0.30, ", "valence = 0.70, ", "content has a field too many or too few"),
        ("valence = 0.70, arousal = -0.30, ", "valence = 0.70, arousal = -0.30, mood = 1, ", "content has a field"),
        ('fear         = { valence = -0.70, arousal = 0.65, angle_deg = 90, coarse = "fear"',
         'fear         = { valence = -0.70, arousal = 0.65, angle_deg = 90, coarse = "sad"',
         "class fear is not a label of its own class"),
        ('\njealous      = { label = "caring", intensity = 0.7 }', "", "policy empathic does not answer every label"),
        ('"caring", intensity = 0.7 }', '"stern", intensity = 0.7 }', "empathic answers neutral with no label"),
        ('{ label = "caring", intensity = 0.7 }', '{ label = "caring", intensity = 0 }', "or with no intensity"),
        ('\nlonely = "sad"', "", "reproduction.hit does not map every label"),
        ('lonely = "sad"', 'lonely = "blue"', "each to a class"),
        ('prepared = "neutral"', 'ready = "neutral"', "reproduction.render does not map every label"),
    ],
)  # fmt: skip
def test_a_file_that_contradicts_itself_is_refused(old: str, new: str, problem: str) -> None:
    assert old in text(), "the case no longer fits the file"
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse(text().replace(old, new, 1))
