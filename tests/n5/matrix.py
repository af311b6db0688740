"""All datasets of `cases` written by their writers, read by jnrrdz and compared.

As a script, `python -m tests.n5.matrix [--every N]`, it goes
through the whole table and prints how many datasets of each writer were exact, refused or wrong; the tests take
a sample of it.  zarr 2 needs an environment of its own, made once below the cache folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import z5py
import zarr

import jnrrdz
from jnrrdz import api
from tests.n5.cases import Case, by_bytes, table
from tests.writers import n5_dataset

ZARR2 = ("zarr==2.18.7", "numcodecs==0.15.2")
CHAINS = (None, "n5_default", "offset", "pad", "in place")


def zarr2_python() -> str | None:
    """Return the interpreter of an environment with zarr 2, made if need be; None where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "jnrrdz-tests" / "zarr2"
    python, made = cache / "bin" / "python", cache / "made"
    try:
        if not made.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", cache], check=True, capture_output=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *ZARR2], check=True, capture_output=True, timeout=120)
            made.write_text("zarr 2")
    except (subprocess.SubprocessError, OSError):
        return None
    return str(python)


def write(cases: Sequence[Case], folder: Path) -> dict[int, np.ndarray]:
    """Write the datasets to `folder/NUMBER`, and return what is to be read of each, x first."""
    _zarr2([case for case in cases if case.writer == "zarr2"], folder)
    return {case.number: _WRITERS[case.writer](case, folder / str(case.number)) for case in cases}


def _zarr2(cases: Sequence[Case], folder: Path) -> None:
    if not cases:
        return
    for case in cases:
        np.save(folder / f"{case.number}.npy", case.values())
    told = json.dumps([case.to_json() | {"path": str(folder / str(case.number))} for case in cases])
    script = Path(__file__).with_name("zarr2_writer.py")
    subprocess.run([zarr2_python() or sys.executable, script], input=told.encode(), check=True)


def _tensorstore(case: Case, path: Path) -> np.ndarray:
    values = case.values()
    n5_dataset(path, values, case.block, case.compression)
    return values


def _z5py(case: Case, path: Path) -> np.ndarray:
    values = case.values()
    told = dict(case.compression)
    name = told.pop("type")
    container = z5py.File(str(path), mode="w", use_zarr_format=False)
    dataset = container.create_dataset(
        "v", shape=case.shape[::-1], chunks=case.block[::-1], dtype=case.dtype, compression=name, **told
    )
    dataset[...] = np.ascontiguousarray(values.T)
    return values


_WRITERS = {
    "tensorstore": _tensorstore,
    "z5py": _z5py,
    "zarr2": lambda case, _: case.values(),
    "bytes": by_bytes,
}


def verdict(case: Case, folder: Path, expected: np.ndarray, chain: str | None) -> str:
    """Return `exact`, `wrong`, or the text of the error."""
    path = folder / str(case.number)
    path = path / "v" if case.writer == "z5py" else path
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            odd = case.kind in {"oversize", "short"}
            found = _in_place(path, odd=odd) if chain == "in place" else _read(path, chain, odd=odd)
    except jnrrdz.JnrrdzError as error:
        return str(error).replace(str(folder), "")
    same = found.dtype == expected.dtype and found.shape == expected.T.shape
    return "exact" if same and np.array_equal(found, expected.T, equal_nan=found.dtype.kind == "f") else "wrong"


def _read(path: Path, chain: str | None, *, odd: bool) -> np.ndarray:
    return jnrrdz.open_group(path, chain=chain, allow_odd_blocks=odd)["data"][...]


def _in_place(path: Path, *, odd: bool) -> np.ndarray:
    api.index_in_place(path, allow_odd_blocks=odd)
    try:
        return zarr.open_array(path, mode="r")[...].T
    finally:
        api.remove_in_place(path)


def main() -> None:
    """Go through the table, and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="take every nth dataset only")
    parser.add_argument("--show", type=int, default=20, help="failures to print")
    options = parser.parse_args()
    cases = [case for case in table() if case.number % options.every == 0]
    tally: Counter[tuple[str, str, str]] = Counter()
    for first in range(0, len(cases), 200):
        some = cases[first : first + 200]
        with tempfile.TemporaryDirectory() as name:
            expected = write(some, Path(name))
            for case in some:
                for chain in CHAINS:
                    found = verdict(case, Path(name), expected[case.number], chain)
                    short = found if found in {"exact", "wrong"} else "refused"
                    tally[case.writer, chain or "auto", short] += 1
                    if found != "exact" and chain not in {"offset", "pad"} and options.show:
                        options.show -= 1
                        sys.stdout.write(f"{case.name} {chain}: {found}\n")
    for (writer, chain, short), count in sorted(tally.items()):
        sys.stdout.write(f"{writer:12} {chain:10} {short:8} {count}\n")


if __name__ == "__main__":
    main()
