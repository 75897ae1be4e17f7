"""What a run recorded, read for drawing."""

from dataclasses import dataclass
from typing import Any

PHASES = ("prefill", "decode")
PARTS = ("stage_us", "wait_us", "run_us")
NEEDED = ("position", "tokens", "phase", *PARTS, "rows_distinct", "rows_hit", "rss_bytes")
BUCKETS = 72


@dataclass(frozen=True)
class Bucket:
    """Consecutive steps of one phase, drawn as one mark."""

    first_token: int
    last_token: int
    step_count: int
    mean_us: dict[str, float]  # of a step, by part
    hit_share: float | None  # None: no rows were staged meanwhile
    rss_bytes: int
    read_p50_us: float
    read_p99_us: float


class Run:
    """The JSON of ``pleiades run --json --steps``."""

    def __init__(self, json: dict[str, Any]) -> None:
        steps = json.get("steps")
        if not isinstance(steps, list) or not steps:
            raise ValueError("has no steps: run with --json --steps")
        missing = [key for key in NEEDED if key not in steps[0]]
        if missing:
            raise ValueError(f"its steps lack {', '.join(missing)}: made by an older tool")
        self.json = json
        self.steps: list[dict[str, Any]] = steps
        self.sequence_count = int(json["sequences"])

    def number(self, name: str) -> float:
        """A number of the run itself."""
        return float(self.json[name])

    def phase(self, name: str) -> list[dict[str, Any]]:
        """The steps of 'prefill' or 'decode'."""
        return [step for step in self.steps if step["phase"] == name]

    def stretches(self) -> list[Bucket]:
        """At most BUCKETS stretches of the text, equally many tokens in each."""
        total = self.steps[-1]["position"] + self.steps[-1]["tokens"]
        groups: dict[int, list[int]] = {}
        for index, step in enumerate(self.steps):
            groups.setdefault(int(step["position"] * BUCKETS // total), []).append(index)
        return [self._bucket(indices) for indices in groups.values()]

    def buckets(self, phase: str) -> list[Bucket]:
        """At most BUCKETS stretches of a phase, equally many steps in each."""
        chosen = [i for i, step in enumerate(self.steps) if step["phase"] == phase]
        count = min(BUCKETS, len(chosen))
        bounds = [len(chosen) * i // max(count, 1) for i in range(count + 1)]
        return [
            self._bucket(chosen[begin:end]) for begin, end in zip(bounds, bounds[1:], strict=False)
        ]

    def _bucket(self, indices: list[int]) -> Bucket:
        steps = [self.steps[index] for index in indices]
        before = self.steps[indices[0] - 1] if indices[0] > 0 else None
        last = steps[-1]
        distinct = last["rows_distinct"] - (before["rows_distinct"] if before else 0)
        hit = last["rows_hit"] - (before["rows_hit"] if before else 0)
        return Bucket(
            first_token=int(steps[0]["position"]),
            last_token=int(last["position"] + last["tokens"]),
            step_count=len(steps),
            mean_us={
                part: sum(step[part] for step in steps) / len(steps) for part in PARTS
            },
            hit_share=hit / distinct if distinct else None,
            rss_bytes=int(last["rss_bytes"]),
            read_p50_us=float(last.get("read_p50_us", 0)),
            read_p99_us=float(last.get("read_p99_us", 0)),
        )
