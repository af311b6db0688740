"""The options of the commands, and the keywords of the functions of the same names."""

import inspect
from dataclasses import fields

import click
import fsspec
import pytest

import jnrrdz
from jnrrdz.cli import COMMANDS, cli
from jnrrdz.cli.options import Reach

ALL = Reach("p", "http://e", "r", no_sign_request=True, requester_pays=True)
GIVEN = {
    "profile": "p",
    "endpoint_url": "http://e",
    "client_kwargs": {"region_name": "r"},
    "anon": True,
    "requester_pays": True,
}


@pytest.mark.parametrize(
    ("access", "url", "options"),
    [
        (Reach(), "s3://b/k", None),
        (ALL, "s3://b/k", GIVEN),
        (ALL, "S3A://b/k", GIVEN),
        (Reach(profile="p"), "s3://b/k", {"profile": "p"}),
        (ALL, "/data/s3/k", None),
        (ALL, "https://s3.amazonaws.com/b/k", None),
        (ALL, "zip://a.tif::s3://b/k.zip", {"s3": GIVEN}),
        (ALL, "zip://a.tif::https://h/k.zip", None),
    ],
)
def test_options(access, url, options):
    assert access.options(url) == options


@pytest.mark.parametrize("url", ["s3://b/k", "simplecache::s3://b/k"])
def test_s3fs_takes_them(url):
    access = Reach(endpoint_url="http://127.0.0.1:1", region="r", no_sign_request=True, requester_pays=True)
    fs, _ = fsspec.core.url_to_fs(url, **access.options(url))
    inner = getattr(fs, "fs", fs)
    assert (inner.endpoint_url, inner.client_kwargs["region_name"], inner.anon) == ("http://127.0.0.1:1", "r", True)
    assert inner.req_kw == {"RequestPayer": "requester"}


FUNCTIONS = {name: getattr(jnrrdz, name) for name in COMMANDS if name not in {"codecs", "ls"}}
"""The commands with a function; what codecs are installed, and a listing, are no work of the library's."""

CONSOLE = {"as_json", "quiet", "verbose"}
S3 = {"profile", "endpoint_url", "region", "no_sign_request", "requester_pays"}
"""They become `storage_options`, `source_options` and `target_options`."""

OTHER_NAMES = {
    "templates": "template_overrides",
    "output": "out",
    "every": "attributes",
    "rules": "rewrite_prefix",
    "tile_sizes": "tile",
    "latest": "by",
    "host": "hosts",
}
"""Options that Python has under another name."""

NAMES = {"names", "sources", "refs", "src", "out"}
"""What is read and written; Python's functions take one, and `serve` calls its hosts `names`."""

OTHER_FUNCTIONS = {
    "info": {"stac": "stac_item", "datetime": "stac_item", "time_from": "stac_item", "band_from": "stac_item"},
    "index": {"in_place": "api.index_in_place", "remove": "api.remove_in_place"},
}

FOR_TERMINALS = {
    "preview": {"output", "overwrite"},  # Picture.save
    "refresh": {"if_any"},
    "verify": {"if_any"},
    "serve": {"workers"},  # processes
}

FOR_PROGRAMS = {
    "batch": {"selection", "on_outcome"},  # the fields of a selection are options
    "merge": {"names"},  # of virtual groups
    "preview": {"most_bytes"},
    "serve": {"cache_bytes"},
    "tile": {"progress"},
    "verify": {"sample"},
}
"""Keywords without an option."""

SCANNING = {"info", "preview"}
"""Commands that show sources without the options of a scan; `jnrrdz index` writes a manifest with them."""


def options_of(name):
    command = cli.get_command(click.Context(cli), name)
    return {option.name for option in command.params} - CONSOLE - S3


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_option_is_a_keyword(name):
    keywords = set(inspect.signature(FUNCTIONS[name]).parameters)
    if name == "batch":
        keywords |= {field.name for field in fields(jnrrdz.Selection)}
    options = options_of(name) - FOR_TERMINALS.get(name, set()) - OTHER_FUNCTIONS.get(name, {}).keys() - NAMES
    assert {OTHER_NAMES.get(option, option) for option in options} <= keywords


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_keyword_is_an_option(name):
    function = inspect.signature(FUNCTIONS[name])
    keywords = set(function.parameters) - NAMES - FOR_PROGRAMS.get(name, set())
    keywords -= {"storage_options", "source_options", "target_options"}
    if name in SCANNING:
        keywords -= inspect.signature(jnrrdz.scan).parameters.keys() - {"allow"}
    assert keywords <= {OTHER_NAMES.get(option, option) for option in options_of(name)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_option_and_its_keyword_have_the_same_default(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    command = cli.get_command(click.Context(cli), name)
    defaults = command.make_context(name, [], resilient_parsing=True).params
    nothing = ((), None, "", {})
    for option in command.params:
        if not isinstance(option, click.Option) or option.name not in parameters or option.required:
            continue
        python, default = parameters[option.name].default, defaults[option.name]
        is_same = default == python or (default in nothing and python in nothing)
        assert is_same or (name, option.name) in OTHER_DEFAULTS, (option.name, default, python)


OTHER_DEFAULTS = {
    ("serve", "port"),  # a command has an address that people remember
}
