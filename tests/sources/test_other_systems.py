"""Windows and macOS, as far as Linux can show them: paths and URLs by tables, and a system that lacks POSIX's calls."""

import ntpath
import os
import subprocess
import sys

import numpy as np
import pytest
import tifffile

from jnrrdz.errors import JnrrdzError, UntrustedSourceError
from jnrrdz.sources import url as urls


@pytest.fixture
def windows(monkeypatch):
    """Paths as Windows has them."""
    monkeypatch.setattr(urls, "_system", ntpath)
    urls.parse.cache_clear()
    yield
    urls.parse.cache_clear()


PATHS = [
    ("C:\\data\\a.tif", "C:/data/a.tif", "file:///C:/data/a.tif"),
    ("c:/data/a b.tif", "c:/data/a b.tif", "file:///c:/data/a%20b.tif"),
    ("\\\\server\\share\\a.tif", "//server/share/a.tif", "file://server/share/a.tif"),
    ("D:\\100%\\{{x}}.tif", "D:/100%/{{x}}.tif", "file:///D:/100%25/%7B%7Bx%7D%7D.tif"),
]


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(("path", "slashed", "url"), PATHS)
def test_paths_of_windows_and_their_urls_lead_to_each_other(path, slashed, url):
    assert urls.is_absolute(path)
    assert urls.has_drive(path)
    assert urls.parse(path).scheme == "file"
    assert urls.slashed(urls.local_path(path)) == slashed
    assert urls.file_url(path) == url
    assert urls.local_path(url) == slashed
    assert urls.place(path) == urls.place(url)


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(
    "url", ["https://host/C:/a.tif", "s3://bucket/C:/a.tif", "zip://a::C:/b.zip", "a.tif", "a:b.tif"]
)
def test_what_is_no_path_of_windows_stays_what_it_is(url):
    assert not (urls.has_drive(url) and urls.is_absolute(url))


INSIDE = [
    ("C:\\data\\a.tif", "C:\\data", True),
    ("C:\\Data\\A.tif", "c:\\data", True),
    ("C:\\data\\sub\\a.tif", "C:/data/", True),
    ("C:\\database\\a.tif", "C:\\data", False),
    ("C:\\data\\..\\secret.tif", "C:\\data", False),
    ("D:\\data\\a.tif", "C:\\data", False),
    ("\\\\server\\share\\a.tif", "\\\\server\\share", True),
    ("\\\\other\\share\\a.tif", "\\\\server\\share", False),
    ("C:\\server\\share\\a.tif", "\\\\server\\share", False),
]


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(("path", "folder", "is_inside"), INSIDE)
def test_what_lies_in_a_folder_of_windows(path, folder, is_inside):
    assert urls.place(path).within(urls.place(folder)) is is_inside
    if is_inside:
        urls.require_inside(urls.place(path), urls.place(folder), (), name=path)
    else:
        with pytest.raises(UntrustedSourceError, match="leads out of the folder"):
            urls.require_inside(urls.place(path), urls.place(folder), (), name=path)


def test_a_file_url_with_a_host_is_refused_where_no_host_has_files():
    with pytest.raises(JnrrdzError, match="a file URL on host 'server'"):
        urls.local_path("file://server/share/a.tif")


def test_names_that_differ_in_case_are_two_files_where_the_system_has_two(tmp_path):
    assert not urls.place(f"{tmp_path}/Data/a.tif").within(urls.place(f"{tmp_path}/data"))


CALLS = ["fork register_at_fork", "pread", "link", "O_TMPFILE", "O_CLOEXEC", "O_NOFOLLOW"]

WITHOUT = """
import os, sys
for name in sys.argv[3].split():
    delattr(os, name) if name != "fcntl" else sys.modules.__setitem__("fcntl", None)
import jnrrdz, numpy
source, out = sys.argv[1:3]
jnrrdz.index(source, f"{out}/a.json")
jnrrdz.index(source, f"{out}/a.json", overwrite=True)
jnrrdz.index(source, f"{out}/a.parquet")
try:
    jnrrdz.index(source, f"{out}/a.json")
except jnrrdz.JnrrdzError as error:
    print("refused", "overwrite" in str(error))
for name in ("a.json", "a.parquet"):
    print(int(jnrrdz.open_group(f"{out}/{name}")["data"][...].astype("u8").sum()))
print(jnrrdz.batch(source, f"{out}/batch/{{stem}}.json").ok)
"""


@pytest.mark.parametrize("gone", [*CALLS, "fcntl", " ".join([*CALLS, "fcntl"])])
def test_everything_works_without(tmp_path, gone):
    missing = [name for name in gone.split() if name != "fcntl" and not hasattr(os, name)]
    assert not missing, "this system has none itself"
    pixels = np.arange(80 * 100, dtype="u2").reshape(80, 100)
    tifffile.imwrite(tmp_path / "a.tif", pixels, tile=(16, 16))
    command = [sys.executable, "-c", WITHOUT, tmp_path / "a.tif", tmp_path, gone]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    total = str(int(pixels.sum()))
    assert result.stdout.splitlines() == ["refused True", total, total, "1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.parquet", "a.tif", "batch"]
