"""What `make bench` keeps of a version, and what the site and the README tell of it.

`benchmarks/results/VERSION.json` holds ratios alone: seconds of one machine mean nothing on another.  Each task says
which versions and which load it was measured with, so that a version may be measured in pieces.
`python benchmarks/results.py` writes the tables of the README and of docs/scale.md again; a test fails where one says
something else.
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

PAGES = ("README.md", "docs/scale.md")
"""Where tables stand between marks, the names of which `TABLES` has."""

FILES = 1_000_000
REQUESTS_PRICE, LISTS_PRICE, CORE_PRICE = 0.0004, 0.005, 0.05
"""Dollars that are assumed: of 1,000 GETs, of 1,000 LISTs, of a core for an hour."""

ANSWER, AT_ONCE = 0.03, 64
"""Seconds that a store is assumed to take to answer, and how many sources a machine asks for at once."""

WAYS = (
    "a kind of chunk or request",
    "CPU, µs",
    "with the lock, µs",
    "2 to 1, measured",
    "2 to 1, model",
    "64 to 1, model",
)
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


def keep_forms(chunks: int, sources: int, steps: dict[str, dict[str, Any]], load: list[float]) -> None:
    """Put what `benchmarks/merge_many.py` measured of the forms of a manifest into the file of this version."""
    _put("forms", str(chunks), load, {"sources": sources, "forms": steps})


def keep_opening(chunks: int, sources: int, took: dict[str, float], load: list[float]) -> None:
    """Put what `benchmarks/opening.py` measured of one manifest into the file of this version."""
    figures = {name: float(f"{value:.4g}") for name, value in took.items()}
    _put("opening", str(chunks), load, {"sources": sources, "took": figures})


def keep_wide(part: str, figures: dict[str, Any], load: list[float]) -> None:
    """Put what a part of `benchmarks/wide.py` measured and simulated into the file of this version."""
    _put("wide", part, load, {"figures": figures})


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


def _about_run(run: dict[str, Any]) -> str:
    return f"{run['date']}, Python {run['python']}, at a load of {run['load'][0]:.1f} to {run['load'][1]:.1f}"


def files() -> str:
    """Return what each step of `benchmarks.scale` cost, for every number of files that was tried."""
    _, kept = next(iter(results().items()))
    runs = sorted(kept["scale"].items(), key=lambda item: int(item[0]))
    lines = ["| files | step | CPU, ms a file | time, ms a file | requests a file | bytes a file | peak memory, MB |"]
    lines.append("|---" * 7 + "|")
    for _, run in runs:
        for step, cost in run["steps"].items():
            count = cost["files"]
            each = [f"{cost[name] / count * 1000:.2f}" for name in ("cpu", "seconds")]
            asked = f"{cost['requests'] / count:.2f}" if "requests" in cost else ""
            nbytes = f"{cost.get('bytes', cost.get('size', 0)) / count:.0f}" if step != "window" else ""
            lines.append(f"| {count:,} | {step} | {' | '.join(each)} | {asked} | {nbytes} | {cost['peak']:.0f} |")
    told = "; ".join(f"{int(count):,} files on {_about_run(run)}" for count, run in runs)
    return "\n".join([f"{kept['machine']['cores']} cores of {kept['machine']['processor']}; {told}.", "", *lines])


def _a_file(step: str, measure: str) -> tuple[float, float]:
    """Return what one file more costs, and what all do that is not theirs: from the smallest run to the largest."""
    _, kept = next(iter(results().items()))
    runs = [run["steps"][step] for _, run in sorted(kept["scale"].items(), key=lambda item: int(item[0]))]
    few, many = runs[0], runs[-1]
    if few["files"] == many["files"]:
        return many[measure] / many["files"], 0.0
    slope = max((many[measure] - few[measure]) / (many["files"] - few["files"]), 0.0)
    return slope, few[measure] - slope * few["files"]


def million() -> str:
    """Return hours, dollars and memory of a million files, computed from what one costs."""
    scan, on_dask, cube = (_a_file(step, "cpu")[0] for step in ("batch", "batch on dask", "cube"))
    requests = FILES * _a_file("batch", "requests")[0]
    asking = requests / 1000 * REQUESTS_PRICE + FILES / 1000 / 1000 * LISTS_PRICE
    lines = ["| where | batch, hours | cube, hours | core hours | dollars |", "|---|---|---|---|---|"]
    for name, cores, each, machines in (
        ("one machine, 2 cores", 2, scan, 1),
        ("one machine, 16 cores", 16, scan, 1),
        ("dask, 8 workers of a core", 8, on_dask, 8),
        ("dask, 64 workers of a core", 64, on_dask, 64),
    ):
        batch = FILES * max(each / cores, ANSWER / AT_ONCE / machines) / 3600
        alone = FILES * cube / 3600
        hours = FILES * (each + cube) / 3600
        lines.append(f"| {name} | {batch:.2f} | {alone:.2f} | {hours:.2f} | {asking + hours * CORE_PRICE:.2f} |")
    memory = {step: _a_file(step, "peak") for step in ("batch", "cube")}
    at = {step: slope * FILES + fixed for step, (slope, fixed) in memory.items()}
    if not all(fixed for _, fixed in memory.values()):
        raise SystemExit("two runs of benchmarks.scale are wanted, with --files 1000 and with many more")
    size = _a_file("cube", "size")[0] * FILES / 1e6
    told = f"{requests:,.0f} GETs and {FILES // 1000:,} LISTs, {asking:.2f} dollars; the cube's manifest {size:.0f} MB."
    grown = f"Memory, on a line through the runs above: batch {at['batch']:,.0f} MB, cube {at['cube']:,.0f} MB."
    return "\n".join([told, "", *lines, "", grown])


STEPS = (
    ("size, MB", "merge", "size", 1e6),
    ("objects", "merge", "objects", 1),
    ("merge, s of CPU", "merge", "cpu", 1),
    ("merge, peak MB", "merge", "peak", 1),
    ("open, s of CPU", "open", "cpu", 1),
    ("open, peak MB", "open", "peak", 1),
    ("open on S3, requests", "far", "open requests", 1),
    ("open on S3, MB", "far", "open bytes", 1e6),
    ("a window, s of CPU", "window", "cpu", 1),
    ("a window on S3, requests", "far", "window requests", 1),
    ("a window on S3, MB", "far", "window bytes", 1e6),
    ("verify a hundredth, s of CPU", "part", "cpu", 1),
    ("verify, s of CPU", "verify", "cpu", 1),
    ("verify, peak MB", "verify", "peak", 1),
    ("refresh of one source, s of CPU", "refresh", "cpu", 1),
    ("refresh of one source, peak MB", "refresh", "peak", 1),
    ("refresh of one source, files written", "refresh", "written", 1),
)
"""What is shown of each form: the step, the measure, and what it is divided by."""


OPENING = (
    ("files", "objects", 1),
    ("size, MB", "size", 1e6),
    ("write, s of CPU", "write cpu", 1),
    ("write, peak MB", "peak", 1),
    ("open, ms of CPU", "open cpu", 1e-3),
    ("open, peak MB", "open peak", 1),
    ("open over HTTP, requests", "open requests", 1),
    ("open over HTTP, kB", "open bytes", 1e3),
    ("a window, ms of CPU", "window cpu", 1e-3),
    ("a window over HTTP, requests", "window requests", 1),
    ("a window over HTTP, kB", "window bytes", 1e3),
    ("open and a window, peak MB", "window peak", 1),
)
"""What is shown of each manifest that was opened: the measure, and what it is divided by."""


def opening() -> str:
    """Return what `benchmarks/opening.py` measured: few chunks of few sources beside many of many."""
    _, kept = next(iter(results().items()))
    runs = sorted(kept.get("opening", {}).items(), key=lambda item: int(item[0]))
    if not runs:
        return "Not measured yet: `python benchmarks/opening.py --keep`."
    names = [f"{int(chunks):,} chunks, {run['sources']:,} sources" for chunks, run in runs]
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(runs) + 1) + "|"]
    for name, measure, unit in OPENING:
        cells = (_shown(run["took"][measure] / unit) for _, run in runs)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    told = "; ".join(f"{int(chunks):,} chunks on {_about_run(run)}" for chunks, run in runs)
    return "\n".join([f"{kept['machine']['cores']} cores of {kept['machine']['processor']}; {told}.", "", *lines])


def forms() -> str:
    """Return what `benchmarks/merge_many.py` measured of Parquet and Icechunk, side by side."""
    _, kept = next(iter(results().items()))
    runs = sorted(kept.get("forms", {}).items(), key=lambda item: int(item[0]))
    if not runs:
        return "Not measured yet: `python benchmarks/merge_many.py --keep`."
    columns = [(run, form, f"{form.title()}, {int(chunks):,} chunks") for chunks, run in runs for form in run["forms"]]
    lines = [f"| | {' | '.join(name for _, _, name in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, step, measure, unit in STEPS:
        cells = [run["forms"][form].get(step, {}).get(measure) for run, form, _ in columns]
        if any(cell is not None for cell in cells):
            lines.append(f"| {name} | {' | '.join('' if cell is None else _shown(cell / unit) for cell in cells)} |")
    told = "; ".join(f"{int(chunks):,} chunks of {run['sources']} sources on {_about_run(run)}" for chunks, run in runs)
    return "\n".join([f"{kept['machine']['cores']} cores of {kept['machine']['processor']}; {told}.", "", *lines])


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _name_of(limit: str) -> str:
    name = limit.partition(" ")[0]
    return {"lock": "the lock", "core": "cores", "place": "how many are fetched at once"}.get(name, name)


def wide() -> str:
    """Return what `benchmarks/wide.py` measured of each way, and what its model says of 64 cores."""
    _, kept = next(iter(results().items()))
    lines = [f"| {' | '.join(WAYS)} | then waits for |", "|---" * (len(WAYS) + 1) + "|"]
    for run in kept["wide"].values():
        for name, way in run["figures"].items():
            if "cpu" in way:
                ratios = [f"{way[key]:.3g}" for key in ("cpu", "lock", "measured", "model", "speedup")]
                lines.append(f"| {name} | {' | '.join(ratios)} | {_name_of(way['limit'])} |")
    told = "; ".join(f"{part} on {_about_run(run)}" for part, run in kept["wide"].items())
    return "\n".join([f"Measured with {kept['machine']['cores']} cores: {told}.", "", *lines])


def places() -> str:
    """Return chunks a second from elsewhere by how many are fetched at once."""
    _, kept = next(iter(results().items()))
    if "remote" not in kept["wide"]:
        return "Not measured yet: `python benchmarks/wide.py --only remote --keep`."
    lines = [
        "| at once | measured here | model of 2 cores | model of 64 cores | which then waits for |",
        "|---" * 5 + "|",
    ]
    for name, way in kept["wide"]["remote"]["figures"].items():
        if "wide" in way:
            rates = " | ".join(f"{way[key]:.3g}" for key in ("measured", "model", "wide"))
            lines.append(f"| {name.removeprefix('at once: ')} | {rates} | {_name_of(way['limit'])} |")
    return "\n".join(lines)


TABLES = {
    "speed": claims,
    "files": files,
    "million": million,
    "opening": opening,
    "forms": forms,
    "wide": wide,
    "places": places,
}


def with_claims(text: str) -> str:
    """Return a page with the newest figures between its marks."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: `make bench` writes this -->", f"<!-- end of {name} -->"
        if begin in text:
            before, _, rest = text.partition(begin)
            text = f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}"
    return text


def write_pages() -> None:
    """Write the tables of all pages again."""
    for name in PAGES:
        page = ROOT / name
        page.write_text(with_claims(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
