"""What a service is told stays in the deployment: no library reports to its maker."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# swift_f0 imports it in its turn.
IMPORTS = re.compile(r"^(?:import|from) (?:onnxruntime|swift_f0)\b", re.MULTILINE)
PACKAGES = sorted(
    package.parent.name
    for package in ROOT.glob("*/__init__.py")
    if any(IMPORTS.search(path.read_text("utf-8")) for path in package.parent.rglob("*.py"))
)


def test_all_that_run_onnx_models_are_known() -> None:
    assert PACKAGES == ["perception", "services"]


@pytest.mark.parametrize("package", PACKAGES)
def test_onnx_runtime_is_imported_with_its_telemetry_off(package: str, tmp_path: Path) -> None:
    # Where it is on, the import leaves the machine's number and what is to be sent; in a CI it is off by itself.
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "ORT_DISABLE_TELEMETRY"}}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    program = f"import {package}; import onnxruntime"
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=ROOT, check=True)
    assert list(tmp_path.rglob("*")) == []
