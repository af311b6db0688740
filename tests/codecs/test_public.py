"""`jnrrdz.codecs`: every codec class by its name, the one that zarr finds, none imported before it is asked for."""

import subprocess
import sys
from importlib.metadata import distribution

import pytest

import jnrrdz.codecs

ENTRIES = [entry for entry in distribution("jnrrdz").entry_points if entry.group == "zarr.codecs"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_zarr_finds_can_be_imported_by_name(entry):
    name = entry.value.rpartition(":")[2]
    assert getattr(jnrrdz.codecs, name) is entry.load()
    assert name in jnrrdz.codecs.__all__
    assert name in dir(jnrrdz.codecs)


def test_every_public_name_is_a_codec_of_zarr_or_helps_one():
    helpers = {"TiffHeader", "tiff_header"}
    assert set(jnrrdz.codecs.__all__) - helpers == {entry.value.rpartition(":")[2] for entry in ENTRIES}
    assert all(getattr(jnrrdz.codecs, name).__module__ == "jnrrdz.formats.tiff.header" for name in helpers)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="TiffCodec"):
        jnrrdz.codecs.TiffCodec  # noqa: B018  asking for it is what fails


def test_importing_the_package_imports_no_codec():
    code = "import sys, jnrrdz.codecs; sys.exit('zarr' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
