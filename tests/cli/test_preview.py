"""`jnrrdz preview`: what it writes and says, and its codes."""

import imagecodecs
import numpy as np
import pytest
from PIL import Image

import jnrrdz


def test_a_picture(cog, run, tmp_path, pixels):
    done = run("preview", cog, "-o", "out.png", "--size", "32")
    assert done.stdout == ""
    assert done.stderr.startswith("out.png: ")
    shown = imagecodecs.png_decode((tmp_path / "out.png").read_bytes())
    assert max(shown.shape[:2]) == 32
    again = run("preview", cog, "-o", "out.png", code=1)
    assert "exists" in again.stderr
    run("preview", cog, "-o", "out.png", "--overwrite", "--size", "500")
    assert max(imagecodecs.png_decode((tmp_path / "out.png").read_bytes()).shape[:2]) == max(np.shape(pixels)[-2:])
    with Image.open(tmp_path / "out.png") as opened:
        assert opened.text == {"Software": "jnrrdz"}


def test_a_picture_of_others_is_never_replaced(cog, run, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "out.png")
    photo = (tmp_path / "out.png").read_bytes()
    assert "is not replaced" in run("preview", cog, "-o", "out.png", "--overwrite", code=1).stderr
    with pytest.raises(jnrrdz.JnrrdzError, match="is not replaced"):
        jnrrdz.preview(cog).save(tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes() == photo


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--bands", "red", "such as 4,3,2"),
        ("--bands", "9", "the image has 1 band"),
        ("--at", "z", "such as t=0,z=12"),
        ("--at", "q=1", "no axis q"),
        ("--size", "0", "1 to 16384"),
        ("--stretch", "high", "min,max"),
    ],
)
def test_wrong_usage(cog, run, option, value, words):
    done = run("preview", cog, "-o", "out.png", option, value, code=2)
    assert words in done.stderr


def test_to_stdout(cog, run):
    assert imagecodecs.png_decode(run("preview", cog, "-o", "-", "--size", "16").stdout_bytes).shape[-1] == 4
