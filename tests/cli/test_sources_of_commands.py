"""Every command with each kind of source that docs/cli.md claims for it, and in words where it claims none.

The table there is the list of the cases.
"""

import io
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import jnrrdz
from jnrrdz.cli import COMMANDS as ALL
from jnrrdz.cli import cli
from jnrrdz.options import Access, ServeOptions
from tests import writers
from tests.servers.fixtures import bucket, seaweed

__all__ = ["bucket", "seaweed"]

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
OF_IMAGES = ("index", "batch", "info", "ls", "preview", "serve", "tile", "codecs --check")
DAYS = ("20240101", "20240102")


def claims():
    """Return for each command and kind of source whether the page claims it."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| | image |"))
    kinds = [cell.strip() for cell in lines[start].split("|")[2:-1]]
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("| `"):
            break
        command, *cells = [cell.strip() for cell in line.split("|")[1:-1]]
        found += [(command.strip("`"), kind, cell == "yes") for kind, cell in zip(kinds, cells, strict=True)]
    return found


@dataclass(frozen=True)
class Larder:
    """What there is of each kind, for commands of images and for commands of manifests."""

    folder: Path
    images: dict[str, str]
    manifests: dict[str, str]
    options: tuple[str, ...]
    access: dict


@pytest.fixture(scope="module")
def larder(seaweed, tmp_path_factory):
    pytest.importorskip("icechunk")
    folder = tmp_path_factory.mktemp("larder")
    bucket = seaweed.make_bucket()
    store = seaweed.options(client_kwargs={"region_name": "us-east-1"})
    for place in ("scenes/deep", "refs/deep"):
        (folder / place).mkdir(parents=True)
    for number, (day, below) in enumerate(zip(DAYS, ("", "deep/"), strict=True)):
        path = folder / f"scenes/{below}s_{day}.tif"
        writers.geotiff(path, np.full((64, 64), number + 1, "u2"), **writers.TILES, **writers.PLACE)
        seaweed.put(bucket, f"scenes/{below}s_{day}.tif", path.read_bytes())
        jnrrdz.index(path, folder / f"refs/{below}s_{day}.json", relative=True)
        source, made = f"s3://{bucket}/scenes/{below}s_{day}.tif", f"s3://{bucket}/refs/{below}s_{day}.json"
        jnrrdz.index(source, made, storage_options=store, target_options=store)
    image = str(folder / f"scenes/s_{DAYS[0]}.tif")
    for form in ("json", "parquet", "icechunk"):
        jnrrdz.index(image, folder / f"one_{DAYS[0]}.{form}")
    far = f"s3://{bucket}/one_{DAYS[0]}.icechunk"
    jnrrdz.index(f"s3://{bucket}/scenes/s_{DAYS[0]}.tif", far, storage_options=store, target_options=store)
    write_n5(folder / f"vol_{DAYS[0]}.n5", np.arange(64 * 64 * 4, dtype="u2").reshape(64, 64, 4))
    one = {
        "image": image,
        "N5": str(folder / f"vol_{DAYS[0]}.n5"),
        "JSON": str(folder / f"one_{DAYS[0]}.json"),
        "Parquet": str(folder / f"one_{DAYS[0]}.parquet"),
        "Icechunk": str(folder / f"one_{DAYS[0]}.icechunk"),
        "`s3:` Icechunk": far,
    }
    several = {
        what: {
            "folder": f"{folder}/{what}",
            "pattern": f"{folder}/{what}/**/*{ending}",
            "`@list`": f"@{folder}/{what}.txt",
            "`-`": "-",
            "`https:`": f"{what}/s_{DAYS[0]}{ending}",
            "`s3:`": f"s3://{bucket}/{what}/s_{DAYS[0]}{ending}",
            "`s3:…/`": f"s3://{bucket}/{what}/",
            "`s3:…*`": f"s3://{bucket}/{what}/**/*{ending}",
        }
        for what, ending in (("scenes", ".tif"), ("refs", ".json"))
    }
    for what in several:
        listed = [str(path) for path in sorted((folder / what).rglob("s_*"))]
        (folder / f"{what}.txt").write_text("# both\n" + "\n".join(listed) + "\n")
    return Larder(
        folder,
        one | several["scenes"],
        one | several["refs"],
        ("--endpoint-url", seaweed.url, "--region", "us-east-1"),
        {"storage_options": store, "source_options": store},
    )


def write_n5(path, values):
    """Write a container of one data set, x first, by tensorstore."""
    writers.n5_dataset(path / "data", values, [32, 32, 4], "raw")
    writers.n5_attributes(path, n5="4.0.0")


@pytest.fixture
def at(larder, seaweed, make_http_server, monkeypatch, tmp_path):
    """Return a function that gives what a command is to take, and with what on stdin."""
    for name, value in seaweed.environment().items():
        if name != "AWS_ENDPOINT_URL":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("ICECHUNK_LOG", "error")
    monkeypatch.chdir(tmp_path)

    def named(command, kind):
        what = "scenes" if command in OF_IMAGES else "refs"
        source = (larder.images if what == "scenes" else larder.manifests)[kind]
        if kind == "`https:`":
            served = [path for path in larder.folder.rglob("s_*") if path.is_file()]
            files = {f"/{path.relative_to(larder.folder)}": path.read_bytes() for path in served}
            source = f"{make_http_server(files=files).url}/{source}"
        return source, (larder.folder / f"{what}.txt").read_bytes() if kind == "`-`" else b""

    return named


COMMANDS = {
    "index": ["index", "{}", "-o", "out/"],
    "batch": ["batch", "{}", "-o", "out/{{path}}.json"],
    "info": ["info", "{}"],
    "ls": ["ls", "{}"],
    "verify": ["verify", "{}"],
    "merge": ["merge", "{}", "-o", "merged.json", "--concat-dim", "time", "--coord-from", "_([0-9]{{8}})"],
    "cube": ["cube", "{}", "-o", "cube.json", "--time-from", "_([0-9]{{8}})"],
    "refresh": ["refresh", "{}"],
    "convert": ["convert", "{}", "-o", "out/"],
    "preview": ["preview", "{}", "-o", "out/"],
    "tile": ["tile", "{}", "-o", "out.jnrrd", "--tile", "32,32"],
    "codecs --check": ["codecs", "--check", "{}"],
}
SEVERAL = {"folder", "pattern", "`@list`", "`-`", "`s3:…/`", "`s3:…*`"}


def outputs(folder):
    """Return the outputs in a folder: a directory that is a manifest counts as one."""
    inside = re.compile(r"\.(?:parquet|icechunk)/")
    return [path for path in folder.rglob("*.*") if not inside.search(str(path)) and not path.name.startswith(".")]


@pytest.mark.parametrize("case", [case for case in claims() if case[0] != "serve"], ids=lambda case: "-".join(case[:2]))
def test_a_command_takes_what_the_page_claims(larder, at, tmp_path, case):
    command, kind, is_claimed = case
    source, stdin = at(command, kind)
    words = [word.format(source) for word in COMMANDS[command]]
    if command == "tile" and kind == "N5":
        words[-1] = "32,32,4"
    result = CliRunner().invoke(cli, [*words, *larder.options], input=io.BytesIO(stdin))
    told = result.stderr + result.stdout
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if not is_claimed:
        assert result.exit_code in {1, 2, 3}, told
        assert re.search(r"^(?:error: |Error: |failed: )", result.stderr, re.MULTILINE), told
        assert outputs(tmp_path) == []
        return
    assert result.exit_code == 0, told
    count = 2 if kind in SEVERAL else 1
    if command in {"index", "batch", "convert", "preview"}:
        assert len(outputs(tmp_path / "out")) == count
    elif command in {"merge", "cube"}:
        made = {"merge": "merged.json", "cube": "cube.json"}[command]
        nodes = jnrrdz.open_store(made, **larder.access).manifest.documents.nodes()
        (time,) = (node for path, node in nodes.items() if path.rpartition("/")[2] == "time")
        assert time["shape"] == [count]
    elif command in {"info", "verify", "refresh"}:
        mark = {"info": "format  ", "verify": ": fine (", "refresh": ": as it was"}[command]
        assert len(re.findall(re.escape(mark), told)) == count


@pytest.mark.parametrize("kind", [kind for command, kind, is_claimed in claims() if command == "serve" and is_claimed])
def test_serve_takes_what_the_page_claims(larder, at, monkeypatch, kind):
    catalog = pytest.importorskip("jnrrdz.server.catalog")
    source, stdin = at("serve", kind)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    access = Access(**({} if kind == "`https:`" else larder.access))
    served = catalog.Catalog([source], ServeOptions(access=access))
    served.refresh()
    assert len(served.listed) == (2 if kind in SEVERAL else 1)
    for name in served.listed:
        assert "zarr.json" in served.open(name).documents


def test_the_page_has_every_command_and_kind():
    commands = {command for command, _, _ in claims()}
    assert commands == {*COMMANDS, "serve"}
    assert commands == {"codecs --check" if name == "codecs" else name for name in ALL}
    assert all(is_claimed for command, _, is_claimed in claims() if command in {"info", "ls", "verify"})


def test_what_changed_below_a_prefix_is_refreshed_where_it_lies(larder, at, seaweed, bucket):
    at("refresh", "`s3:`")
    store = larder.access["storage_options"]
    for ending in ("json", "icechunk"):
        path = larder.folder / f"changing_{ending}.tif"
        writers.geotiff(path, np.full((64, 64), 3, "u2"), **writers.TILES, **writers.PLACE)
        seaweed.put(bucket, f"a.{ending}.tif", path.read_bytes())
        source, made = f"s3://{bucket}/a.{ending}.tif", f"s3://{bucket}/refs/a.{ending}"
        jnrrdz.index(source, made, storage_options=store, target_options=store)
        writers.geotiff(path, np.full((64, 64), 4, "u2"), **writers.TILES, **writers.PLACE)
        seaweed.put(bucket, f"a.{ending}.tif", path.read_bytes() + b"longer")
    result = CliRunner().invoke(cli, ["verify", "--drift", f"s3://{bucket}/refs/", *larder.options])
    assert (result.exit_code, result.stdout.count("drift")) == (4, 2), result.output
    result = CliRunner().invoke(cli, ["refresh", f"s3://{bucket}/refs/", *larder.options])
    assert (result.exit_code, result.stderr.count("1 of 1 sources scanned again")) == (0, 2), result.output
    for ending in ("json", "icechunk"):
        group = jnrrdz.open_group(f"s3://{bucket}/refs/a.{ending}", **larder.access)
        assert (group["data"][...] == 4).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("folder", "the folder holds no image by its name; a pattern such as 'x/*'"),
        ("manifests", "the folder holds no image, only manifests; jnrrdz convert"),
        ("nothing", "x/*.tif: nothing is found by this pattern"),
        ("list", "names nothing"),
        ("itself", "names nothing"),
        ("manifest", "is a manifest already; jnrrdz convert"),
    ],
)
def test_what_stands_for_nothing_is_told(larder, tmp_path, monkeypatch, make, words):
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    source = "x"
    if make == "manifests":
        os.link(larder.images["JSON"], "x/a.json")
    elif make == "nothing":
        source = "x/*.tif"
    elif make in {"list", "itself"}:
        Path("l.txt").write_text("# nothing\n" if make == "list" else "@l.txt\n")
        source = "@l.txt"
    elif make == "manifest":
        source = larder.images["JSON"]
    result = CliRunner().invoke(cli, ["index", source, "-o", "out/"])
    assert (result.exit_code, words in result.stderr) == (1, True), result.stderr
