"""One more date of a cube: what that takes where there are few dates, and where there are many.

    python benchmarks/cube_append.py [FEW] [MANY]

What carries over to other machines is the ratio of the times, and what is written.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import icechunk
from cube_many import BANDS, group

import jnrrdz

FEW, MANY = 10, 500
"""Dates of four files of 100 chunks each."""


def files(out: Path) -> dict[Path, tuple[int, int]]:
    """Return which file each name is, and when it was written."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in out.rglob("*") if path.is_file()}


def changes(out: Path, old: str | None) -> int | None:
    """Return how many references the last commit of a repository set."""
    if old is None:
        return None
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(out)))
    change = repository.diff(from_snapshot_id=old, to_branch="main")
    return sum(len(list(found)) for found in change.updated_chunks.values())


def snapshot(out: Path) -> str | None:
    """Return the snapshot of a repository's branch, None where there is none."""
    if out.suffix != ".icechunk":
        return None
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(out))).lookup_branch("main")


def appended(form: str, dates: int, folder: Path) -> dict[str, Any]:
    """Return what one more date took, the quickest of three."""
    out, rule = folder / f"{dates}.{form}", r"scenes/([0-9T-]+)/"
    jnrrdz.cube(map(group, range(dates * BANDS)), out, time_from=rule)
    seconds, written, references = [], 0, None
    for number in range(dates, dates + 3):
        before, old = files(out), snapshot(out)
        start = time.perf_counter()
        jnrrdz.cube(map(group, range(number * BANDS, (number + 1) * BANDS)), out, time_from=rule, append=True)
        seconds.append(time.perf_counter() - start)
        new = [path for path, state in files(out).items() if before.get(path) != state]
        written, references = sum(path.stat().st_size for path in new), changes(out, old)
    told = {"form": form, "dates": dates, "seconds": round(min(seconds), 3), "files written": len(new)}
    return {**told, "bytes written": written, "references set": references, "files": len(files(out))}


def main(arguments: Sequence[str]) -> None:
    """Print what each took, and the ratios."""
    few, many = (
        (int(text) for text in (*arguments, FEW, MANY)[:2]) if len(arguments) != 1 else (int(arguments[0]), MANY)
    )
    for form in ("parquet", "icechunk"):
        with tempfile.TemporaryDirectory() as folder:
            told = [appended(form, dates, Path(folder)) for dates in (few, many)]
        print(*map(json.dumps, told), sep="\n")
        print(f"{form}: one date more of {many} takes {told[1]['seconds'] / told[0]['seconds']:.1f} times as long")


if __name__ == "__main__":
    main(sys.argv[1:])
