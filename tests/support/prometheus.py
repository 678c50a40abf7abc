"""Prometheus and promtool, from the folder that E3RG_TEST_PROMETHEUS names."""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
import yaml

from tests.support.ports import free_ports

VARIABLE = "E3RG_TEST_PROMETHEUS"
PATIENCE_S = 120.0
SCRAPE_S = 1

Series = Mapping[str, str]


def program(name: str) -> Path:
    """Return the path of a program, or skip the test where no one named its folder."""
    if not (folder := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} names no folder with prometheus and promtool")
    return Path(folder) / name


def promtool(*arguments: str, folder: Path | None = None) -> str:
    """Return what promtool prints; fail with it when promtool fails."""
    command = [str(program("promtool")), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """A server that reads metrics pages; use it in a `with` block.

    Args:
        folder: A new folder for its data, configuration and log.
        targets: Addresses of the pages.
        rules: Groups of rules, as in a rule file.
    """

    def __init__(self, folder: Path, targets: Iterable[str], rules: Mapping[str, Any]) -> None:
        (port,) = free_ports(1)
        self._url, self._folder = f"http://127.0.0.1:{port}", folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rules.yaml").write_text(yaml.safe_dump(dict(rules)), "utf-8")
        configuration = {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "e3rg", "static_configs": [{"targets": list(targets)}]}],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration), "utf-8")
        self._command = [
            str(program("prometheus")),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]

    def __enter__(self) -> "Prometheus":
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        try:
            self.wait_until(self._is_ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of the API; fail with its error."""
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {json.load(error)['error']}") from None

    def query(self, expression: str) -> list[tuple[Series, float]]:
        """Return the labels and the value of each series that an expression has now."""
        data = self.ask("query", query=expression)
        assert data["resultType"] == "vector", expression
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    def firing(self) -> list[dict[str, Any]]:
        """Return the alerts that fire now, with labels and annotations."""
        return [alert for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"]

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for an event; fail after a long time without it."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self._process.poll() is None, (self._folder / "log").read_text("utf-8")
            assert time.monotonic() < deadline_s, f"not so after {PATIENCE_S:g} s"
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5):
                return True
        except OSError:
            return False
