"""Without the packages of extras, JSON manifests are written and read, and the other forms name their extra."""

import subprocess
import sys

import numpy as np
import pytest

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.manifests import json as kerchunk_json
from jnrrdz.manifests import parquet as kerchunk_parquet

START = """
import sys
for name in ("pyarrow", "virtualizarr", "icechunk", "obspec_utils", "kerchunk"):
    sys.modules[name] = None
import numpy as np
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.core.codecs import bytes_
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.errors import UnsupportedError
from jnrrdz.manifests.manifest import load, write_form
from jnrrdz.options import WriteOptions
from jnrrdz.parser import to_manifest_store
folder = sys.argv[1]
"""
GROUP = VirtualGroup(
    {
        "data": VirtualArray(
            (300,), np.dtype("u1"), (1,), (bytes_(None),), ChunkRefs.single("/a", np.arange(300), [1] * 300), ("x",)
        )
    }
)


def run(code, folder):
    return subprocess.run(
        [sys.executable, "-c", START + code, str(folder)], check=False, capture_output=True, text=True
    )


def test_json_needs_none(tmp_path):
    kerchunk_json.write(GROUP, str(tmp_path / "r.json"))
    code = """
import jnrrdz
from jnrrdz.manifests.groups import group_from_manifest
text = open(f"{folder}/r.json").read()
group = group_from_manifest(load(f"{folder}/r.json"))
jnrrdz.write(group, f"{folder}/again.json")
assert open(f"{folder}/again.json").read() == text
assert jnrrdz.open_group(f"{folder}/r.json")["data"].shape == (300,)
"""
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("action", "extra"),
    [
        ('write_form(group, f"{folder}/out.parquet", WriteOptions())', "parquet"),
        ('load(f"{folder}/r.parquet")', "parquet"),
        ('write_form(group, f"{folder}/out.icechunk", WriteOptions())', "icechunk"),
        ("to_manifest_store(group)", "virtualizarr"),
    ],
)
def test_other_forms_name_what_to_install(tmp_path, action, extra):
    kerchunk_parquet.write(GROUP, str(tmp_path / "r.parquet"))
    array = 'VirtualArray((1,), np.dtype("u1"), (1,), (bytes_(None),), ChunkRefs.single("/a", [1], [1]), ("x",))'
    code = f"""
group = VirtualGroup({{"data": {array}}})
try:
    {action}
except UnsupportedError as error:
    assert "pip install 'jnrrdz[{extra}]'" in str(error), error
else:
    sys.exit("it is installed")
"""
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
