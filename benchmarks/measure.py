"""How contenders are measured: in turns, the best of several rounds, as ratios to one of them.

Taking turns, in one order and the other, makes a busy moment of the machine hit everyone; the best
round is the one that the machine disturbed least.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sample:
    """What one run took; None where it was not measured."""

    seconds: float | None = None
    peak: float | None = None
    """Peak resident memory of the process, in bytes."""
    rise: float | None = None
    """The same, less what the process had before the clock started."""
    requests: int | None = None
    nbytes: int | None = None
    under_way: float | None = None
    """Requests under way on average, while there are any."""

    def best(self, other: "Sample | None") -> "Sample":
        """Return the lesser of each measure."""
        if other is None:
            return self
        mine, theirs = asdict(self), asdict(other)
        return Sample(**{name: _least(mine[name], theirs[name]) for name in mine})


def _least(one: float | None, other: float | None) -> float | None:
    return min((value for value in (one, other) if value is not None), default=None)


@dataclass(frozen=True)
class Case:
    """Contenders at one task; ratios are to `base`."""

    title: str
    base: str
    contenders: Mapping[str, Callable[[], Sample]]
    rounds: int = 3
    goals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What a contender's ratios are to reach, by measure."""


@dataclass(frozen=True)
class Row:
    """The best sample of one contender, and its ratios to the case's base."""

    case: str
    contender: str
    base: str
    sample: Sample
    ratios: Mapping[str, float]
    goals: Mapping[str, float]


def timed(function: Callable[..., Any], *arguments: object) -> Sample:
    """Return the seconds of one call, its result let go after the clock stops."""
    start = time.perf_counter()
    result = function(*arguments)
    seconds = time.perf_counter() - start
    del result
    return Sample(seconds=seconds)


def measure(case: Case) -> list[Row]:
    """Return a row for each contender of a case."""
    best: dict[str, Sample] = {}
    for number in range(case.rounds):
        for name, contender in list(case.contenders.items())[:: -1 if number % 2 else 1]:
            best[name] = contender().best(best.get(name))
    base = asdict(best[case.base])
    return [
        Row(case.title, name, case.base, sample, _ratios(asdict(sample), base), case.goals.get(name, {}))
        for name, sample in best.items()
    ]


def _ratios(sample: dict[str, float | None], base: dict[str, float | None]) -> dict[str, float]:
    return {name: value / base[name] for name, value in sample.items() if value is not None and base[name]}


def table(rows: list[Row]) -> str:
    """Return the rows as text: each measure with its ratio to the base of its case."""
    lines = [f"{'':28}{'time':>20}{'peak memory':>20}{'rise':>20}{'requests':>16}{'bytes':>20}{'under way':>18}"]
    seen = ""
    for row in rows:
        if row.case != seen:
            lines += ["", row.case]
            seen = row.case
        cells = "".join(_cell(row, *column) for column in COLUMNS)
        lines.append(f"  {row.contender:26}{cells}")
    return "\n".join(lines)


COLUMNS = (
    ("seconds", 1.0, "{:.3f} s", 20),
    ("peak", 1e6, "{:.0f} MB", 20),
    ("rise", 1e6, "{:.0f} MB", 20),
    ("requests", 1.0, "{:.0f}", 16),
    ("nbytes", 1e3, "{:.0f} KB", 20),
    ("under_way", 1.0, "{:.1f}", 18),
)


def _cell(row: Row, name: str, unit: float, form: str, width: int) -> str:
    """Return one measure and its ratio, right-aligned."""
    value = getattr(row.sample, name)
    if value is None:
        return " " * width
    ratio = f" x{row.ratios[name]:.2f}" if name in row.ratios else ""
    return f"{form.format(value / unit) + ratio:>{width}}"
