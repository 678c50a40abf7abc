"""Replies to a risk: what each must say and may not say, help lines, and who is spoken of."""

import re

import pytest

from services.common.errors import InvalidRequest
from services.understanding.reader import MessageReader
from services.understanding.risk import lines
from services.understanding.risk.care import (
    Care,
    asks_for_a_human,
    asks_for_a_line,
    has_taken,
    is_of_a_threatened,
    takes_back,
)
from services.understanding.risk.domain import Heeded, Kind, Risk, Severity, Source
from services.understanding.risk.lines import HelpLines, check_country, check_table
from services.understanding.risk.spoken import CLAIMS, HUMAN, URGES
from services.understanding.tones import store
from tests.support.tones import ALIKE, TONES, real_reader

CARE = Care(HelpLines())
GROUPS = CARE.all()
CHEER = re.compile(
    r"\b(great|wonderful|exciting|cheer up|congratulations|awesome|happy|fun|don't worry|calm down)\b|!", re.I
)
PROMISES = re.compile(r"\b(everything will be|it will get better|i promise|you'll be fine|will be okay)\b", re.I)
JUDGES = re.compile(r"\b(selfish|stupid|crazy|you shouldn't have|how could you|attention|sin)\b|\bdiagnos", re.I)
TABLE = {
    "DE": {"emergency": "112", "line": "TelefonSeelsorge, 0800 111 0 111", "child": "Nummer gegen Kummer, 116 111"},
    "GB": {"emergency": "999"},
}


@pytest.fixture(scope="module")
def reader() -> MessageReader:
    return real_reader()


def heeded(kind: Kind, severity: Severity, is_new: bool = True) -> Heeded:
    return Heeded(Risk(kind, severity, 1.0, Source.CLASSIFIER), is_new)


def of(kind: Kind, group: str) -> list[tuple[str, ...]]:
    return [reply for name, reply in GROUPS.items() if name.startswith(f"{kind}.high.{group}.")]


def test_there_are_replies_to_every_kind_and_severity() -> None:
    for kind in Kind:
        for severity in Severity:
            for group in ("self", "other", *(["later"] if severity is Severity.HIGH else [])):
                assert f"{kind}.{severity.name.lower()}.{group}.0" in GROUPS
        assert f"{kind}.high.later.2" in GROUPS
        assert f"{kind}.high.self.2" in GROUPS


@pytest.mark.parametrize("name", GROUPS)
def test_no_reply_cheers_promises_judges_or_claims(name: str) -> None:
    text = " ".join(GROUPS[name])
    for pattern in (CHEER, PROMISES, JUDGES, CLAIMS, HUMAN, URGES):
        assert not pattern.search(text), pattern.search(text)


@pytest.mark.parametrize("name", [name for name in GROUPS if re.search(r"\.high\.(self|other|done)", name)])
def test_every_reply_to_an_emergency_says_whom_to_call_now(name: str) -> None:
    text = " ".join(GROUPS[name])
    assert "{emergency}" in text
    assert re.search(r"\bnow\b|this minute|right away|another minute|at once", text)


@pytest.mark.parametrize("name", [name for name in GROUPS if ".medium." in name])
def test_every_reply_to_a_serious_risk_urges_a_human(name: str) -> None:
    text = " ".join(GROUPS[name])
    assert re.search(r"\{emergency\}|\{line\}|police|doctor|someone|person", text)


@pytest.mark.parametrize("name", GROUPS)
def test_replies_can_be_spoken(name: str) -> None:
    for sentence in GROUPS[name]:
        assert sentence[0].isupper() or sentence.startswith("{")
        assert sentence.endswith((".", "?"))
        assert len(sentence.split()) <= 32


def test_without_a_table_no_number_is_named() -> None:
    for kind in Kind:
        for severity in Severity:
            reply = " ".join(CARE.reply(heeded(kind, severity), "text", (), "DE", 0, ALIKE))
            assert not re.search(r"\d|[{}]", reply)
    assert "your local emergency number" in " ".join(
        CARE.reply(heeded(Kind.MEDICAL, Severity.HIGH), "x", (), "", 0, ALIKE)
    )


def test_numbers_are_those_of_the_requests_country_or_else_of_the_default() -> None:
    care = Care(HelpLines(TABLE, "GB"))
    high, medium = heeded(Kind.SUICIDE, Severity.HIGH), heeded(Kind.CHILD, Severity.MEDIUM)
    assert "112" in " ".join(care.reply(high, "I want to die", (), "DE", 1, ALIKE))
    assert "999" in " ".join(care.reply(high, "I want to die", (), "", 1, ALIKE))
    assert not re.search(r"\d", " ".join(care.reply(high, "I want to die", (), "FR", 1, ALIKE)))
    said = [" ".join(care.reply(medium, "x", (), "DE", seed, ALIKE)) for seed in range(20)]
    assert any("Nummer gegen Kummer, 116 111" in reply for reply in said)
    assert any(
        "a child helpline in your country" in " ".join(care.reply(medium, "x", (), "GB", s, ALIKE)) for s in range(20)
    )


@pytest.mark.parametrize(
    ("countries", "default", "problem"),
    [
        ({"Germany": {}}, "", "'Germany' is no country; use codes of ISO 3166-1 like 'DE'"),
        ({"DE": {"number": "112"}}, "", "DE: 'number'; use one of: child, emergency"),
        ({"DE": {"emergency": " "}}, "", "DE: emergency is ' '; write a number, or a name and a number"),
        (TABLE, "FR", "help_country is 'FR', which help_lines does not have; it has: DE, GB"),
        ({}, "DE", "help_country is 'DE', which help_lines does not have; it has: nothing"),
    ],
)
def test_a_table_that_is_none_is_refused(countries: dict[str, dict[str, str]], default: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_table(countries, default)
    check_table(TABLE, "DE")


@pytest.mark.parametrize("country", ["de", "DEU", "D", "1A", "Ä"])
def test_a_country_that_is_no_code_is_refused(country: str) -> None:
    with pytest.raises(InvalidRequest, match=r"country: .*; send a code of ISO 3166-1 like 'DE'"):
        check_country(country)


def test_the_words_that_hold_everywhere_name_no_number() -> None:
    assert not re.search(r"\d", " ".join([*lines.ANYWHERE.values(), *lines.ANYWHERE_LINES.values()]))


def test_a_reply_that_was_said_is_not_said_again_while_there_is_another() -> None:
    said: list[str] = []
    for _ in range(5):
        said.append(" ".join(CARE.reply(heeded(Kind.SUICIDE, Severity.HIGH), "I want to die", said, "", 0, ALIKE)))
    assert len(set(said)) == 5
    again = " ".join(CARE.reply(heeded(Kind.SUICIDE, Severity.HIGH), "I want to die", said, "", 0, ALIKE))
    assert again == said[0]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("My brother took a whole bottle of pills", Kind.SUICIDE, True),
        ("She is unconscious and won't wake up", Kind.MEDICAL, True),
        ("I think my neighbour beats his children", Kind.CHILD, True),
        ("My colleague says he will shoot everyone", Kind.HARM_TO_OTHERS, True),
        ("someone says he's bringing a knife tomorrow, i dont know if hes joking", Kind.HARM_TO_OTHERS, True),
        ("The rifle is clean and Monday will be a day they remember.", Kind.HARM_TO_OTHERS, False),
        ("She won't see Monday", Kind.HARM_TO_OTHERS, False),
        ("I want to die", Kind.SUICIDE, False),
        ("He hits me when he drinks", Kind.VIOLENCE, False),
        ("he pushed my head in the door of the fridge", Kind.VIOLENCE, False),
        ("he broke the bathroom door last time", Kind.VIOLENCE, False),
        ("My neighbour hits his wife.", Kind.VIOLENCE, True),
        ("I took my mother's pills", Kind.SUICIDE, False),
        ("my dad uses the belt on me", Kind.CHILD, False),
        ("My stepfather comes into my room at night.", Kind.CHILD, False),
        ("my stepdad gets really mad when he drinks", Kind.CHILD, False),
        ("im in my closet with my sister shes 4", Kind.CHILD, False),
        ("The neighbour beats his child.", Kind.CHILD, True),
        ("Grandma fell and isn't breathing", Kind.MEDICAL, True),
        ("mum says I can't eat till thursday", Kind.CHILD, False),
        ("dad does it when mum is out", Kind.CHILD, False),
    ],
)
def test_who_is_in_danger(reader: MessageReader, text: str, kind: Kind, expected: bool) -> None:
    told = CARE.reply(heeded(kind, Severity.HIGH), text, (), "", 0, reader.read(text).fits)
    (group,) = {name.split(".")[2] for name, reply in GROUPS.items() if HelpLines().fill(reply, kind, "") == told}
    assert group == ("done" if has_taken(text) else "other" if expected else "self")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("took all of my sleeping tablets about an hour ago. its ok. just wanted company", True),
        ("i took a bunch of pills like 20 minutes ago", True),
        ("I\u2019ve swallowed a whole bottle of paracetamol", True),
        ("I have the pills in front of me", False),
        ("I haven't taken the pills yet", False),
        ("She took all her tablets", False),
        ("I think my brother took all of mum's pills", False),
        ("I want to take all my pills", False),
    ],
)
def test_who_has_taken_something_is_told_what_to_do_then(text: str, expected: bool) -> None:
    assert has_taken(text) == expected
    told = CARE.reply(heeded(Kind.SUICIDE, Severity.HIGH), text, (), "", 0, ALIKE)
    assert (told in [HelpLines().fill(reply, Kind.SUICIDE, "") for reply in of(Kind.SUICIDE, "done")]) == expected


@pytest.mark.parametrize("kind", Kind)
def test_while_a_risk_is_urgent_every_reply_takes_up_the_message_and_says_whom_to_call(kind: Kind) -> None:
    earlier = heeded(kind, Severity.HIGH, is_new=False)
    said: list[str] = []
    for turn in range(9):
        reply = CARE.follow_up(earlier, "That hurts." if turn % 2 else "", "He laughed.", said, "", 0)
        assert reply[0] == "That hurts." or (reply[0],) in {told for name, told in GROUPS.items() if "heard" in name}
        assert "your local emergency number" in " ".join(reply[1:])
        assert not {each for each in reply if each != "That hurts."}.intersection(said)
        said += reply


@pytest.mark.parametrize("kind", Kind)
def test_while_a_risk_is_urgent_the_first_harmless_messages_are_followed_up_and_then_each_third(kind: Kind) -> None:
    earlier = heeded(kind, Severity.HIGH, is_new=False)
    said = [" ".join(CARE.reply(heeded(kind, Severity.HIGH), "text", (), "", 0, ALIKE))]
    due = []
    for turn in range(8):
        due.append(CARE.is_due(earlier, said))
        reply = CARE.follow_up(earlier, "", f"message {turn}", said, "", 0) if due[-1] else ("I see.",)
        said.append(" ".join(reply))
    assert due == [True, True, False, False, True, False, False, True]
    doubt = Heeded(Risk(kind, Severity.HIGH, 0.5, Source.AGAIN), is_new=False)
    assert all(CARE.is_due(each, said) for each in (doubt, heeded(kind, Severity.LOW), heeded(kind, Severity.HIGH)))
    assert not CARE.is_due(heeded(kind, Severity.MEDIUM, is_new=False), said)


@pytest.mark.parametrize("kind", Kind)
def test_danger_again_while_one_is_urgent_is_told_to_call_now(kind: Kind) -> None:
    again = Heeded(Risk(kind, Severity.HIGH, 0.5, Source.AGAIN), is_new=False)
    for seed in range(9):
        told = CARE.follow_up(again, "", "he woke up", (), "", seed)[1:]
        assert told in {HelpLines().fill(reply, kind, "") for name, reply in GROUPS.items() if "urgent" in name}


def test_a_doubt_after_a_serious_risk_is_told_whom_to_call() -> None:
    doubt = Heeded(Risk(Kind.SUICIDE, Severity.MEDIUM, 0.5, Source.CLASSIFIER), is_new=True)
    for seed in range(9):
        assert "your local emergency number" in " ".join(CARE.reply(doubt, "im by the rail", (), "", seed, ALIKE))


def test_no_other_reply_is_taken_for_one_of_these() -> None:
    earlier = heeded(Kind.SUICIDE, Severity.HIGH, is_new=False)
    others = [" ".join(reply) for name, reply in GROUPS.items() if "later" not in name]
    for reply in (*others, *store.replies(TONES.values())):
        assert CARE.is_due(earlier, [reply] * 2), reply


def test_who_speaks_of_the_same_again_is_not_given_all_advice_again() -> None:
    again = Heeded(Risk(Kind.VIOLENCE, Severity.MEDIUM, 0.9, Source.AGAIN), is_new=True)
    told = {CARE.follow_up(again, "No wonder that hurts.", "he did", (), "", seed)[1:] for seed in range(20)}
    assert told <= {HelpLines().fill(reply, Kind.VIOLENCE, "") for name, reply in GROUPS.items() if "again" in name}
    assert len(told) > 2


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.CHILD])
def test_what_was_done_is_answered_as_an_emergency(kind: Kind) -> None:
    done = Heeded(Risk(kind, Severity.HIGH, 1.0, Source.EARLIER), is_new=True)
    for seed in range(9):
        assert "your local emergency number" in " ".join(CARE.reply(done, "I did it.", (), "", seed, ALIKE))
    of_another = " ".join(CARE.reply(done, "yes he jumped", (), "", 0, ALIKE))
    assert of_another in {" ".join(HelpLines().fill(reply, kind, "")) for reply in of(kind, "other")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("haha just kidding", True),
        ("lol jk", True),
        ("im joking relax", True),
        ("It was only a joke.", True),
        ("that's a bad joke sorry", True),
        ("sorry, I didn\u2019t mean it", True),
        ("I wasn't serious lol", True),
        ("I take it back", True),
        ("forget it", True),
        ("forget what I said, I'm fine", True),
        ("I'm not joking", False),
        ("I'm a joke", False),
        ("no joke", False),
        ("forget it, I'm doing it tonight", False),
        ("I just ignore it when he hits me", False),
        ("It was just a joke to him, he hit me anyway", False),
        ("lol jk I already took them", False),
        ("I'm messing everything up", False),
        ("I didn't mean it to go so deep", False),
        ("are you kidding?", False),
        ("he told a joke", False),
    ],
)
def test_who_takes_it_back_is_told_from_who_does_not(text: str, expected: bool) -> None:
    assert takes_back(text) == expected


@pytest.mark.parametrize("kind", Kind)
def test_who_takes_it_back_is_believed_and_not_let_go(kind: Kind) -> None:
    told = CARE.follow_up(heeded(kind, Severity.MEDIUM, is_new=False), "", "lol jk", (), "", 0)
    taken_back = [HelpLines().fill(reply, kind, "") for name, reply in GROUPS.items() if "taken_back" in name]
    assert (told in taken_back) == (kind is not Kind.MEDICAL)
    if kind in (Kind.CHILD, Kind.VIOLENCE):
        assert "your local emergency number" in " ".join(told)
    sure = Heeded(Risk(kind, Severity.MEDIUM, 0.9, Source.AGAIN), is_new=True)
    assert CARE.follow_up(sure, "", "lol jk", (), "", 0) not in taken_back


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I want to talk with a real person, please.", True),
        ("Are you a real person?", True),
        ("are you human", True),
        ("Am I talking to a bot?", True),
        ("is this a real person", True),
        ("Are you a good cook?", False),
        ("He is a real person of taste", False),
    ],
)
def test_who_asks_for_a_human_is_told_that_there_is_none(text: str, expected: bool) -> None:
    assert asks_for_a_human(text) == expected
    assert re.search("program|not a person|no person", " ".join(CARE.of_a_program((), text, 0)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tell me a phone number of a crisis line", True),
        ("is there a hotline i can call", True),
        ("Is there a number I can text?", True),
        ("What\u2019s the suicide hotline?", True),
        ("who can I call", True),
        ("Is there a help line for this?", True),
        ("whats the number for a help line", True),
        ("can you give me a number to call", True),
        ("is there a number for kids?", True),
        ("do you know a number i can call", True),
        ("I work for a crisis line.", False),
        ("Do you know my number?", False),
        ("Who should I call first, my mother or his?", False),
    ],
)
def test_who_asks_for_a_help_line_is_told_the_operators(text: str, expected: bool) -> None:
    assert asks_for_a_line(text) == expected
    care = Care(HelpLines({"GB": {"emergency": "999", "line": "Samaritans on 116 123"}}))
    told = " ".join(care.of_a_line(Kind.SUICIDE, (), text, "GB", 0))
    assert "999" in told
    assert "Samaritans on 116 123" in told
    assert "crisis line in your country" in " ".join(CARE.of_a_line(Kind.SUICIDE, (), text, "", 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "the boys in my class said they\u2019ll wait for me after school and this time they\u2019ll bring a knife",
            True,
        ),
        ("He showed me the gun and said I was next.", True),
        ("I'm going to kill him, he laughed at me.", False),
        ("They laughed at me and I'll make them pay.", False),
        ("The rifle is clean.", False),
    ],
)
def test_who_is_threatened_is_not_told_to_lay_down_a_weapon(text: str, expected: bool) -> None:
    assert is_of_a_threatened(text) == expected
    said = " ".join(CARE.reply(heeded(Kind.HARM_TO_OTHERS, Severity.HIGH), text, (), "", 0, ALIKE))
    of_violence = [reply for name, reply in GROUPS.items() if name.startswith("violence.high")]
    assert any(reply[0] in said for reply in of_violence) == expected


@pytest.mark.parametrize(("confidence", "is_called"), [(0.5, False), (0.79, True)])
def test_a_doubt_that_is_likely_says_whom_to_call(confidence: float, is_called: bool) -> None:
    doubt = Heeded(Risk(Kind.VIOLENCE, Severity.LOW, confidence, Source.CLASSIFIER), is_new=True)
    for seed in range(8):
        assert ("your local emergency number" in " ".join(CARE.reply(doubt, "Hm.", (), "", seed, ALIKE))) == is_called


@pytest.mark.parametrize("confidence", [0.5, 1.0])
def test_who_smells_gas_is_told_to_leave_and_not_to_lie_down(confidence: float) -> None:
    text = "There's a strong smell of gas in the hallway and I'm getting a headache"
    risk = Risk(Kind.MEDICAL, Severity.HIGH, confidence, Source.CLASSIFIER)
    for seed in range(4):
        told = " ".join(CARE.reply(Heeded(risk, is_new=True), text, (), "", seed, ALIKE))
        assert "your local emergency number" in told
        assert re.search("outside", told)


def test_words_that_hold_everywhere_begin_a_sentence_with_a_capital() -> None:
    (told,) = HelpLines().fill(["You know best. {line} can help."], Kind.VIOLENCE, "")
    assert told == "You know best. A domestic violence line in your country can help."
