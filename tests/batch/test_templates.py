"""What fills a placeholder comes from strangers: it names an output in the template's folder, and no other place."""

import json
import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from fsspec.core import url_to_fs
from hypothesis import given
from hypothesis import strategies as st

from jnrrdz.batches import run
from jnrrdz.batches.item import Found, Template
from jnrrdz.errors import JnrrdzError
from jnrrdz.sources.url import place
from tests.batch.conftest import image

WAYS_OUT = [
    *("~", "~root", "..", ".", "", "/", "//", "\\", "\0", "\n", ":", "::", "://", "%", "%7E", "%3A", "%25", "%2e%2e"),
    *(
        "%2F",
        "file:",
        "local:",
        "memory:",
        "memory://",
        "file://",
        "simplecache::",
        "s3://b",
        "@",
        "?",
        "#",
        "*",
        "[a]",
    ),
    *("{id}", ".ssh", "authorized_keys", "\u202e", "\x1b[2J", "a", "b", " ", "é", "x" * 300),
]
VALUES = st.lists(st.sampled_from(WAYS_OUT) | st.text(max_size=3), max_size=5).map("".join)
TEMPLATES = {
    "{id}.json": "./",
    "{id}": "./",
    "{id}/a.json": "./",
    "x{id}.json": "./",
    "out/{id}.json": "out/",
    "out/{id}": "out/",
    "/out/{id}.json": "/out/",
    "/out/x:{id}:y.json": "/out/",
    "/out/{id}{index}.json": "/out/",
    "~/out/{id}.json": "~/out/",
    "file:/out/{id}.json": "file:/out/",
    "file:///out/{id}.json": "file:///out/",
    "local:///out/{id}": "local:///out/",
    "memory://out/{id}.json": "memory://out/",
    "s3://b/{id}.json": "s3://b/",
    "s3://b/x/{id}": "s3://b/x/",
}
"""Each with the folder that it names."""


def filled(template, value):
    try:
        return Template(template).filled(Found("s3://b/a.tif", names=(("id", value),)), 0)
    except JnrrdzError:
        return None


@given(st.sampled_from(sorted(TEMPLATES)), VALUES, VALUES)
def test_whatever_the_value_the_output_is_in_the_folder(template, value, other):
    output, folder = filled(template, value), TEMPLATES[template]
    if output is None:
        return
    assert place(output).within(place(folder))
    assert place(output) != place(folder)
    if not output.startswith("s3:"):  # fsspec's own view
        (fs, path), (own, top) = url_to_fs(output), url_to_fs(folder)
        assert type(fs) is type(own)
        assert os.path.normpath(path).startswith(os.path.normpath(top).rstrip("/") + "/")
    else:
        assert "::" not in output
    if other != value:
        assert output != filled(template, other)


@given(st.sampled_from(["{stem}.json", "/out/{path}.json", "s3://b/{parent}/{name}.json", "file:/out/{path}"]), VALUES)
def test_whatever_the_source_is_called_the_output_is_in_the_folder(template, name):
    folder = template.partition("{")[0] or "./"
    for found in (Found(f"s3://b/{name}"), Found(f"https://h.org/{quote(name)}"), Found("s3://b/x", path=name)):
        try:
            output = Template(template).filled(found, 0)
        except JnrrdzError:
            continue
        assert place(output).within(place(folder))


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("{collection}/{asset}/{id}", {"collection": "~", "asset": ".ssh", "id": "authorized_keys"}),
        ("{collection}/{id}", {"collection": "file:", "id": "x"}),
        ("{collection}/{asset}/{id}", {"collection": "memory:", "asset": "a", "id": "x"}),
        ("{asset}{id}", {"asset": "simplecache:", "id": ":s3:"}),
        ("{asset}:{id}", {"asset": "simplecache", "id": ":x"}),
        ("{asset}:{id}", {"asset": "file", "id": "~x"}),
    ],
)
def test_values_together_name_no_home_scheme_or_chain(template, values):
    try:
        output = Template(template).filled(Found("s3://b/a.tif", names=tuple(values.items())), 0)
    except JnrrdzError:
        return
    assert place(output).within(place("./"))
    fs, path = url_to_fs(output)
    assert fs.protocol == ("file", "local")
    assert path.startswith(f"{Path.cwd()}/")


@pytest.mark.parametrize("value", ["a@evil", "a:b@evil", "evil:8080", "a b", "..", "~", "-x"])
def test_a_value_that_names_a_bucket_is_a_name(value):
    assert filled("s3://{id}/a.json", value) is None
    assert filled("s3://x{id}/a.json", "good-name.1") == "s3://xgood-name.1/a.json"


@pytest.mark.parametrize("template", ["~{id}/a.json", "~x{id}", "file:~{id}/a", "file://~{id}/a"])
def test_no_value_names_a_user(template):
    with pytest.raises(JnrrdzError, match="a user's home"):
        Template(template)


@pytest.mark.parametrize("template", ["{id}://b/x", "{id}::b/x", "x{id}::b/x", "simplecache::{id}::x", "{id}::{asset}"])
def test_no_value_is_a_scheme(template):
    with pytest.raises(JnrrdzError, match="in place of a scheme"):
        Template(template)


def test_a_value_in_an_archive_is_a_value():
    assert filled("zip://{id}.json::/out/a.zip", "x") == "zip://x.json::/out/a.zip"


def test_usual_names_are_as_they_were():
    for value in ("a-b_c.d", "2024-01-01T12:00:00Z", "100%", "50%20x", "~x", "é", "a::b"):
        assert filled("out/{id}.json", value) == f"out/{value.replace('::', '%3A%3A')}.json"


def test_a_batch_writes_into_its_folder(tmp_path, monkeypatch):
    home = tmp_path / "home"
    work = tmp_path / "work"
    for folder in (home / ".ssh", work / "in"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    names = ["~", "a:b", "a::b", "file:x", "x" * 300]
    links = []
    for number, name in enumerate(names):
        (work / "in" / f"{number}.tif").write_bytes(image(number))
        assets = {".ssh": {"href": f"{number}.tif", "type": "image/tiff"}}
        links.append({"type": "Feature", "id": "authorized_keys", "collection": name, "assets": assets})
    (work / "in" / "items.json").write_text(json.dumps({"type": "FeatureCollection", "features": links}))
    done = run.batch("in/items.json", "{collection}/{asset}/{id}")
    assert (done.ok, done.failed) == (4, 1)
    assert re.search("too long", done.failures[0]["message"])
    assert sorted(path.name for path in work.iterdir()) == ["%7E", "a%3A%3Ab", "a%3Ab", "file%3Ax", "in"]
    assert not list((home / ".ssh").iterdir())
