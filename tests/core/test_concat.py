import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.core.arrays import SourceRecord, VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.concat import Concatenation
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import ChunkRefs, joined, with_tables
from jnrrdz.core.tree import VirtualGroup, tree_json
from jnrrdz.errors import UnrepresentableError
from jnrrdz.formats.tiff.codecs import TiffTileConfig

AFFINE = "500000.0 10.0 0.0 5000000.0 0.0 -10.0"
CODEC = TiffTileConfig(4, 4, 6, 8, compression=8, bits_per_sample=(16,))
WKT = 'PROJCRS["{}",BASEGEOGCRS["WGS 84"]]'


def concat(groups, dim, coordinate=None, *, names=None, **choices):
    """Groups of the same form as one, with `coordinate`'s values (one a group) along the axis `dim`."""
    whole = Concatenation(dim)
    labels = names or [f"group {number}" for number in range(len(groups))]
    for group, name, value in zip(groups, labels, coordinate or [None] * len(groups), strict=True):
        whole.add(group, name, value)
    return whole.finish(**choices).group


def refs_of(rows, inline=(), unused=()):
    """References from a list of ranges for each chunk."""
    urls = list(dict.fromkeys([*unused, *(url for row in rows for url, _, _ in row)]))
    flat = [one for row in rows for one in row]
    return ChunkRefs(
        tuple(urls),
        np.cumsum([0, *map(len, rows)]),
        np.array([urls.index(url) for url, _, _ in flat], np.int32),
        np.array([offset for _, offset, _ in flat], np.int64),
        np.array([length for _, _, length in flat], np.int64),
        dict(inline),
    )


def seen(refs):
    """What every chunk is, told one by one."""
    return [refs.inline.get(chunk, refs.ranges(chunk)) for chunk in range(refs.chunks)]


def image(url, **more):
    rows = [[(url, 100 * chunk, 10 + chunk)] for chunk in range(4)]
    facts = {
        "shape": (8, 6),
        "dtype": np.dtype("u2"),
        "chunks": (4, 4),
        "codecs": (CODEC,),
        "refs": refs_of(rows),
        "dimension_names": ("y", "x"),
        "fill_value": np.uint16(7),
        "attributes": {"grid_mapping": "spatial_ref", "statistics": url},
    }
    return VirtualArray(**{**facts, **more})


def mapping(wkt="WGS 84 / UTM zone 33N", affine=AFFINE, **more):
    attributes = {"crs_wkt": WKT.format(wkt), "GeoTransform": affine}
    return VirtualArray(
        (), np.dtype("i8"), (), (bytes_("little"),), ChunkRefs.empty(1), (), np.int64(0), {**attributes, **more}
    )


def axis(name, values):
    data = np.array(values, "<i8")
    refs = refs_of([[]], {0: data.tobytes()})
    size = (len(values),)
    return VirtualArray(size, data.dtype, size, (bytes_("little"),), refs, (name,), np.int64(0), {})


def scene(url, *, array=None, where=None, attributes=None, **children):
    nodes = {"data": array or image(url), "spatial_ref": where or mapping(), **children}
    return VirtualGroup(nodes, attributes or {"title": url, "creator": "us"}, (SourceRecord(url, 1000, f'"{url}"'),))


# References

CELL = st.one_of(
    st.just([]),
    st.binary(max_size=3),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3),
)


@st.composite
def grids(draw):
    """Parts of one grid, as arrays of cells, the axis, and maybe an order along it."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    along = draw(st.integers(0, len(shape) - 1))
    parts = []
    for size in draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)):
        cells = np.empty((*shape[:along], size, *shape[along + 1 :]), object)
        for index in np.ndindex(cells.shape):
            cells[index] = draw(CELL)
        parts.append(cells)
    total = sum(part.shape[along] for part in parts)
    return parts, along, draw(st.one_of(st.none(), st.permutations(range(total)).map(np.array)))


@given(grids())
def test_joined_references_are_those_of_the_joined_cells(case):
    parts, along, turn = case
    flat = [list(part.ravel()) for part in parts]
    refs = [
        refs_of(
            [cell if isinstance(cell, list) else [] for cell in cells],
            {number: cell for number, cell in enumerate(cells) if isinstance(cell, bytes)},
            unused=("unused",),
        )
        for cells in flat
    ]
    whole = np.concatenate(parts, along)
    turned = whole if turn is None or not turn.size else whole.take(turn, along)
    found = joined(refs, [part.shape for part in parts], along, None if turn is None or not turn.size else turn)
    assert seen(found) == list(turned.ravel())
    used = {url for cell in turned.ravel() if isinstance(cell, list) for url, _, _ in cell}
    assert set(found.sources) == used


def test_tables_stand_before_every_stream_and_no_marker_is_there_twice():
    refs = refs_of([[("a", 100, 50)], [], [("a", 200, 60)]], {1: b"\xff\xd8inline\xff\xd9"})
    found = with_tables(refs, "a", 10, b"\xff\xd8tables\xff\xd9")
    assert seen(found) == [
        [("a", 10, 8), ("a", 102, 48)],
        b"\xff\xd8tablesinline\xff\xd9",
        [("a", 10, 8), ("a", 202, 58)],
    ]


@pytest.mark.parametrize("refs", [refs_of([[("b", 0, 50)]]), refs_of([[("a", 0, 2)]])], ids=["elsewhere", "no stream"])
def test_tables_of_another_file_are_refused(refs):
    with pytest.raises(UnrepresentableError, match="not whole JPEG streams"):
        with_tables(refs, "a", 10, b"\xff\xd8tables\xff\xd9")


# A new axis


def test_arrays_get_an_axis_and_the_grid_mapping_does_not():
    found = concat([scene("b"), scene("a")], "time", [20, 10])
    data, where, time = found.children["data"], found.children["spatial_ref"], found.children["time"]
    assert (data.shape, data.chunks, data.dimension_names) == ((2, 8, 6), (1, 4, 4), ("time", "y", "x"))
    assert (data.codecs, data.fill_value, data.dtype) == ((CODEC,), 7, np.dtype("u2"))
    assert seen(data.refs) == seen(image("a").refs) + seen(image("b").refs)
    assert (where.shape, where.attributes) == ((), mapping().attributes)
    assert np.frombuffer(time.refs.inline[0], "<i8").tolist() == [10, 20]
    assert [record.url for record in found.sources] == ["a", "b"]
    assert found.sources[0] == SourceRecord("a", 1000, '"a"')
    assert list(tree_json(found)) == ["zarr.json", "data/zarr.json", "spatial_ref/zarr.json", "time/zarr.json"]


def test_every_level_gets_the_axis_and_its_coordinate():
    pyramids = [VirtualGroup({"0": scene(url), "1": scene(url)}, {"ome": {"axes": "yx"}}) for url in "ab"]
    found = Concatenation("time")
    for number, pyramid in enumerate(pyramids):
        found.add(pyramid, str(number), number)
    done = found.finish()
    assert [path for path, _ in done.group.arrays()] == [
        f"{level}/{name}" for level in "01" for name in ("data", "spatial_ref", "time")
    ]
    assert done.group.attributes == {}
    assert done.dropped == ("/: ome", "0: title", "0/data: statistics", "1: title", "1/data: statistics")


def test_common_attributes_stay_and_others_are_listed():
    found = Concatenation("time")
    for url, extra in {"a": {}, "b": {"late": 1}, "c": {}}.items():
        found.add(scene(url, attributes={"creator": "us", "gain": np.float32(2), "title": url, **extra}), url)
    done = found.finish()
    assert done.group.attributes == {"creator": "us", "gain": 2.0}
    assert done.group.children["data"].attributes == {"grid_mapping": "spatial_ref"}
    assert done.dropped == ("/: late", "/: title", "data: statistics")
    assert "time" not in done.group.children


def test_coordinates_of_an_axis_have_to_be_equal_and_are_kept_once():
    bands = [scene(url, array=image(url), band=axis("band", [1, 2])) for url in "ab"]
    assert seen(concat(bands, "time").children["band"].refs) == [np.array([1, 2]).tobytes()]
    with pytest.raises(UnrepresentableError, match="has other values in band"):
        concat([*bands, scene("c", band=axis("band", [1, 3]))], "time")


LIFTED = {
    "transpose": ({"order": [1, 0]}, {"order": [0, 2, 1]}),
    "jnrrdz.linear": ({"scale": [2.0], "offset": [1.0], "axis": 0}, {"scale": [2.0], "offset": [1.0], "axis": 1}),
    "scale_offset": ({"scale": 2.0}, {"scale": 2.0}),
}


@pytest.mark.parametrize(("name", "before", "after"), [(name, *both) for name, both in LIFTED.items()])
def test_codecs_that_tell_of_axes_tell_of_the_same_ones(name, before, after):
    codecs = [(CodecSpec(name, members), bytes_("little")) for members in (before, after)]
    found = concat([scene(url, array=image(url, codecs=codecs[0])) for url in "ab"], "time")
    assert found.children["data"].codecs == codecs[1]


def test_labels_are_an_attribute_that_is_read_again():
    found = concat([scene("b"), scene("a")], "sensor", ["S2B", "S2A"])
    assert found.attributes["sensor_labels"] == ["S2A", "S2B"]
    again = concat([found, concat([scene("c")], "sensor", ["S1A"])], "sensor")
    assert again.attributes["sensor_labels"] == ["S1A", "S2A", "S2B"]
    assert [record.url for record in again.sources] == ["c", "a", "b"]


# What does not fit

OTHERS = {
    "shape": (scene("c", array=image("c", shape=(8, 5))), "has the shape 8 x 5 in data, not 8 x 6$"),
    "type": (
        scene("c", array=image("c", dtype=np.dtype("i2"), fill_value=np.int16(7))),
        "has int16 in data, not uint16$",
    ),
    "chunks": (
        scene("c", array=image("c", chunks=(4, 3))),
        "has chunks of 4 x 3 in data, not 4 x 4$",
    ),
    "fill value": (scene("c", array=image("c", fill_value=np.uint16(0))), "has the fill value 0 in data, not 7"),
    "dimensions": (
        scene("c", array=image("c", dimension_names=("x", "y"))),
        "has the dimensions x, y in data, not y, x",
    ),
    "codec": (
        scene("c", array=image("c", codecs=(TiffTileConfig(4, 4, 6, 8, 5, bits_per_sample=(16,)),))),
        "has the codec tiff-tile, byte_order |has the codec tiff-tile, compression ",
    ),
    "codecs": (
        scene("c", array=image("c", codecs=(bytes_("big"),))),
        "has the codecs bytes in data, not tiff-tile$",
    ),
    "units": (
        scene("c", array=image("c", attributes={"units": "m", "grid_mapping": "spatial_ref"})),
        "has the units 'm' in data, not none",
    ),
    "place of an array": (
        scene("c", array=image("c", attributes={"proj:code": "EPSG:1", "grid_mapping": "spatial_ref"})),
        "has the proj:code 'EPSG:1' in data, not none",
    ),
    "CRS": (
        scene("c", where=mapping("WGS 84 / UTM zone 34N")),
        "is in WGS 84 / UTM zone 34N, not WGS 84 / UTM zone 33N",
    ),
    "affine": (scene("c", where=mapping(affine="0 1 0 0 0 1")), "has pixels of 1 x 1, not |lies elsewhere: "),
    "place": (
        scene("c", attributes={"spatial:shape": [1, 2]}),
        r"has the spatial:shape \[1, 2\] in the group, not none",
    ),
    "names": (VirtualGroup({"image": image("c"), "spatial_ref": mapping()}), "holds image, not data"),
    "a codec without its configuration": (
        scene("c", array=image("c", codecs=(CodecSpec("sharding_indexed", {"chunk_shape": [4, 4]}),))),
        "sharding_indexed has no configuration of its kind",
    ),
    "an unknown codec": (
        scene("c", array=image("c", codecs=(CodecSpec("somebody.fold"), bytes_("little")))),
        "codec somebody.fold, of which jnrrdz does not know how it reads chunks with one more axis",
    ),
    "a twin of the coordinate": (scene("c", time=mapping()), "time: stands where the coordinate of 'time' belongs"),
}


@pytest.mark.parametrize(("other", "text"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("place", [0, 2])
def test_what_does_not_fit_is_told_wherever_it_stands(other, text, place):
    groups, names = [scene("a"), scene("b")], ["a.tif", "b.tif"]
    groups.insert(place, other)
    names.insert(place, "c.tif")
    with pytest.raises(UnrepresentableError, match=f"1 of 3 does not fit the others: c.tif.*({text})"):
        concat(groups, "time", names=names)
    left = concat(groups, "time", [3, 1, 2], names=names, skip_mismatched=True)
    assert left.children["data"].shape == (2, 8, 6)
    assert {record.url for record in left.sources} == {"a", "b"}


def test_all_that_do_not_fit_are_told_together_and_each_by_itself():
    found = Concatenation("time")
    for name in "abc":
        found.add(scene(name), name)
    found.add(OTHERS["shape"][0], "d")
    found.refuse("e", "cannot be taken")
    with pytest.raises(UnrepresentableError, match=r"2 of 5 do not fit the others: e: cannot be taken \| d has the sh"):
        found.finish()
    done = found.finish(skip_mismatched=True)
    assert (done.names, [item.name for item in done.left_out]) == (("a", "b", "c"), ["e", "d"])


def test_one_bands_description_may_differ_and_several_bands_may_not():
    def named(url, names):
        return scene(url, array=image(url, attributes={"band_names": names}))

    assert "band_names" not in concat([named("a", ["May"]), named("b", ["June"])], "time").children["data"].attributes
    with pytest.raises(UnrepresentableError, match="the band_names"):
        concat([named("a", ["r", "g"]), named("b", ["g", "r"])], "time")


def bands(url, names, **attributes):
    rows = [[(url, 100 * chunk, 10)] for chunk in range(4 * len(names))]
    shape, chunks, dims = (len(names), 8, 6), (1, 4, 4), ("band", "y", "x")
    own = {"band_names": names, "scales": [1.0] * len(names), **attributes}
    array = image(url, shape=shape, chunks=chunks, dimension_names=dims, refs=refs_of(rows), attributes=own)
    return scene(url, array=array)


def test_what_bands_are_called_follows_them():
    found = concat([bands("a", ["r", "g"], statistics=[{}, {}]), bands("b", ["nir"])], "band").children["data"]
    assert found.shape == (3, 8, 6)
    assert found.attributes == {"band_names": ["r", "g", "nir"], "scales": [1.0, 1.0, 1.0]}
    turned = concat([bands("a", ["r", "g"]), bands("b", ["nir"])], "band", None, keep_order=True)
    assert turned.children["data"].attributes["band_names"] == ["r", "g", "nir"]


def test_jpeg_tables_that_differ_are_refused_where_they_stand_nowhere():
    def tiles(url, tables):
        config = TiffTileConfig(4, 4, 6, 8, 7, bits_per_sample=(8,), jpeg_tables=tables)
        return scene(url, array=image(url, codecs=(config,)))

    same = concat([tiles("a", b"1"), tiles("b", b"1")], "time").children["data"]
    assert same.codecs[0].configuration["jpeg_tables"] == "MQ=="
    with pytest.raises(UnrepresentableError, match="data: the files' JPEG tables differ"):
        concat([tiles("a", b"1"), tiles("b", b"2")], "time")


def test_a_source_in_two_states_is_refused():
    late = replace(scene("a"), sources=(SourceRecord("a", 1001),))
    with pytest.raises(UnrepresentableError, match=r"a: scanned in two states"):
        concat([scene("a"), late], "time")


def test_nothing_to_put_together_is_an_error():
    with pytest.raises(UnrepresentableError, match="nothing to put together"):
        concat([], "time")
    with pytest.raises(UnrepresentableError, match="no array in group 0"):
        concat([VirtualGroup({"spatial_ref": mapping()})], "time")


# Coordinates


def test_coordinates_that_are_there_twice_are_refused_unless_the_order_is_kept():
    groups = [scene(name) for name in "abc"]
    with pytest.raises(
        UnrepresentableError, match=r"several images have the same coordinate: 5 of a and c; --keep-order"
    ):
        concat(groups, "time", [5, 1, 5], names="abc")
    kept = concat(groups, "time", [5, 1, 5], keep_order=True)
    assert np.frombuffer(kept.children["time"].refs.inline[0], "<i8").tolist() == [5, 1, 5]
    assert [record.url for record in kept.sources] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "values", [[1, None], [1, "a"], [1.0, math.nan], [np.datetime64("NaT", "s"), np.datetime64(0, "s")]]
)
def test_coordinates_of_several_kinds_are_refused(values):
    with pytest.raises(UnrepresentableError):
        concat([scene("a"), scene("b")], "time", values)


# An axis that is there already


def series(url, times, *, step=1, place=0):
    """A scene with several times; chunks hold `step` of them, `place` is where the axis stands."""
    counts = [math.ceil(len(times) / step), 2, 2]
    counts.insert(place, counts.pop(0))
    names, shape, chunks = ["y", "x"], [8, 6], [4, 4]
    for sizes, own in ((names, "time"), (shape, len(times)), (chunks, step)):
        sizes.insert(place, own)
    rows = [[(url, 100 * number, 10)] for number in range(math.prod(counts))]
    array = image(
        url, shape=tuple(shape), chunks=tuple(chunks), dimension_names=tuple(names), codecs=(bytes_("little"),),
        refs=refs_of(rows),
    )  # fmt: skip
    return scene(url, array=array, time=axis("time", times))


def cells(array):
    found = np.empty(array.refs.chunks, object)
    found[:] = [tuple(row) for row in seen(array.refs)]
    return found.reshape(array.grid)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_axis_is_continued_wherever_it_stands(place):
    parts = {"b": [5, 6, 7], "a": [1, 2]}
    groups = [series(url, times, place=place) for url, times in parts.items()]
    found = concat(groups, "time")
    data = found.children["data"]
    expected = np.concatenate([cells(groups[1].children["data"]), cells(groups[0].children["data"])], place)
    assert (cells(data) == expected).all()
    assert data.shape[place] == 5
    assert np.frombuffer(found.children["time"].refs.inline[0], "<i8").tolist() == [1, 2, 5, 6, 7]


def test_overlapping_series_are_interleaved():
    a, b = series("a", [1, 4], place=1), series("b", [3, 2], place=1)
    found = concat([a, b], "time")
    planes = [cells(group.children["data"])[:, number] for group, number in ((a, 0), (b, 1), (b, 0), (a, 1))]
    assert (cells(found.children["data"]) == np.stack(planes, 1)).all()
    assert np.frombuffer(found.children["time"].refs.inline[0], "<i8").tolist() == [1, 2, 3, 4]


def test_only_the_last_series_may_end_within_a_chunk():
    even, short = series("a", [1, 2], step=2), series("b", [3], step=2)
    found = concat([short, even], "time").children["data"]
    assert (found.shape, found.grid) == ((3, 8, 6), (2, 2, 2))
    assert (cells(found) == np.concatenate([cells(even.children["data"]), cells(short.children["data"])])).all()
    with pytest.raises(UnrepresentableError, match="chunks of 2 along 'time' do not divide the length of b"):
        concat([even, series("b", [0], step=2)], "time", names="ab")


REFUSED = {
    "two coordinates": ([series("a", [1]), series("b", [2])], [1, 2], "has coordinates along 'time' already"),
    "overlap in chunks": (
        [series("a", [1, 4], step=2), series("b", [2, 3], step=2)],
        None,
        "whose coordinates overlap",
    ),
    "too few coordinates": (
        [scene("a", array=series("a", [1, 2]).children["data"], time=axis("time", [1]))],
        None,
        "of different lengths",
    ),
    "coordinates elsewhere": (
        [scene("a", time=replace(axis("time", [1]), refs=refs_of([[("a", 0, 8)]])))],
        None,
        "coordinates that are not numbers in the manifest itself",
    ),
}


@pytest.mark.parametrize(("groups", "values", "text"), REFUSED.values(), ids=REFUSED)
def test_series_that_cannot_be_continued_are_refused(groups, values, text):
    with pytest.raises(UnrepresentableError, match=text):
        concat(groups, "time", values)


def test_many_groups_take_no_object_for_each_chunk():
    rows = list(itertools.repeat([("a", 0, 1)], 4))
    group = scene("a", array=image("a", refs=refs_of(rows)))
    found = concat([group] * 2000, "time", range(2000)).children["data"]
    assert found.refs.sources == ("a",)
    assert found.refs.indptr.tolist() == list(range(8001))
