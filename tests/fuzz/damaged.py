"""Damage files of a corpus over and over, and read what is left: pixels or a JnrrdzError, soon, in bounded memory.

`python tests/fuzz/damaged.py CORPUS --minutes 15 --keep FOLDER`

Every damaged file follows from its number alone: `--first NUMBER --count 1` makes the same one again.
A process of its own reads a batch of them, so that a crash, a file without end and memory without
bound cost that batch only.  It uses fork, resource limits and /proc: Linux only.
"""

import argparse
import math
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zarr

import jnrrdz

BATCH = 200
SECONDS = 60
LARGEST_SEED = 400_000
"""Bytes of a file: a larger one takes so long that few are read."""

WHOLE = 4 << 20
"""Bytes of an array that is read whole; of a larger one the first and the last pixel."""

CHUNK = 64 << 20
"""Bytes of a chunk up to which a file has no more memory than --memory.  Of a file with larger chunks, which the
scanner bounds, one chunk is decoded, and may take so much for each of its bytes:"""

DECODING = 24

ADDRESS_SPACE = 6 << 30
ODD = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1]
MARKERS = [b"\xff\x4f\xff\x51", b"\xff\x52", b"\xff\x5c", b"\xff\x55", b"\xff\x90\0\x0a", b"\xff\x58", b"\xff\x60"]
MARKERS += [b"jp2h", b"jp2c", b"pclr", b"cdef", b"colr", b"NITF", b"NSIF", b"IM", b"\xff\xd8", b"\xff\xd9"]


def places(data: bytes) -> list[int]:
    """Return where headers stand: damage elsewhere is damage to pixels, mostly."""
    found = [0]
    for marker in MARKERS:
        at = data.find(marker)
        while at >= 0 and len(found) < 400:
            found.append(at)
            at = data.find(marker, at + 1)
    return found


def damaged(data: bytes, number: int) -> bytes:
    """Return a file with some of its bytes changed."""
    chance = random.Random(number)
    result = bytearray(data)
    near = places(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = chance.choice(near) + chance.randint(0, 80) if chance.random() < 0.8 else chance.randrange(len(data))
        _damage(result, min(at, max(len(result) - 1, 0)), chance)
    return bytes(result)


def _damage(result: bytearray, at: int, chance: random.Random) -> None:
    """Change the bytes at one place, in one of several ways."""
    kind = chance.choice(["flip", "flip", "number", "number", "digit", "noise", "zeros", "repeat", "drop", "cut"])
    if kind == "flip" and result:
        result[at] ^= 1 << chance.randrange(8)
    elif kind == "number":
        width = chance.choice([1, 2, 4])
        result[at : at + width] = (chance.choice(ODD) % (1 << 8 * width)).to_bytes(width, "big")
    elif kind == "digit":
        result[at : at + 1] = chance.choice([b"0", b"1", b"9", b" ", b"-", b"."])
    elif kind == "noise":
        size = chance.randint(1, 16)
        result[at : at + size] = chance.randbytes(size)
    elif kind == "zeros":
        size = chance.randint(1, 64)
        result[at : at + size] = bytes(len(result[at : at + size]))
    elif kind == "repeat":
        result[at:at] = result[at : at + chance.randint(1, 64)]
    elif kind == "drop":
        del result[at : at + chance.randint(1, 32)]
    elif chance.random() < 0.3:
        del result[at:]


def read(path: Path, refs: Path, limit: int) -> str:
    """Index a file and read its arrays; return in a word what became of it."""
    with peak_of(limit):
        try:
            jnrrdz.index(path, refs)
        except jnrrdz.JnrrdzError as error:
            return _said(error, refs)
    members = jnrrdz.open_group(refs).members(max_depth=None)
    arrays = [array for _, array in members if isinstance(array, zarr.Array) and array.ndim > 1]
    large = max(arrays, key=_chunk, default=None)
    if large is not None and _chunk(large) > CHUNK:
        with peak_of(limit + DECODING * _chunk(large)):
            return _pixels(large, [(0,) * large.ndim]) or "read in part"
    word = "read"
    with peak_of(limit):
        for array in arrays:
            corners = [(0,) * array.ndim, (-1,) * array.ndim]
            word = _pixels(array, [Ellipsis] if array.nbytes <= WHOLE else corners) or word
    return word


def _chunk(array: zarr.Array) -> int:
    """Return the bytes of an array's chunk."""
    return math.prod(array.chunks) * array.dtype.itemsize


def _said(error: jnrrdz.JnrrdzError, refs: Path) -> str:
    if refs.exists():
        return "FOUND a manifest left behind"
    return "refused" if str(error) else "FOUND an error without words"


def _pixels(array: zarr.Array, places: list[Any]) -> str:
    """Read some places of an array; return a word where that was not possible."""
    try:
        for place in places:
            array[place]
    except jnrrdz.JnrrdzError as error:
        return "a chunk refused" if str(error) else "FOUND an error without words"
    return ""


@contextmanager
def peak_of(limit: int) -> Iterator[None]:
    """Raise where the memory of this process grows by more than `limit` bytes meanwhile, at any time."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    yield
    grown = _status("VmHWM") - before
    if grown > limit:
        raise AssertionError(f"{grown >> 20} MB more memory")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"no {name}")


def run(numbers: range, seeds: list[Path], limit: int, answer: int) -> None:
    """Read damaged files one after the other; write a line for each to `answer`."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    for number in numbers:
        seed = seeds[number % len(seeds)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"damaged{seed.suffix}"
            path.write_bytes(damaged(seed.read_bytes(), number))
            try:
                word = read(path, Path(folder) / "refs.json", limit)
            except BaseException:  # noqa: BLE001  to find out which is what this is for
                word = "FOUND " + traceback.format_exc()[-1800:].replace("\n", "\\n")
        os.write(answer, f"{number} {word}\n".encode())


def batch(numbers: range, seeds: list[Path], limit: int) -> tuple[dict[int, str], int]:
    """Return what became of each file of a batch, and the number to go on with."""
    source, target = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's threads do not run when there is nothing to multiply
        child = os.fork()
    if child == 0:
        try:
            run(numbers, seeds, limit, target)
        finally:
            os._exit(0)
    os.close(target)
    text, late = b"", False
    while not late:
        late = not select.select([source], [], [], SECONDS)[0]
        piece = b"" if late else os.read(source, 65536)
        text += piece
        if not piece:
            break
    os.close(source)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    found = {int(line.split(" ", 1)[0]): line.split(" ", 1)[1] for line in text.decode().splitlines()}
    reached = max(found, default=numbers.start - 1) + 1
    if reached < numbers.stop:
        why = f"no answer in {SECONDS} seconds" if late else f"ended by signal {os.WTERMSIG(status)}"
        found[reached] = f"FOUND {why}"
        reached += 1
    return found, reached


def keep(folder: Path, number: int, seeds: list[Path], what: str) -> None:
    """Leave a damaged file and what happened."""
    seed = seeds[number % len(seeds)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number}{seed.suffix}").write_bytes(damaged(seed.read_bytes(), number))
    (folder / f"{number}.txt").write_text(f"{seed.name}\n" + what.replace("\\n", "\n") + "\n", encoding="utf-8")


def seeds_of(corpus: Path) -> list[Path]:
    """Return the files of a corpus that are small enough, in a fixed order."""
    files = (path for path in corpus.rglob("*") if path.is_file() and path.suffix not in {".jsonl", ".md", ".txt"})
    return sorted(path for path in files if 0 < path.stat().st_size <= LARGEST_SEED)


def main() -> None:
    """Read damaged files for some minutes; end with exit code 1 where any did what none may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--count", type=int, default=sys.maxsize, metavar="FILES")
    parser.add_argument("--memory", type=int, default=768, metavar="MB", help="that one file may cost at any time")
    parser.add_argument("--keep", type=Path, default=Path("findings"), metavar="FOLDER")
    options = parser.parse_args()
    _ = jnrrdz.index, jnrrdz.open_group  # imported once, for all processes
    seeds = seeds_of(options.corpus)
    end, last = time.monotonic() + 60 * options.minutes, options.first + options.count
    number, tally = options.first, Counter[str]()
    while number < last and time.monotonic() < end:
        found, number = batch(range(number, min(number + BATCH, last)), seeds, options.memory << 20)
        for one, word in found.items():
            tally[word if not word.startswith("FOUND") else "FOUND"] += 1
            if word.startswith("FOUND"):
                keep(options.keep, one, seeds, word)
        shown = ", ".join(f"{word} {count}" for word, count in tally.most_common())
        sys.stdout.write(f"{tally.total()} damaged copies of {len(seeds)} files: {shown}\n")
        sys.stdout.flush()
    sys.exit(1 if tally["FOUND"] else 0)


if __name__ == "__main__":
    main()
