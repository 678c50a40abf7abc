import xml.etree.ElementTree as ET
from dataclasses import replace

from orchestrator.comparison.compare import compare
from orchestrator.comparison.drawing import draw
from orchestrator.comparison.results import Comparison
from orchestrator.comparison.summaries import Experiment, Phase, Tally, UserSummary

SVG = "{http://www.w3.org/2000/svg}"


def look(users: int, variant: str = "b") -> Comparison:
    """A comparison of as many users of each variant."""
    experiment = Experiment("a", "rating", (Phase("1", {"a": 1, variant: 1}),), minimum_users=20)
    return compare(
        [
            UserSummary(f"{name}-{index}", name, 0, (name,), 1, 1, rating=Tally(3 + index % 3 + shift, 1))
            for name, shift in (("a", 0), (variant, 1))
            for index in range(users)
        ],
        experiment,
    )


def lines(text: str) -> list[list[tuple[float, float]]]:
    """The points of each line."""
    found = [each.attrib["points"].split() for each in ET.fromstring(text).iter(f"{SVG}polyline")]
    return [[(float(x), float(y)) for x, y in (point.split(",") for point in points)] for points in found]


def words(text: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(text).iter(f"{SVG}text")]


def test_estimates_of_all_looks_are_drawn_over_their_users() -> None:
    estimates, interval = lines(draw([look(30), look(60), look(120)]))
    assert [x for x, _ in estimates] == sorted({x for x, _ in estimates})
    assert len(estimates) == 3
    assert "240 users" in words(draw([look(30), look(60), look(120)]))
    (at, low), (at_too, high) = interval
    assert at == at_too == estimates[-1][0]
    assert low > estimates[-1][1] > high  # Rows of a picture count from the top.


def test_a_single_look_is_drawn_as_its_interval() -> None:
    text = draw([look(120)])
    assert [len(points) for points in lines(text)] == [1, 2]
    assert "rating: b minus a, better" in words(text)


def test_a_look_without_an_interval_says_so() -> None:
    assert "no interval yet" in words(draw([look(0)]))
    assert len(lines(draw([look(2), look(120)]))[0]) == 1


def test_names_are_escaped() -> None:
    assert 'rating: <b>&"c" minus a, better' in words(draw([look(120, '<b>&"c"')]))


def test_each_variant_has_a_picture() -> None:
    two = look(30)
    doubled = replace(two, primary=(*two.primary, replace(two.primary[0], variant="c")))
    root = ET.fromstring(draw([doubled]))
    assert len(root.findall(f"{SVG}g")) == 2
    assert root.attrib["height"] == "480"


def test_the_picture_is_readable_on_a_dark_background() -> None:
    assert "prefers-color-scheme: dark" in draw([look(30)])
