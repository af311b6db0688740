"""What `make bench` keeps of a version, and what the site and the README tell of it.

`benchmarks/results/VERSION.json` holds ratios alone: seconds of one machine mean nothing on another.  Each task says
which versions and which load it was measured with, so that a version may be measured in pieces.
`python benchmarks/results.py` writes the README's table again; a test fails where it says something else.
"""

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PEERS = (
    "imagecodecs",
    "kerchunk",
    "numpy",
    "rasterio",
    "tensorstore",
    "tifffile",
    "virtualizarr",
    "xarray",
    "zarr",
)
MEASURES = {"seconds": "time", "peak": "peak memory", "rise": "memory beyond imports", "requests": "requests"}
"""The measures that are shown, and what they are called."""

BEGIN, END = "<!-- speed: `make bench` writes this -->", "<!-- end of speed -->"
CLAIMS = {
    "million": "Index a TIFF of a million tiles",
    "deflate": "Read a deflate COG, whole",
    "jpeg2000": "Read a tiled JPEG 2000, whole",
    "n5": "Read an N5 volume, whole",
    "http": "Read windows of a COG over HTTP",
}
"""The tasks whose first case stands in the README, and how it is called there."""


def keep(task: str, rows: Iterable[Any], load: list[float]) -> None:
    """Put the ratios of a task into the file of this version, in place of those that it had."""
    cases: dict[str, dict[str, Any]] = {}
    for row in rows:
        case = cases.setdefault(row.case, {"base": row.base, "ratios": {}, "goals": {}})
        case["ratios"][row.contender] = {name: float(f"{ratio:.3g}") for name, ratio in row.ratios.items()}
        if row.goals:
            case["goals"][row.contender] = {name: float(f"{goal:.3g}") for name, goal in row.goals.items()}
    own = {"peers": dict(_versions()), "cases": cases}
    _put("tasks", task, load, own)


def keep_scale(count: int, steps: dict[str, dict[str, float]], load: list[float]) -> None:
    """Put what each step of `benchmarks.scale` cost for so many files into the file of this version."""
    _put("scale", str(count), load, {"steps": steps})


def keep_wide(figures: dict[str, Any], load: list[float]) -> None:
    """Put what `benchmarks/wide.py` measured and simulated into the file of this version."""
    _put("wide", "figures", load, figures)


def _put(part: str, name: str, load: list[float], figures: dict[str, Any]) -> None:
    path = RESULTS / f"{version('jnrrdz')}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"machine": {}, "tasks": {}}
    kept["machine"] = {"system": platform.system(), "processor": _processor(), "cores": len(os.sched_getaffinity(0))}
    day, python = datetime.now(UTC).date().isoformat(), platform.python_version()
    kept.setdefault(part, {})[name] = {"date": day, "load": load, "python": python, **figures}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _processor() -> str:
    names = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", names.read_text(encoding="utf-8")) if names.exists() else None
    return found[1] if found else platform.machine()


def _versions() -> Iterator[tuple[str, str]]:
    for name in PEERS:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def results() -> dict[str, dict[str, Any]]:
    """Return what is kept of each version, the newest first."""
    paths = sorted(RESULTS.glob("*.json"), key=lambda path: [int(part) for part in path.stem.split(".")], reverse=True)
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def page() -> str:
    """Return the tables of the site's page: a section a case, a row a contender, a column a version and measure."""
    versions = results()
    cases = {
        title: task for kept in versions.values() for task, held in kept["tasks"].items() for title in held["cases"]
    }
    parts = [*(_about(number, kept) for number, kept in versions.items())]
    for title, task in cases.items():
        held = {number: kept["tasks"].get(task, {}).get("cases", {}).get(title) for number, kept in versions.items()}
        parts.append(_section(title, {number: case for number, case in held.items() if case}))
    return "\n\n".join(parts)


def _about(number: str, kept: dict[str, Any]) -> str:
    machine, tasks = kept["machine"], kept["tasks"].values()
    loads = [load for task in tasks for load in task["load"]]
    peers = {f"{name} {of}" for task in tasks for name, of in task["peers"].items()}
    days = sorted({task["date"] for task in tasks})
    return (
        f"**Version {number}** was measured on {' to '.join(sorted({days[0], days[-1]}))}, "
        f"with {machine['cores']} cores of {machine['processor']}, {machine['system']}, "
        f"Python {', '.join(sorted({task['python'] for task in tasks}))}. "
        f"The machine's load was {min(loads):.1f} to {max(loads):.1f}. Beside it: {', '.join(sorted(peers))}."
    )


def _section(title: str, versions: dict[str, dict[str, Any]]) -> str:
    shown = {number: _measures(case) for number, case in versions.items()}
    columns = [(number, measure) for number, measures in shown.items() for measure in measures]
    newest = next(iter(versions.values()))
    lines = [f"## {title[0].upper()}{title[1:]}", ""]
    lines.append(f"| | {' | '.join(f'{MEASURES[measure]}, {number}' for number, measure in columns)} | goal |")
    lines.append("|---" * (len(columns) + 2) + "|")
    for name in dict.fromkeys(name for case in versions.values() for name in case["ratios"]):
        figures = [versions[number]["ratios"].get(name, {}).get(measure) for number, measure in columns]
        goals = [f"{MEASURES[measure]} {goal:g}" for measure, goal in newest["goals"].get(name, {}).items()]
        base = " (the base)" if name == newest["base"] else ""
        cells = " | ".join("" if figure is None else f"{figure:.3g}" for figure in figures)
        lines.append(f"| {name}{base} | {cells} | {', '.join(goals)} |")
    return "\n".join(lines)


def _measures(case: dict[str, Any]) -> list[str]:
    return [measure for measure in MEASURES if any(measure in ratios for ratios in case["ratios"].values())]


def claims() -> str:
    """Return the README's table of speed: the newest version's time as ratios, each in its own run."""
    number, kept = next(iter(results().items()))
    held = {task: kept["tasks"][task] for task in CLAIMS if task in kept["tasks"]}
    loads = [load for task in held.values() for load in task["load"]]
    measured = f"version {number} on {kept['machine']['cores']} cores at a load of {min(loads):.1f} to {max(loads):.1f}"
    lines = [
        f"Time as a ratio; smaller is faster. `make bench` measured {measured}.",
        "",
        "| | 1 is the time of | jnrrdz | others |",
        "|---|---|---|---|",
    ]
    for task, of in held.items():
        case = next(iter(of["cases"].values()))
        seconds = {name: f"{ratios['seconds']:.2g}" for name, ratios in case["ratios"].items()}
        ours = next(name for name in seconds if name.startswith("jnrrdz"))
        others = [name for name in seconds if not name.startswith(("jnrrdz", "decode", " ", case["base"]))]
        told = ", ".join(f"{name} {seconds[name]}" for name in others)
        lines.append(f"| {CLAIMS[task]} | {case['base']} | {seconds[ours]} | {told} |")
    return "\n".join(lines)


def with_claims(text: str) -> str:
    """Return the README with the newest figures between the two marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{claims()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_claims(readme.read_text(encoding="utf-8")), encoding="utf-8")
