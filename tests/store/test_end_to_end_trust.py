"""What a manifest may not reach, through the library's own functions and a real server on the loopback."""

import json

import numpy as np
import pytest
import tifffile

import jnrrdz

SECRET = b"root:x:0:0:root:/root:/bin/sh\n".ljust(64, b"#")
PIXELS = np.arange(64, dtype="u1").reshape(8, 8)


@pytest.fixture
def folder(tmp_path):
    """A TIFF of one raw chunk of 64 bytes, and a file of as many bytes that no manifest should reach."""
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.bin").write_bytes(SECRET)
    tifffile.imwrite(tmp_path / "data" / "a.tif", PIXELS, metadata=None)
    return tmp_path / "data"


@pytest.fixture
def manifest(folder):
    """Return a function to the text of a manifest whose only chunk is that of another URL."""
    jnrrdz.index(folder / "a.tif", folder / "good.json")
    good = (folder / "good.json").read_text()

    def make(url, *, table=None, **members):
        document = json.loads(good)
        document["refs"]["data/c/0/0"] = [url, 0, len(SECRET)]
        document.update(members)
        root = json.loads(document["refs"]["zarr.json"])
        root["attributes"]["jnrrdz"]["sources"] = [{"url": one} for one in table or []]
        document["refs"]["zarr.json"] = json.dumps(root)
        return json.dumps(document).encode()

    return make


def pixels(path, how, **options):
    """Return the array of a manifest, by a group or by a dataset."""
    if how == "group":
        return jnrrdz.open_group(path, **options)["data"][...]
    return jnrrdz.open_dataset(path, mask_and_scale=False, **options)["data"].values


HOW = pytest.mark.parametrize("how", ["group", "dataset"])


def refused(path, how, match=None, **options):
    with pytest.raises(jnrrdz.UntrustedSourceError, match=match):
        pixels(path, how, **options)


@HOW
@pytest.mark.parametrize(
    "spelling",
    ["file://{0}", "{0}", "file:{0}", "local://{0}", "FILE://{0}", "simplecache::file://{0}", "file:///./{0}"],
)
@pytest.mark.parametrize("listed", [False, True])
def test_a_remote_manifest_reaches_no_local_file(  # noqa: PLR0913, PLR0917 - fixtures and three axes of a table
    http_server, manifest, folder, how, spelling, listed
):
    url = spelling.format(folder.parent / "secret.bin")
    http_server.files["/refs.json"] = manifest(url, table=[url] if listed else [])
    refused(f"{http_server.url}/refs.json", how)


@HOW
def test_the_password_file(http_server, manifest, how):
    http_server.files["/refs.json"] = manifest("file:///etc/passwd", table=["file:///etc/passwd"])
    refused(f"{http_server.url}/refs.json", how, "remote manifest names a local file")


@HOW
@pytest.mark.parametrize("url", ["../secret.bin", "x/../../secret.bin", "./../secret.bin", "{0}/../secret.bin"])
def test_a_local_manifest_does_not_climb(manifest, folder, how, url):
    (folder / "refs.json").write_bytes(manifest(url.format(folder)))
    refused(folder / "refs.json", how)
    assert pixels(folder / "refs.json", how, allow=[f"{folder.parent}/"]).tobytes() == SECRET


@HOW
@pytest.mark.parametrize("through", ["file", "folder"])
def test_a_symbolic_link_out_of_the_directory(manifest, folder, how, through):
    if through == "file":
        (folder / "link").symlink_to(folder.parent / "secret.bin")
        url = "link"
    else:
        (folder / "link").symlink_to(folder.parent)
        url = "link/secret.bin"
    (folder / "refs.json").write_bytes(manifest(url, table=[url]))
    refused(folder / "refs.json", how, "secret.bin")


@HOW
def test_a_path_up_on_the_server_of_the_manifest(http_server, manifest, how):
    http_server.files.update({"/dir/refs.json": manifest("../secret.bin"), "/secret.bin": SECRET})
    refused(f"{http_server.url}/dir/refs.json", how)


@HOW
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_redirect_to_this_machine(http_server, make_http_server, manifest, how, host):
    inner = make_http_server(files={"/secret": SECRET})
    http_server.files["/dir/refs.json"] = manifest("a.tif")
    http_server.redirects["/dir/a.tif"] = f"http://{host}:{inner.port}/secret"
    refused(f"{http_server.url}/dir/refs.json", how, "loopback")
    assert inner.log == []


@HOW
def test_a_redirect_to_the_metadata_service(http_server, manifest, how):
    http_server.files["/dir/refs.json"] = manifest("a.tif")
    http_server.redirects["/dir/a.tif"] = "http://169.254.169.254/latest/meta-data/"
    refused(f"{http_server.url}/dir/refs.json", how, "link-local")


@HOW
@pytest.mark.parametrize("table", [False, True])
def test_another_port_of_this_machine(http_server, make_http_server, manifest, how, table):
    inner = make_http_server(files={"/secret": SECRET})
    url = f"{inner.url}/secret"
    http_server.files["/refs.json"] = manifest(url, table=[url] if table else [])
    refused(f"{http_server.url}/refs.json", how, "loopback")
    assert inner.log == []


@HOW
def test_a_template_that_becomes_another_scheme(http_server, manifest, folder, how):
    secret = folder.parent / "secret.bin"
    text = manifest("{{where}}", templates={"where": f"file://{secret}"})
    http_server.files["/refs.json"] = text
    refused(f"{http_server.url}/refs.json", how, "local file")


@HOW
def test_a_template_that_climbs(manifest, folder, how):
    (folder / "refs.json").write_bytes(manifest("{{where}}/secret.bin", templates={"where": ".."}))
    refused(folder / "refs.json", how)


@HOW
def test_what_is_allowed_is_read(http_server, make_http_server, manifest, folder, how):
    inner = make_http_server(files={"/secret": SECRET})
    http_server.files["/refs.json"] = manifest(f"{inner.url}/secret")
    found = pixels(f"{http_server.url}/refs.json", how, allow=[f"{inner.url}/"])
    assert found.tobytes() == SECRET
    (folder / "refs.json").write_bytes(manifest(f"{inner.url}/secret", table=[f"{inner.url}/secret"]))
    with pytest.warns(jnrrdz.UntrustedSourceWarning, match="does not show that who wrote it has seen that"):
        assert pixels(folder / "refs.json", how).tobytes() == SECRET


@HOW
def test_the_manifests_own_directory_is_read(http_server, manifest, folder, how):
    http_server.files.update({"/dir/refs.json": manifest("sub/a.bin"), "/dir/sub/a.bin": SECRET})
    assert pixels(f"{http_server.url}/dir/refs.json", how).tobytes() == SECRET
    (folder / "a.bin").write_bytes(SECRET)
    (folder / "refs.json").write_bytes(manifest("a.bin"))
    assert pixels(folder / "refs.json", how).tobytes() == SECRET
