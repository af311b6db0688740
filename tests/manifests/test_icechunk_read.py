"""Icechunk repositories read: what icechunk and zarr wrote and read by themselves is what is seen here."""

import os
import pickle

import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr

import jnrrdz
from jnrrdz.core.arrays import SourceRecord
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import DriftError, JnrrdzError, UnrepresentableError, UntrustedSourceError
from jnrrdz.manifests.icechunk_read import in_recorded_order
from jnrrdz.sources.local import validators_of
from tests.manifests.test_icechunk import group
from tests.servers.fixtures import bucket, seaweed
from tests.writers import tiff_bytes

icechunk = pytest.importorskip("icechunk")

__all__ = ["bucket", "seaweed"]


def storage(target):
    return icechunk.local_filesystem_storage(str(target))


def committed(storage, message="one", **settings):
    """Return a repository that zarr has written native and inline chunks to, and what it holds."""
    repository = icechunk.Repository.create(storage, **settings)
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="w", attributes={"made": "by zarr"})
    large = np.random.default_rng(3).integers(0, 60000, (90, 70)).astype("u2")
    root.create_array("a/large", data=large, chunks=(40, 40), dimension_names=("y", "x"))
    root.create_array("small", data=np.arange(6, dtype="i4"), chunks=(2,), dimension_names=("n",))
    session.commit(message)
    return repository, {"a/large": large, "small": np.arange(6)}


def check(found, seen):
    for path, values in seen.items():
        np.testing.assert_array_equal(found[path][...], values)


@pytest.mark.parametrize("version", [1, 2])
def test_what_zarr_wrote_into_either_version_of_the_format(tmp_path, version):
    _, seen = committed(storage(tmp_path / "r"), spec_version=version)
    found = jnrrdz.open_group(tmp_path / "r")
    check(found, seen)
    assert found.attrs["made"] == "by zarr"
    assert any((tmp_path / "r/chunks").iterdir())  # there are native chunks


def test_every_kind_of_reference_is_as_icechunk_reads_it(tree, tmp_path):
    children, seen = tree
    jnrrdz.write(group(children, attributes={"k": 1}), tmp_path / "r.icechunk")
    found = jnrrdz.open_group(tmp_path / "r.icechunk", allow=[str(tmp_path)])
    check(found, seen)
    assert found.attrs["k"] == 1


def test_xarray_opens_a_repository_without_a_word(tmp_path):
    _, seen = committed(storage(tmp_path / "anything"))
    with xr.open_dataset(tmp_path / "anything") as found:
        np.testing.assert_array_equal(found["large"], seen["a/large"])  # the image, not the list beside it
    with xr.open_datatree(tmp_path / "anything") as tree:
        np.testing.assert_array_equal(tree["a/large"], seen["a/large"])


def on_s3(seaweed, bucket, prefix):
    """Return where Icechunk itself finds a repository on the server."""
    options = seaweed.options()
    return icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix,
        region="us-east-1",
        endpoint_url=seaweed.url,
        allow_http=True,
        force_path_style=True,
        access_key_id=options["key"],
        secret_access_key=options["secret"],
    )


def test_a_repository_on_s3(seaweed, bucket, monkeypatch):
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    options = seaweed.options(client_kwargs={"region_name": "us-east-1"})
    place = on_s3(seaweed, bucket, "p/r.icechunk")
    _, seen = committed(place)
    check(jnrrdz.open_group(f"s3://{bucket}/p/r.icechunk", storage_options=options), seen)
    with pytest.raises(JnrrdzError, match=r"p/none\.icechunk: Icechunk: "):
        jnrrdz.open_group(f"s3://{bucket}/p/none.icechunk", storage_options=options)


def test_versions_by_branch_tag_and_snapshot(tmp_path):
    repository, seen = committed(storage(tmp_path / "r"))
    first = repository.lookup_branch("main")
    repository.create_tag("v1", first)
    repository.create_branch("dev", first)
    for branch, value in (("main", 7), ("dev", 9)):
        session = repository.writable_session(branch)
        zarr.open_group(session.store)["small"][:] = value
        session.commit("two")
    where = str(tmp_path / "r")
    for version, expected in (("", 7), ("@branch.main", 7), ("@branch.dev", 9)):
        assert (jnrrdz.open_group(where + version)["small"][:] == expected).all()
    for version in ("@tag.v1", f"@{first}"):
        check(jnrrdz.open_group(where + version), seen)
    with pytest.raises(JnrrdzError, match="no branch 'other'; there are dev, main"):
        jnrrdz.open_group(f"{where}@branch.other")
    with pytest.raises(JnrrdzError, match="no tag 'v2'; there are v1"):
        jnrrdz.open_group(f"{where}@tag.v2")


def test_a_store_keeps_its_snapshot_where_it_is_sent(tmp_path):
    repository, seen = committed(storage(tmp_path / "r"))
    sent = pickle.dumps(jnrrdz.open_store(tmp_path / "r"))
    session = repository.writable_session("main")
    zarr.open_group(session.store)["small"][:] = 7
    session.commit("two")
    check(zarr.open_group(pickle.loads(sent), mode="r"), seen)
    assert (jnrrdz.open_group(tmp_path / "r")["small"][:] == 7).all()


def test_a_branch_is_written_to_and_a_tag_is_not(source, tmp_path):
    older, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    newer, changed = source.array(np.arange(50, 58, dtype="<u2"), (4,))
    where = str(tmp_path / "r.icechunk")
    jnrrdz.write(VirtualGroup({"data": older}), where)
    repository = icechunk.Repository.open(storage(where))
    repository.create_branch("dev", repository.lookup_branch("main"))
    repository.create_tag("v1", repository.lookup_branch("main"))
    jnrrdz.write(VirtualGroup({"data": newer}), f"{where}@branch.dev", overwrite=True)
    check(jnrrdz.open_group(where, allow=[str(tmp_path)]), {"data": seen})
    check(jnrrdz.open_group(f"{where}@branch.dev", allow=[str(tmp_path)]), {"data": changed})
    with pytest.raises(UnrepresentableError, match="a tag and a snapshot stay what they are"):
        jnrrdz.write(VirtualGroup({"data": newer}), f"{where}@tag.v1", overwrite=True)


def test_an_array_that_was_made_smaller_has_no_chunk_outside(tmp_path):
    repository, seen = committed(storage(tmp_path / "r"))
    session = repository.writable_session("main")
    zarr.open_group(session.store)["a/large"].resize((40, 40))
    session.commit("smaller")
    check(jnrrdz.open_group(tmp_path / "r"), {"a/large": seen["a/large"][:40, :40]})


def test_groups_come_in_the_order_of_their_numbers(source, tmp_path):
    array, _ = source.array(np.arange(8, dtype="<u2"), (4,))
    jnrrdz.write(group({f"image_{n}": {"data": array} for n in range(12)}), tmp_path / "r.icechunk")
    manifest = jnrrdz.open_store(tmp_path / "r.icechunk").manifest
    assert [path for path in manifest.documents.nodes() if "/" not in path and path] == [
        f"image_{n}" for n in range(12)
    ]


def test_a_source_that_changed_is_an_error(source, tmp_path):
    array, seen = source.array(np.arange(8, dtype="<u2"), (4,))
    state = validators_of(source.path.stat())
    record = SourceRecord(source.url, size=state.size, modified=state.modified)
    jnrrdz.write(VirtualGroup({"data": array}, sources=(record,)), tmp_path / "r.icechunk")
    check(jnrrdz.open_group(tmp_path / "r.icechunk"), {"data": seen})
    source.path.write_bytes(source.data + b"more")
    with pytest.raises(DriftError):
        jnrrdz.open_group(tmp_path / "r.icechunk")["data"][:]
    (finding,) = jnrrdz.verify(tmp_path / "r.icechunk", drift=True).findings
    assert finding.kind == "drift"


def virtual(storage, location, path):
    """Write a repository as others do, whose one chunk is a range of a file, without a table of sources."""
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(location, icechunk.local_filesystem_store("/")))
    session = icechunk.Repository.create(storage, config).writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(4,), chunks=(4,), dtype="u1", compressors=None)
    session.store.set_virtual_ref("a/c/0", f"{location}{path}", offset=0, length=4)
    session.commit("one")
    return array


def test_a_repository_without_a_table_reaches_its_own_folder_and_what_is_allowed(tmp_path):
    for folder in ("home", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f.bin").write_bytes(b"\1\2\3\4")
        location = f"{(tmp_path / folder).as_uri()}/"
        virtual(storage(tmp_path / "home" / f"{folder}.icechunk"), location, "f.bin")
    assert jnrrdz.open_group(tmp_path / "home/home.icechunk")["a"][:].tolist() == [1, 2, 3, 4]
    away = tmp_path / "home/elsewhere.icechunk"
    with pytest.raises(UntrustedSourceError, match="outside of its directory"):
        jnrrdz.open_group(away)["a"][:]
    assert jnrrdz.open_group(away, allow=[str(tmp_path / "elsewhere")])["a"][:].tolist() == [1, 2, 3, 4]
    (finding, *_) = jnrrdz.verify(away).findings
    assert finding.kind == "trust"


@pytest.fixture
def published(seaweed, bucket, monkeypatch):
    """A repository of a TIFF in the same bucket, and the pixels: what the page on Icechunk tells of S3."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    pixels = np.random.default_rng(5).integers(0, 60000, (90, 70)).astype("u2")
    seaweed.put(bucket, "images/scene.tif", tiff_bytes(pixels, tile=(32, 32)))
    options = seaweed.options(client_kwargs={"region_name": "us-east-1"})
    target = f"s3://{bucket}/refs/scene.icechunk"
    jnrrdz.index(f"s3://{bucket}/images/scene.tif", target, storage_options=options, target_options=options)
    return bucket, pixels


def read_by_icechunk(seaweed, bucket, credentials):
    """Return the pixels as the page has Icechunk and zarr read them, without a call of jnrrdz."""
    place = on_s3(seaweed, bucket, "refs/scene.icechunk")
    prefixes = list(icechunk.Repository.open(place).config.virtual_chunk_containers)
    allowed = icechunk.containers_credentials(dict.fromkeys(prefixes, credentials))
    repository = icechunk.Repository.open(place, authorize_virtual_chunk_access=allowed)
    store = repository.readonly_session("main").store
    return prefixes, xr.open_dataset(store, engine="zarr", consolidated=False)["data"].values


def test_icechunk_reads_a_source_on_s3_with_credentials_of_the_reader(seaweed, published, monkeypatch):
    bucket, pixels = published
    options = seaweed.options()
    for name, value in seaweed.environment().items():
        monkeypatch.setenv(name, value)
    given = icechunk.s3_credentials(access_key_id=options["key"], secret_access_key=options["secret"])
    for credentials in (given, icechunk.s3_credentials(from_env=True)):
        prefixes, found = read_by_icechunk(seaweed, bucket, credentials)
        assert prefixes == [f"s3://{bucket}/images/"]
        np.testing.assert_array_equal(found, pixels)


def test_icechunk_without_leave_reads_no_source_on_s3(seaweed, published):
    bucket, _ = published
    with pytest.raises(icechunk.IcechunkError):
        read_by_icechunk(seaweed, bucket, icechunk.s3_credentials(anonymous=True))


def test_the_order_of_nodes_is_that_of_the_file(tmp_path):
    """Icechunk lists names by the alphabet; the first image of a file is opened."""
    groups = {}
    for name, value in [("whole", 5), ("part_10", 6), ("part_2", 7)]:
        tifffile.imwrite(tmp_path / f"{name}.tif", np.full((16, 16), value, "u1"))
        groups[name] = jnrrdz.scan(tmp_path / f"{name}.tif")
    sources = tuple(record for one in groups.values() for record in one.sources)
    jnrrdz.write(VirtualGroup(groups, {}, sources), tmp_path / "a.icechunk")
    with pytest.warns(jnrrdz.ImageChoiceWarning, match="whole is opened"):
        found = jnrrdz.open_dataset(tmp_path / "a.icechunk")
    assert set(np.unique(found["data"])) == {5}
    tree = jnrrdz.open_datatree(tmp_path / "a.icechunk")
    assert list(tree.children) == list(jnrrdz.open_datatree(VirtualGroup(groups, {}, sources)).children)


@pytest.mark.parametrize("recorded", [None, 3, {"": 3}, {"": ["b", 4, ["c"], "b", "gone"]}])
def test_an_order_that_is_none_leaves_names_by_number(recorded):
    names = in_recorded_order(["b10", "b2", "a"], recorded, "")
    assert names == ["a", "b2", "b10"]


def test_names_that_are_not_recorded_come_last():
    assert in_recorded_order(["a", "b", "c"], {"": ["c", "a"]}, "") == ["c", "a", "b"]
