"""Every chain of codecs behind a new axis, an old one, and in a cube: what is read back is what others see."""

import json

import numpy as np
import pytest

import jnrrdz
from jnrrdz.core.codec_table import all_records, lifted, lowered
from jnrrdz.core.codecs import OSML, SQUEEZE
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.errors import UnrepresentableError
from jnrrdz.formats.jpeg2000 import windows
from jnrrdz.store.pipeline import ReferencePipeline
from tests.commands.stack_kinds import KINDS

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification"),
]

FILES = ["a_20240101", "b_20240102", "c_20240103"]

BY_CHUNK = ["n5 headers read", "jnrrd lz4"]
"""Kinds whose chunks are decoded by their number, which takes them one by one."""


@pytest.mark.parametrize("made", ["jp2 of tiles", "nitf vq", "tiff palette", *BY_CHUNK], indirect=True)
def test_windows_of_stacks_are_read_many_chunks_at_once(made, request, tmp_path, monkeypatch):
    """A stack is read as its members are, and not chunk by chunk in zarr's own way."""
    refs, pixels = made
    jnrrdz.merge(refs, tmp_path / "stack.json", concat_dim="when")
    calls, read_sync = [], ReferencePipeline.read_sync

    def counted(self, *args, **options):
        calls.append(1)
        return read_sync(self, *args, **options)

    monkeypatch.setattr(ReferencePipeline, "read_sync", counted)
    check(image(tmp_path / "stack.json"), np.stack(pixels))
    assert bool(calls) == (request.node.callspec.params["made"] in BY_CHUNK)


@pytest.mark.parametrize("made", ["jp2", "tiff pixels of bands", "tiff deflate", "nitf jpeg 2000"], indirect=True)
def test_a_member_that_changed_is_put_in_again(made, request, tmp_path):
    refs, pixels = made
    ending, write = KINDS[request.node.callspec.params["made"]]
    jnrrdz.merge(refs, tmp_path / "stack.json", concat_dim="when")
    changed = tmp_path / FILES[1] / f"{FILES[1]}.{ending}"
    again = write(changed, 7)
    jnrrdz.refresh(tmp_path / "stack.json")
    check(image(tmp_path / "stack.json"), np.stack([pixels[0], again, pixels[2]]))


NO_PLACE = r"it does not say where it lies|0 images with the axes y, x"
NO_CUBE = [
    name for name in KINDS if name.startswith(("tiff palette", "nitf vq", "n5", "jnrrd", "hdf5", "zarr", "osml"))
]
"""Kinds that have no place on the ground."""


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make images of some hundred samples count as large, so that JPEG 2000 tiles are cut into windows."""
    monkeypatch.setattr(windows, "SIDE", 32)


@pytest.fixture
def made(request, tmp_path):
    """Return three manifests of a kind and the pixels that an independent reader sees."""
    ending, write, *options = KINDS[request.param]
    refs, pixels = [], []
    for seed, name in enumerate(FILES, start=1):
        folder = tmp_path / name
        folder.mkdir()
        path = folder / f"{name}.{ending}"
        pixels.append(np.asarray(write(path, seed)))
        if ending == "json":
            refs.append(path)
            continue
        refs.append(folder / f"{name}.refs.json")
        jnrrdz.index(path, refs[-1], **(options[0] if options else {}))
    return refs, pixels


def image(refs):
    """Return the array at full resolution that a manifest holds."""
    group = jnrrdz.open_group(refs)
    arrays = [node for _, node in sorted(group.members(max_depth=None)) if len(getattr(node, "shape", ())) > 1]
    return arrays[0]


def check(array, expected):
    """Compare all of an array, and a window across its chunks."""
    expected = expected.reshape(array.shape)
    np.testing.assert_array_equal(array[...], expected)
    part = np.s_[-1:, ..., 3:-5, 7:-3]
    np.testing.assert_array_equal(array[part], expected[part])


@pytest.mark.parametrize("made", KINDS, indirect=True)
def test_a_new_axis_and_an_old_one(made, tmp_path):
    refs, pixels = made
    jnrrdz.merge(refs[:2], tmp_path / "new.json", concat_dim="when")
    check(image(tmp_path / "new.json"), np.stack(pixels[:2]))
    jnrrdz.merge(refs[2:], tmp_path / "last.json", concat_dim="when")
    jnrrdz.merge([tmp_path / "new.json", tmp_path / "last.json"], tmp_path / "old.json", concat_dim="when")
    check(image(tmp_path / "old.json"), np.stack(pixels))
    jnrrdz.merge([tmp_path / "old.json"] * 2, tmp_path / "twice.json", concat_dim="run")
    check(image(tmp_path / "twice.json"), np.stack([np.stack(pixels)] * 2))


@pytest.mark.parametrize("made", [name for name in KINDS if name not in NO_CUBE], indirect=True)
def test_a_cube_and_what_is_added_to_it(made, tmp_path):
    refs, pixels = made
    when = {"time_from": r"_(\d{8})[.]"}
    jnrrdz.cube(refs[:2], tmp_path / "cube.json", **when)
    check(image(tmp_path / "cube.json"), np.stack(pixels[:2]))
    jnrrdz.cube(refs[2:], tmp_path / "cube.json", **when, append=True)
    check(image(tmp_path / "cube.json"), np.stack(pixels))


@pytest.mark.parametrize("made", NO_CUBE, indirect=True)
def test_a_cube_of_what_has_no_place_is_refused(made, tmp_path):
    with pytest.raises(UnrepresentableError, match=NO_PLACE):
        jnrrdz.cube(made[0], tmp_path / "cube.json", time_from=r"_(\d{8})[.]")


def test_the_kinds_have_every_codec(tmp_path):
    """A codec that joins the table joins the kinds too."""
    seen = set()
    for number, (ending, write, *options) in enumerate(KINDS.values()):
        path = tmp_path / f"{number}.{ending}"
        write(path, 1)
        codecs = image_codecs(path, options[0] if options else {})
        seen |= {codec["name"] for codec in codecs}
        if codecs[0]["name"] == "sharding_indexed":
            seen |= {codec["name"] for codec in codecs[0]["configuration"]["codecs"]}
    # `reshape` is what stacks get; `scale_offset` is written by others alone
    unseen = {SQUEEZE, "reshape", "scale_offset", f"{OSML}dted"}
    assert all_records().keys() - unseen <= seen


def image_codecs(path, options):
    """Return the codecs as the manifest has them."""
    refs = path
    if path.suffix != ".json":
        refs = path.with_suffix(".refs.json")
        jnrrdz.index(path, refs, **options)
    written = json.loads(refs.read_text())["refs"]
    documents = (json.loads(value) for name, value in sorted(written.items()) if name.endswith("zarr.json"))
    array = next(one for one in documents if one.get("node_type") == "array" and len(one["shape"]) > 1)
    return array["codecs"]


CHAINS = {
    "a transposition behind it": (
        [
            CodecSpec("reshape", {"shape": [[0, 1], [2]]}),
            CodecSpec("transpose", {"order": [1, 0]}),
            CodecSpec("bytes"),
        ],
        3,
    ),
    "jpeg2000": ([CodecSpec("jpeg2000", {})], 2),
    "shards": (
        [
            CodecSpec(
                "sharding_indexed",
                {"chunk_shape": [4, 4], "codecs": [{"name": "jpeg2000"}], "index_codecs": ["bytes"]},
            )
        ],
        2,
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_an_axis_is_taken_off_again(chain):
    codecs, axes = CHAINS[chain]
    once = lifted(codecs, axes)
    twice = lifted(once, axes + 1)
    assert lowered(twice, axes + 1) == once
    assert [one.to_json() for one in lowered(once, axes)] == [one.to_json() for one in codecs]


def test_sizes_are_those_of_a_chunk_with_the_axis_too():
    chain = (CodecSpec("reshape", {"shape": [2, 3]}), CodecSpec("bytes"))
    assert [one.to_json() for one in lifted(chain, 1)] == [one.to_json() for one in chain]


def test_a_codec_without_an_answer_is_refused_by_its_name():
    with pytest.raises(UnrepresentableError, match=r"codec somebody\.fold, of which jnrrdz does not know"):
        lifted([CodecSpec("bytes"), CodecSpec("somebody.fold")], 2)
