"""Modules and libraries that are imported where they are first used."""

import subprocess
import sys

import pytest

from jnrrdz import commands
from jnrrdz.lazy import library


def printed(code):
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_package_imports_a_module_where_it_is_used():
    code = (
        "import sys; from jnrrdz import commands; "
        "print('jnrrdz.commands.convert' in sys.modules); commands.convert.convert; "
        "print('jnrrdz.commands.convert' in sys.modules, 'jnrrdz.commands.cube' in sys.modules)"
    )
    assert printed(code) == "False\nTrue False\n"


def test_a_name_that_is_none_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'jnrrdz.commands' has no attribute 'mosaic'"):
        commands.mosaic  # noqa: B018  asked for


@pytest.mark.parametrize("room", ["commands", "manifests", "store", "batches", "formats"])
def test_every_name_of_a_package_is_there(room):
    package = __import__(f"jnrrdz.{room}", fromlist=["x"])
    assert all(getattr(package, name) is not None for name in package.__all__)


def test_a_library_is_imported_with_its_first_member():
    code = (
        "import sys; from jnrrdz.lazy import library; colours = library('colorsys'); "
        "print('colorsys' in sys.modules); print(colours.rgb_to_hsv(1, 0, 0), 'colorsys' in sys.modules)"
    )
    assert printed(code) == "False\n(0.0, 1.0, 1) True\n"


def test_a_library_that_is_missing_is_an_import_error_where_it_is_used():
    missing = library("no_such_library")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        missing.anything  # noqa: B018  asked for
