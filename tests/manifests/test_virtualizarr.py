import numpy as np
import pytest
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnrepresentableError
from jnrrdz.parser import to_manifest_store


def group(children, **more):
    built = {name: group(child) if isinstance(child, dict) else child for name, child in children.items()}
    return VirtualGroup(built, **more)


def local():
    return ObjectStoreRegistry({"file://": LocalStore()})


def test_zarr_reads_every_kind_of_chunk_through_the_store(tree):
    children, seen = tree
    opened = zarr.open_group(to_manifest_store(group(children, attributes={"k": 1}), local()), mode="r")
    assert opened.attrs["k"] == 1
    for path, values in seen.items():
        np.testing.assert_array_equal(opened[path][...], values)


def test_the_manifest_is_virtualizarrs(source):
    array, _ = source.array(np.arange(12, dtype="<u2").reshape(2, 6), (2, 2), missing={1}, inline={2})
    store = to_manifest_store(VirtualGroup({"data": array}))
    virtual = store.to_virtual_dataset()
    assert virtual["data"].dims == ("y", "x")
    assert virtual.attrs["jnrrdz"]["sources"] == [{"url": source.url}]
    uri, offset, length = f"file://{source.path}", *array.refs.ranges(0)[0][1:]
    entries = virtual["data"].data.manifest.dict()
    assert entries["0.0"] == {"path": uri, "offset": offset, "length": length}
    assert sorted(entries) == ["0.0", "0.2"]
    assert virtual["data"].data.manifest._paths[0].tolist() == [uri, "", "__inlined__"]  # noqa: SLF001 - what to_icechunk reads
    assert entries["0.2"]["data"] == np.array([[4, 5], [10, 11]], "<u2").tobytes()


def test_a_scattered_chunk_is_refused_or_its_span(source):
    array, _ = source.array(np.arange(8, dtype="<u2"), (4,), scattered={1})
    root = VirtualGroup({"data": array})
    with pytest.raises(UnrepresentableError, match=r"data, chunk 1: .*--single-range"):
        to_manifest_store(root)
    (first, second) = array.refs.ranges(1)
    entry = to_manifest_store(root, single_range=True).to_virtual_dataset()["data"].data.manifest.dict()["1"]
    assert (entry["offset"], entry["length"]) == (second[1], first[1] + first[2] - second[1])


@pytest.mark.parametrize("url", ["/data/a#b.tif", "https://host/a.tif?signature=1"])
def test_urls_that_virtualizarr_cuts_short_are_refused(url):
    array = VirtualArray((1,), np.dtype("u1"), (1,), (bytes_(None),), ChunkRefs.single(url, [1], [1]), ("x",))
    with pytest.raises(UnrepresentableError, match="`\\?` or `#`"):
        to_manifest_store(VirtualGroup({"data": array}))
