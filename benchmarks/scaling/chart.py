"""Rules of scaling: the chart's own as Helm renders it, and its rival by the processor."""

import subprocess
from dataclasses import replace
from pathlib import Path

import yaml

from benchmarks.scaling.rule import Rule, Target
from tests.support.kubernetes_programs import helm

CHART = Path(__file__).parents[2] / "helm"


def backlog_rule(replicas_min: int, replicas_max: int, *values: str) -> Rule:
    """Return the rule of the renderer with the values for GPUs; `values` are more of them, as `--set` has them."""
    scaling = "components.video.scaling"
    settings = ["image.registry=none", f"{scaling}.kind=hpa", f"{scaling}.minReplicas={replicas_min}"]
    settings += [f"{scaling}.maxReplicas={replicas_max}", *values]
    command = [str(helm()), "template", "e3rg", str(CHART), "--values", str(CHART / "values-gpu.yaml")]
    command += ["--show-only", "templates/horizontalpodautoscaler.yaml", "--set", ",".join(settings)]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (manifest,) = (one for one in yaml.safe_load_all(rendered) if one)
    return Rule.read(manifest)


def cpu_rule(rule: Rule, share: float = 0.8) -> Rule:
    """Return the same rule by the share of its processor that a pod is busy.

    In its favour, a pod takes its whole request exactly while it renders: the thread that starts kernels waits for the
    GPU without sleeping. Of the 2 cores that values-gpu.yaml requests, one busy thread is never 80 %.
    """
    return replace(rule, targets=[Target("cpu", share, is_resource=True)])
