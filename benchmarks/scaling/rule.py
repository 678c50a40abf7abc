"""Kubernetes' documented algorithm of the HorizontalPodAutoscaler, over a manifest as the chart renders it.

As in https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ and its controller: the largest
recommendation of all metrics, a tolerance, stabilization windows, policies of `behavior`. Two kinds of metric: External
with a target of AverageValue, and Resource with one of Utilization.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 0.1
"""Default of --horizontal-pod-autoscaler-tolerance."""
SYNC_S = 15.0
"""Default of --horizontal-pod-autoscaler-sync-period."""


@dataclass(frozen=True)
class Target:
    """Target of one metric.

    Attributes:
        name: Name of the External metric, or of the resource.
        value: Its sum for each replica; of a resource, the wanted share of the request, 1 for all of it.
        is_resource: Whether it is a resource, which only ready pods count for.
    """

    name: str
    value: float
    is_resource: bool = False


@dataclass(frozen=True)
class Policy:
    """Largest change within a period: in pods, or in percent of those at its start."""

    is_percent: bool
    value: int
    period_s: float

    def up(self, start: int) -> int:
        """Return the most replicas of which a period may end that began with `start`."""
        return math.ceil(start * (1 + self.value / 100)) if self.is_percent else start + self.value

    def down(self, start: int) -> int:
        """Return the least replicas of the same."""
        return int(start * (1 - self.value / 100)) if self.is_percent else start - self.value


@dataclass(frozen=True)
class Behavior:
    """Limits of one direction; `policies` empty: it is disabled."""

    window_s: float
    policies: Sequence[Policy]
    is_max: bool = True


@dataclass(frozen=True)
class Rule:
    """A HorizontalPodAutoscaler."""

    replicas_min: int
    replicas_max: int
    targets: Sequence[Target]
    up: Behavior
    down: Behavior

    @classmethod
    def read(cls, manifest: Mapping[str, Any]) -> "Rule":
        """Read a manifest of autoscaling/v2, with Kubernetes' defaults for what it leaves out."""
        spec = manifest["spec"]
        behavior = spec.get("behavior", {})
        return cls(
            replicas_min=spec.get("minReplicas", 1),
            replicas_max=spec["maxReplicas"],
            targets=[_target(one) for one in spec["metrics"]],
            up=_behavior(behavior.get("scaleUp", {}), 0, [Policy(True, 100, 15), Policy(False, 4, 15)]),
            down=_behavior(behavior.get("scaleDown", {}), 300, [Policy(True, 100, 15)]),
        )


@dataclass(frozen=True)
class Pods:
    """Replicas as they are: `all` but those that stop, `ready` of them."""

    all: int
    ready: int


@dataclass
class Autoscaler:
    """One HorizontalPodAutoscaler at work."""

    rule: Rule
    _said: deque[tuple[float, int]] = field(default_factory=deque)
    _changes: deque[tuple[float, int]] = field(default_factory=deque)

    def replicas(self, now_s: float, wanted: int, pods: Pods, metrics: Mapping[str, float | None]) -> int:
        """Return how many replicas there shall be; called every `SYNC_S`.

        Args:
            now_s: The time.
            wanted: How many there shall be so far (`spec.replicas`).
            pods: How many there are.
            metrics: Sum of each External metric, mean share of each resource over the ready pods; None: it is missing.
        """
        rule = self.rule
        if not rule.replicas_min <= wanted <= rule.replicas_max:
            return self._change(now_s, wanted, min(max(wanted, rule.replicas_min), rule.replicas_max))
        found = [_recommended(target, pods, metrics.get(target.name)) for target in rule.targets]
        known = [each for each in found if each is not None]
        # A metric that is missing keeps what there is; only more is still believed of the others.
        if not known or (len(known) < len(found) and max(known) < wanted):
            return wanted
        return self._change(now_s, wanted, self._limited(now_s, wanted, self._stable(now_s, wanted, max(known))))

    def _stable(self, now_s: float, wanted: int, recommended: int) -> int:
        up, down = self.rule.up, self.rule.down
        most = least = recommended
        for time_s, said in self._said:
            if time_s > now_s - up.window_s:
                least = min(least, said)
            if time_s > now_s - down.window_s:
                most = max(most, said)
        self._said.append((now_s, recommended))
        while self._said[0][0] <= now_s - max(up.window_s, down.window_s, SYNC_S):
            self._said.popleft()
        return min(max(wanted, least), most)

    def _limited(self, now_s: float, wanted: int, stable: int) -> int:
        rule = self.rule
        if stable > wanted:
            limits = [each.up(self._start(now_s, wanted, each)) for each in rule.up.policies]
            limit = (max if rule.up.is_max else min)(limits, default=wanted)
            return min(stable, max(limit, wanted), rule.replicas_max)
        if stable < wanted:
            limits = [each.down(self._start(now_s, wanted, each)) for each in rule.down.policies]
            limit = (min if rule.down.is_max else max)(limits, default=wanted)
            return max(stable, min(limit, wanted), rule.replicas_min)
        return wanted

    def _start(self, now_s: float, wanted: int, policy: Policy) -> int:
        """Return the replicas at the start of a policy's period."""
        return wanted - sum(change for time_s, change in self._changes if time_s > now_s - policy.period_s)

    def _change(self, now_s: float, wanted: int, replicas: int) -> int:
        if replicas != wanted:
            self._changes.append((now_s, replicas - wanted))
            periods = [each.period_s for each in (*self.rule.up.policies, *self.rule.down.policies)]
            while self._changes[0][0] <= now_s - max(periods, default=0.0):
                self._changes.popleft()
        return replicas


def _recommended(target: Target, pods: Pods, found: float | None) -> int | None:
    if found is None:
        return None
    if not target.is_resource:
        ratio = found / (target.value * pods.all) if pods.all else math.inf
        return pods.all if abs(ratio - 1) <= TOLERANCE else _ceil(found / target.value)
    if not pods.ready:
        return None
    ratio = found / target.value
    counted = pods.ready
    if ratio > 1 and pods.ready < pods.all:
        # Pods that are not ready yet count as idle ones, so that it does not run ahead of them.
        ratio, counted = ratio * pods.ready / pods.all, pods.all
    if abs(ratio - 1) <= TOLERANCE or (counted > pods.ready and ratio < 1):
        return pods.all
    return _ceil(ratio * counted)


def _ceil(replicas: float) -> int:
    """Round up, but not for an error of the last digits."""
    return math.ceil(replicas - 1e-9)


def _target(metric: Mapping[str, Any]) -> Target:
    if metric["type"] == "Resource":
        resource = metric["resource"]
        return Target(resource["name"], resource["target"]["averageUtilization"] / 100, is_resource=True)
    external = metric["external"]
    return Target(external["metric"]["name"], quantity(external["target"]["averageValue"]))


def quantity(text: str | float) -> float:
    """Return a quantity of Kubernetes: a number, or thousandths with `m`."""
    written = str(text)
    return float(written[:-1]) / 1000 if written.endswith("m") else float(written)


def _behavior(written: Mapping[str, Any], window_s: float, policies: Sequence[Policy]) -> Behavior:
    select = written.get("selectPolicy", "Max")
    found = [
        Policy(each["type"] == "Percent", each["value"], each["periodSeconds"]) for each in written.get("policies", ())
    ]
    chosen = [] if select == "Disabled" else found or policies
    return Behavior(written.get("stabilizationWindowSeconds", window_s), chosen, select == "Max")
