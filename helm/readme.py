"""`python -m helm.readme`: writes the table of values in `helm/README.md` from the comments of `values.yaml`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHART = Path(__file__).parent
BEGIN, END = "<!-- values: begin -->\n", "<!-- values: end -->\n"


@dataclass(frozen=True)
class Value:
    """One value: its dotted name, its default as YAML (empty for a group), and its comment."""

    name: str
    default: str
    comment: str


def values(text: str) -> Iterator[Value]:
    """Yield the values of a file in its order. A comment stands above its value or beside it."""
    path: list[tuple[int, str]] = []
    above: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            above = []
        elif comment := re.match(r" *# ?(.*)", line):
            above.append(comment[1])
        elif found := re.match(r"( *)([\w-]+):(?: (.*?))??(?: +# (.+))?$", line):
            depth = len(found[1])
            path = [*(part for part in path if part[0] < depth), (depth, found[2])]
            beside = [found[4]] if found[4] else []
            yield Value(".".join(name for _, name in path), found[3] or "", " ".join([*above, *beside]))
            above = []
        else:
            above = []


def table(text: str) -> str:
    """Return the values as a table in Markdown; a component's settings only where they say more than their names."""
    rows = ["| value | default | meaning |\n|---|---|---|\n"]
    for value in values(text):
        if value.comment:
            default = f"`{value.default}`" if value.default else ""
            cells = (cell.replace("|", "\\|") for cell in (f"`{value.name}`", default, value.comment))
            rows.append(f"| {' | '.join(cells)} |\n".replace("|  |", "| |"))
    return "".join(rows)


def fresh(readme: str, text: str) -> str:
    """Return the README with the table of these values in the place of its old one."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(text)}\n{END}{after}"


if __name__ == "__main__":
    page = CHART / "README.md"
    page.write_text(fresh(page.read_text("utf-8"), (CHART / "values.yaml").read_text("utf-8")), "utf-8")
