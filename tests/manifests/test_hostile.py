"""Manifests that are damaged, or made to hurt: whatever they are, they open or are refused with a JnrrdzError."""

import copy
import json
import math
import random
import shutil
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import jnrrdz
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.manifests import json as kerchunk_json
from jnrrdz.manifests import parquet as kerchunk_parquet

VALUES = np.arange(48, dtype="<u2").reshape(6, 8)
MOST_READ = 1 << 20
"""Bytes of chunks that are read of what a mutation made."""

HOSTILE = [
    None,
    True,
    -1,
    0,
    3,
    2**31,
    2**61,
    2**63,
    2**70,
    1e308,
    math.nan,
    math.inf,
    "",
    "a\0b",
    "\ud800",
    "../../x",
    "x" * 5000,
    [],
    {},
    [[]],
    [None],
    {"name": None},
    {"a": {"b": []}},
]


def tree(folder):
    """A group of arrays whose chunks are of every kind: of a file, of several ranges, inline, whole, missing."""
    (folder / "raw.bin").write_bytes(VALUES.tobytes() * 4)
    (folder / "whole.bin").write_bytes(VALUES[:3, :4].tobytes())
    urls = (str(folder / "raw.bin"), str(folder / "whole.bin"))
    rows = [(0, 0, 24), (0, 24, 24), (0, 48, 12), (0, 90, 12)]
    refs = ChunkRefs(
        urls,
        np.array([0, 1, 2, 4, 4]),
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
        {3: VALUES[3:, 4:].tobytes()},
    )
    plain = VirtualArray((6, 8), VALUES.dtype, (3, 4), (bytes_("little"),), refs, dimension_names=("y", "x"))
    zipped = (bytes_("little"), CodecSpec("gzip", {"level": 1}))
    packed = VirtualArray(
        (6, 8), VALUES.dtype, (3, 4), zipped, refs, ("y", "x"), attributes={"axes": {"x": {"step": 2.0}}}
    )
    mapping = VirtualArray(
        (), np.dtype("i8"), (), (bytes_("little"),), ChunkRefs.empty(1), (), attributes={"GeoTransform": "1 2 0 3 0 -2"}
    )
    attributes = {"multiscales": {"layout": [{"asset": "0"}]}}
    level = VirtualGroup({"data": plain, "packed": packed, "spatial_ref": mapping})
    return VirtualGroup({"0": level}, attributes)


def looked_at(manifest):
    """Open a manifest in all ways and read a little of each array."""
    store = jnrrdz.open_store(manifest)
    group = jnrrdz.open_group(manifest)
    for refs in store.manifest.arrays.values():
        assert refs.chunks >= len(refs.present)
    for array in (node for _, node in group.members(max_depth=None) if isinstance(node, zarr.Array)):
        if math.prod(array.chunks) * array.dtype.itemsize <= MOST_READ:
            array[tuple(slice(0, 1) for _ in array.shape)]
    jnrrdz.open_dataset(manifest)


def refused_or_read(manifest):
    """Return what refused a manifest, None where it is read."""
    try:
        looked_at(manifest)
    except JnrrdzError as error:
        return str(error)
    return None


def bent(data, chance):
    """Return bytes with a few of them changed, taken out, repeated or cut."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(6):
            case 0 if at < len(made):
                made[at] = chance.randrange(256)
            case 1 if at < len(made):
                made[at] = chance.choice(b'0123456789"[]{},:\\-e\0')
            case 2:
                del made[at : at + chance.randrange(1, 40)]
            case 3:
                made[at:at] = made[at : at + chance.randrange(1, 40)]
            case 4:
                made[at:at] = chance.randbytes(chance.randrange(1, 8))
            case 5:
                del made[at:]
    return bytes(made)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*path, name))


def twisted(document, chance):
    """Return a document with one value of it replaced, taken out or moved."""
    made = copy.deepcopy(document)
    *way, last = chance.choice([path for path in places(made) if path])
    inner = made
    for name in way:
        inner = inner[name]
    match chance.randrange(5):
        case 0:
            del inner[last]
        case 1 if isinstance(inner, dict):
            inner[chance.choice(("zarr.json", "c/0/0", "a/zarr.json", "\0", "../zarr.json"))] = inner.pop(last)
        case _:
            inner[last] = copy.deepcopy(chance.choice(HOSTILE))
    return made


def unfolded(text):
    """Return references with their documents parsed, so that what is in those is twisted too."""
    top = json.loads(text)
    refs = top["refs"] if "refs" in top else top["metadata"]
    for key in refs:
        if key.endswith("zarr.json") and isinstance(refs[key], str):
            refs[key] = json.loads(refs[key])
    return top


def folded(top):
    """Return the text; documents are texts, as kerchunk writes them, or objects where they were before."""
    return json.dumps(top).encode()


def json_mutants(folder, count, seed):
    chance = random.Random(seed)
    kerchunk_json.write(tree(folder), str(folder / "good.json"))
    lines = (folder / "good.json").read_bytes()
    parsed = unfolded(lines)
    one_line = folded({"version": 1, "templates": {"u": "x"}, "refs": json.loads(lines)["refs"]})
    for _ in range(count):
        match chance.randrange(3):
            case 0:
                yield folded(twisted(parsed, chance))
            case 1:
                yield bent(lines, chance)
            case 2:
                yield bent(one_line, chance)


@pytest.mark.filterwarnings("ignore")
def test_damaged_json(tmp_path):
    refusals, target = set(), tmp_path / "refs.json"
    for mutant in json_mutants(tmp_path, 1500, 1):
        target.write_bytes(mutant)
        refusals.add(refused_or_read(target))
    assert len(refusals) > 50
    assert None in refusals


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("depth", [500, 950, 1000, 5000, 200_000])
@pytest.mark.parametrize("inside", ["attributes", "consolidated_metadata"])
def test_values_in_values_without_end(tmp_path, depth, inside):
    kerchunk_json.write(tree(tmp_path), str(tmp_path / "refs.json"))
    top = json.loads((tmp_path / "refs.json").read_text())
    document = {**json.loads(top["refs"]["zarr.json"]), inside: {"metadata": {"0": {"deep": "@@"}}}}
    deep = '{"a":' * depth + "1" + "}" * depth
    top["refs"]["zarr.json"] = json.dumps(document).replace('"@@"', deep)
    (tmp_path / "refs.json").write_text(json.dumps(top))
    refused_or_read(tmp_path / "refs.json")
    top["refs"]["zarr.json"] = "@@@"
    (tmp_path / "refs.json").write_text(
        json.dumps(top).replace('"@@@"', json.dumps(document).replace('"@@"', deep)), "utf-8"
    )
    refused_or_read(tmp_path / "refs.json")


def parquet_mutants(folder, count, seed):
    """Yield directories of which one file is damaged."""
    chance = random.Random(seed)
    good = folder / "good.parq"
    kerchunk_parquet.write(tree(folder), str(good), record_size=3)
    documents = (good / ".zmetadata").read_bytes()
    files = [".zmetadata", "0/data/refs.0.parq", "0/data/refs.1.parq"]
    for number in range(count):
        name = chance.choice(files)
        target = folder / f"{number}.parq"
        shutil.copytree(good, target)
        is_twisted = name == ".zmetadata" and chance.random() < 0.7
        made = folded(twisted(unfolded(documents), chance)) if is_twisted else bent((good / name).read_bytes(), chance)
        (target / name).write_bytes(made)
        yield target
        shutil.rmtree(target)


@pytest.mark.filterwarnings("ignore")
def test_damaged_parquet(tmp_path):
    refusals = {refused_or_read(target) for target in parquet_mutants(tmp_path, 80, 2)}
    assert len(refusals) > 15


def parquet_of(folder, columns, **written):
    """Write a manifest of one array whose record has these columns."""
    array = VirtualArray((8,), np.dtype("u1"), (1,), (bytes_(None),), ChunkRefs.empty(8), dimension_names=("x",))
    target = folder / "refs.parq"
    kerchunk_parquet.write(VirtualGroup({"data": array}), str(target))
    record = target / "data" / "refs.0.parq"
    pq.write_table(pa.table(columns), record, compression="zstd", **written)
    assert record.stat().st_size < 200_000
    return target


def rows(count, **columns):
    nothing = {"path": pa.nulls(count, pa.string()), "offset": np.zeros(count, "i8"), "size": np.zeros(count, "i8")}
    return {**nothing, "raw": pa.nulls(count, pa.binary()), **columns}


LONG = b"x" * (1 << 20)


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        (rows(1, raw=pa.array([LONG * 80], pa.binary())), {}),
        (rows(1, path=pa.array([(LONG * 80).decode()])), {}),
        (rows(90, raw=pa.array([LONG] * 90, pa.binary())), {"use_dictionary": False}),
        (
            rows(200, raw=pa.array([LONG] * 200, pa.binary())),
            {"use_dictionary": False, "column_encoding": {"raw": "DELTA_BYTE_ARRAY"}},
        ),
        (rows(1 << 23), {"use_dictionary": ["offset", "size"], "row_group_size": 1 << 23}),
    ],
    ids=["a large value", "a large path", "large values", "values that repeat the last", "rows of nothing"],
)
def test_a_record_that_makes_much_of_little_is_refused(tmp_path, columns, written):
    store = jnrrdz.open_store(parquet_of(tmp_path, columns, **written))
    tracemalloc.start()
    try:
        with pytest.raises(JnrrdzError, match=r"refs\.0\.parq"):
            store.manifest.arrays["data"].lookup(0)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_value_of_many_rows_is_there_once(tmp_path):
    values = pa.array([LONG] * 8, pa.binary())
    refs = jnrrdz.open_store(parquet_of(tmp_path, rows(8, raw=values))).manifest.arrays["data"]
    found = [refs.lookup(chunk) for chunk in range(8)]
    assert found == [LONG] * 8
    assert len({id(data) for data in found}) == 1


def test_a_dictionary_that_says_more_values_than_it_has_is_refused(tmp_path):
    paths = pa.array([f"{number:09}" for number in range(9000)])
    target = parquet_of(tmp_path, rows(9000, path=paths), use_dictionary=["path"])
    record = target / "data" / "refs.0.parq"
    data = bytearray(record.read_bytes())
    said = bytes((0xD0, 0x8C, 0x01))  # 9000, zigzag
    at = data.index(said)
    data[at : at + 3] = bytes((0xFE, 0xFF, 0x7F))
    record.write_bytes(data)
    with pytest.raises(MalformedError, match="a page that says that it has more than"):
        jnrrdz.open_store(target).manifest.arrays["data"].lookup(0)


def test_a_footer_that_contradicts_itself_does_not_end_the_process(tmp_path):
    """Arrow's objects for columns end it: `terminate called after throwing an instance of ParquetException`."""
    target = parquet_of(tmp_path, rows(8, path=pa.array(["a"] * 8)))
    record = target / "data" / "refs.0.parq"
    good = record.read_bytes()
    chance = random.Random(3)
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    for _ in range(60):
        data = bytearray(good)
        data[chance.randrange(footer, len(good))] = chance.randrange(256)
        record.write_bytes(data)
        refused_or_read(target)
