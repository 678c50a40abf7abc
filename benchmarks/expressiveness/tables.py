"""Prints what was measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.expressiveness import lips
from benchmarks.expressiveness.controls import Known
from benchmarks.expressiveness.faces import FPS, Sight
from benchmarks.expressiveness.judges import CLASSES, rise, strongest

SAME_MAX = 0.6
"""Distance below which dlib's author calls two pictures the same person."""

Floats = NDArray[np.float64]
Embedded = Mapping[tuple[str, float], Floats]
"""What all films of an identity at an intensity show: embeddings, (n, d)."""
SHORT = {name: name[:5] for name in (*CLASSES, "contempt")}


def print_controls(rest: Mapping[str, Mapping[str, Floats]], known: Sequence[Known]) -> None:
    """What the judges say of pictures whose expression is known: the portraits at rest, and modelled faces."""
    judges = list(next(iter(rest.values())))
    print("\nthe judges on the portraits at rest, which are neutral\n" + " " * 10 + "".join(f"{j:>26}" for j in judges))
    for name, votes in rest.items():
        said = "".join(f"{strongest(votes[j]):>20} {votes[j].max():5.2f}" for j in judges)
        print(f"{name:10}{said}")
    for judge in judges:
        plain = {each.head: each.votes[judge] for each in known if each.shown == "neutral"}
        moved = [each for each in known if each.shown != "neutral"]
        raw = [strongest(each.votes[judge]) == each.shown for each in moved]
        risen = [strongest(rise(each.votes[judge], plain[each.head])) == each.shown for each in moved]
        print(
            f"{judge} on {len(moved)} modelled expressions of {len(plain)} other heads:"
            f" {_share(raw)} right outright, {_share(risen)} by what changed from the neutral head"
        )
        taken = {
            c: [strongest(rise(e.votes[judge], plain[e.head])) for e in moved if e.shown == c] for c in CLASSES[1:]
        }
        print("    " + "; ".join(f"{shown} seen as {', '.join(names)}" for shown, names in taken.items()))


def print_seen(sights: Sequence[Sight], intensities: Sequence[float]) -> None:
    """How often the emotion that was asked for is the one that is seen, by class, intensity and judge."""
    judges = list(sights[0].seen)
    plain = _plain(sights)
    columns = "".join(f"{f'{judge} {level:g}':>22}" for judge in judges for level in intensities)
    print("\nthe emotion that rose most is the one asked for: share of portraits (mean rise of its log odds)")
    print(f"{'asked':10}{columns}")
    for asked in _asked(sights):
        cells = []
        for judge in judges:
            for level in intensities:
                risen = [rise(s.seen[judge], plain[_key(s)].seen[judge]) for s in _of(sights, asked, level)]
                right = [strongest(each) == asked for each in risen]
                own = np.mean([each[CLASSES.index(asked)] for each in risen])
                cells.append(f"{f'{_share(right)} ({own:+.1f})':>22}")
        print(f"{asked:10}{''.join(cells)}")
    ways: dict[str, Callable[[Sight, str], Floats]] = {
        "all": lambda sight, judge: rise(sight.seen[judge], plain[_key(sight)].seen[judge]),
        "outright": lambda sight, judge: sight.seen[judge],
    }
    for title, way in ways.items():
        cells = []
        for judge in judges:
            for level in intensities:
                found = [sight for asked in _asked(sights) for sight in _of(sights, asked, level)]
                cells.append(f"{_share([strongest(way(s, judge)) == s.take.asked for s in found]):>22}")
        print(f"{title:10}{''.join(cells)}")


def print_confusion(sights: Sequence[Sight], judge: str, level: float) -> None:
    """Which emotion is seen where which was asked for; contempt has no column, for the judges do not know it."""
    plain = _plain(sights)
    seen = [name for name in CLASSES if name != "neutral"]
    print(f"\n{judge} at intensity {level:g}: asked (rows), rose most (columns), number of portraits")
    print(f"{'':10}" + "".join(f"{SHORT[name]:>7}" for name in (*seen, "neutral")))
    for asked in (*_asked(sights), "contempt"):
        said = [strongest(rise(s.seen[judge], plain[_key(s)].seen[judge])) for s in _of(sights, asked, level)]
        print(f"{asked:10}" + "".join(f"{said.count(name) or '.':>7}" for name in (*seen, "neutral")))


def print_agreement(
    sights: Sequence[Sight], judge: str, read: Mapping[str, str], fits: Mapping[tuple[str, str, float], bool]
) -> None:
    """Lays words, voice and face side by side: how often each carries what was asked for, and all three at once.

    Args:
        sights: The films.
        judge: Who judges the face.
        read: The class that is read in each line.
        fits: Whether the voice is heard as its style should be, by identity, class and intensity.
    """
    plain = _plain(sights)
    levels = sorted({sight.take.intensity for sight in sights} - {0.0})
    print(f"\nwhat was asked for is carried by the words, the voice and the face ({judge}); films with all three")
    print(f"{'asked':10}{'words read as':>15}" + "".join(f"{f'voice, face, all at {level:g}':>28}" for level in levels))
    for asked in _asked(sights):
        cells = []
        for level in levels:
            found = _of(sights, asked, level)
            voice = [fits[s.take.identity, asked, level] for s in found]
            face = [strongest(rise(s.seen[judge], plain[_key(s)].seen[judge])) == asked for s in found]
            whole = [v and f and read[asked] == asked for v, f in zip(voice, face, strict=True)]
            cells.append(f"{f'{sum(voice)}, {sum(face)}, {sum(whole)} of {len(found)}':>28}")
        print(f"{asked:10}{read[asked]:>15}{''.join(cells)}")


def print_likeness(shows: str, embedded: Embedded, references: Mapping[str, Floats]) -> None:
    """Whose face or voice the films have: cosine of their embeddings to the own reference and to the others.

    Args:
        shows: What the embeddings tell apart.
        embedded: Of the films.
        references: By identity, (d,).
    """
    print(f"\n{shows}: cosine of its embedding in the films to that of the references")
    print(f"{'identity':10}{'own, mean':>11}{'worst':>8}{'others':>9}{'nearest other':>20}{'nearest to own':>20}")
    rows = {name: [of for (whose, _), of in embedded.items() if whose == name] for name in references}
    for name, found in rows.items():
        cosines = {other: _cosines(np.concatenate(found), at) for other, at in references.items()}
        mine = cosines.pop(name)
        nearest = max(cosines, key=lambda other: float(cosines[other].mean()))
        right = mine > np.max(list(cosines.values()), axis=0)
        print(
            f"{name:10}{mine.mean():11.2f}{mine.min():8.2f}{np.mean(list(cosines.values())):9.2f}"
            f"{f'{nearest} {cosines[nearest].mean():.2f}':>20}{f'{right.sum()} of {len(right)}':>20}"
        )
    between = {pair: float(_cosines(references[pair[0]], references[pair[1]])) for pair in combinations(references, 2)}
    closest = max(between, key=lambda pair: between[pair])
    print(
        f"two references: {np.mean(list(between.values())):.2f} on average,"
        f" {between[closest]:.2f} at the closest ({' and '.join(closest)})"
    )
    means = (f"{level:g}: {_mean(_cosines, at, references):.2f}" for level, at in _by_intensity(embedded))
    print("own by intensity: " + ", ".join(means))


def print_distances(embedded: Embedded, portraits: Mapping[str, Floats]) -> None:
    """The faces again in the measure of their network's author, a distance, because his limit is one."""
    apart = [np.linalg.norm(portraits[one] - portraits[other]) for one, other in combinations(portraits, 2)]
    means = (f"{level:g}: {_mean(_distances, at, portraits):.2f}" for level, at in _by_intensity(embedded))
    worst = max(float(_distances(of, portraits[name]).max()) for (name, _), of in embedded.items())
    print(f"the faces as distances (the same person below {SAME_MAX:g}): own by intensity {', '.join(means)};")
    print(f"worst {worst:.2f}; two portraits {np.mean(apart):.2f} on average, {np.min(apart):.2f} at the closest")


def print_lips(sights: Sequence[Sight]) -> None:
    """How the mouth goes with the sound, by identity, beside the same mouths with the sound of another reply."""
    print("\nlips: correlation at the best lag (its median in frames; above 0 the mouth is late), and closures")
    heads = f"{'with the level':>18}{'with the phonemes':>20}{'p, b, m closed':>18}{'wide vowels closed':>20}"
    print(f"{'identity':10}{heads}")
    for name in dict.fromkeys(sight.take.identity for sight in sights):
        _print_lips(name, [sight for sight in sights if sight.take.identity == name])
    _print_lips("all", sights)
    for level in sorted({sight.take.intensity for sight in sights}):
        _print_lips(f"at {level:g}", [sight for sight in sights if sight.take.intensity == level])
    pairs = list(_mismatched(sights))
    sound = np.mean([_agreement(one.gaps_mm, other.levels) for one, other in pairs])
    shape = np.mean([_agreement(one.gaps_mm, _phonemes(other)) for one, other in pairs])
    print(f"{'by chance':10}{f'{sound:.2f}     ':>18}{f'{shape:.2f}     ':>20}  each mouth with another line's sound")


def _print_lips(name: str, sights: Sequence[Sight]) -> None:
    found = [sight.sync for sight in sights]
    level = f"{np.mean([s.level for s in found]):.2f} ({np.median([s.level_lag for s in found]):+.0f})"
    shape = f"{np.mean([s.shape for s in found]):.2f} ({np.median([s.shape_lag for s in found]):+.0f})"
    closed, closures = sum(s.closed for s in found), sum(s.closures for s in found)
    missed, vowels = sum(s.closed_vowels for s in found), sum(s.vowels for s in found)
    print(f"{name:10}{level:>18}{shape:>20}{f'{closed} of {closures}':>18}{f'{missed} of {vowels}':>20}")


def _mismatched(sights: Sequence[Sight]) -> Iterator[tuple[Sight, Sight]]:
    """Pairs each film with the next one of the same identity in which something else is said."""
    for number, one in enumerate(sights):
        others = [other for other in (*sights[number:], *sights[:number]) if other.take.identity == one.take.identity]
        yield one, next(other for other in others if other.take.text != one.take.text)


def _agreement(gaps_mm: Floats, sound: Floats) -> float:
    length = min(len(gaps_mm), len(sound))
    return lips.best_lag(gaps_mm[:length], sound[:length])[0]


def _phonemes(sight: Sight) -> Floats:
    return lips.expected(sight.take.visemes, len(sight.gaps_mm), FPS)


def _by_intensity(embedded: Embedded) -> Iterator[tuple[float, Embedded]]:
    for level in sorted({level for _, level in embedded}):
        yield level, {key: of for key, of in embedded.items() if key[1] == level}


def _mean(measure: Callable[[Floats, Floats], Floats], embedded: Embedded, references: Mapping[str, Floats]) -> float:
    """Of the measure against the own reference."""
    return float(np.mean(np.concatenate([measure(of, references[name]) for (name, _), of in embedded.items()])))


def _cosines(embeddings: Floats, reference: Floats) -> Floats:
    """Of (…, d) and (d,): (…)."""
    lengths = np.linalg.norm(embeddings, axis=-1) * np.linalg.norm(reference)
    return np.asarray(embeddings @ reference / lengths)


def _distances(embeddings: Floats, reference: Floats) -> Floats:
    return np.asarray(np.linalg.norm(embeddings - reference, axis=-1))


def _plain(sights: Iterable[Sight]) -> dict[tuple[str, str], Sight]:
    return {_key(sight): sight for sight in sights if sight.take.intensity == 0}


def _key(sight: Sight) -> tuple[str, str]:
    return sight.take.identity, sight.take.text


def _of(sights: Iterable[Sight], asked: str, level: float) -> list[Sight]:
    return [sight for sight in sights if sight.take.asked == asked and sight.take.intensity == level]


def _asked(sights: Iterable[Sight]) -> list[str]:
    """The classes that were asked for and that a judge can see change."""
    asked = dict.fromkeys(sight.take.asked for sight in sights)
    return [name for name in asked if name in CLASSES and name != "neutral"]


def _share(right: Sequence[bool] | NDArray[np.bool_]) -> str:
    return f"{100 * np.mean(right):.0f} %"
