"""Which modules take up a suite of promises."""

import ast
from pathlib import Path


def suites(file: Path, promises: str) -> list[str]:
    """Names of the test classes in a module that are `promises`, itself or by another class; it is not imported."""
    classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    takers = {promises}
    for node in classes:
        if any(ast.unparse(parent) in takers for parent in node.bases):
            takers.add(node.name)
    return sorted(name for name in takers if name.startswith("Test"))
