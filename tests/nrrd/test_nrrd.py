"""Classic NRRD as pynrrd and ITK write it, and as headers by hand have it."""

import bz2
import gzip

import nrrd
import numpy as np
import pytest
import SimpleITK

import jnrrdz
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError, UntrustedSourceError

SHAPE = (5, 7, 11)

# pynrrd writes the time with a deprecated call
pytestmark = [
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:encoding .*any window of it costs:UserWarning"),
]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def numbers(shape=SHAPE, dtype="u2"):
    return np.random.default_rng(3).integers(0, 200, shape).astype(dtype)


def read(name, **choices):
    return jnrrdz.open_group(name, **choices)["data"]


@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2"])
@pytest.mark.parametrize("name", ["a.nrrd", "a.nhdr"])
@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "<u2", ">u4", "<i8", ">f4", "<f8"])
def test_as_pynrrd_writes_and_reads(encoding, name, dtype):
    nrrd.write(name, numbers(dtype=dtype), {"encoding": encoding}, index_order="C")
    expected, header = nrrd.read(name, index_order="C")
    found = read(name)
    np.testing.assert_array_equal(found[...], expected)
    assert found.shape == tuple(header["sizes"][::-1])
    assert found.metadata.dimension_names == ("z", "y", "x")


@pytest.mark.parametrize("axes", [1, 2, 3, 4, 5])
def test_as_many_axes_as_there_are(axes):
    pixels = numbers((2, 3, 4, 5, 6)[:axes], "i4")
    nrrd.write("a.nrrd", pixels, {"encoding": "raw"}, index_order="C")
    np.testing.assert_array_equal(read("a.nrrd")[...], pixels)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["a.nrrd", "a.nhdr"])
@pytest.mark.parametrize("kind", ["uint8", "int16", "float32", "float64", "vector"])
def test_as_itk_writes_and_reads(compressed, name, kind):
    pixels = numbers((*SHAPE, 3), "f4") if kind == "vector" else numbers(dtype=kind)
    image = SimpleITK.GetImageFromArray(pixels, isVector=kind == "vector")
    image.SetSpacing((0.5, 0.75, 2.0))
    image.SetOrigin((-10.0, 20.0, 30.5))
    SimpleITK.WriteImage(image, name, useCompression=compressed)
    found = read(name)
    np.testing.assert_array_equal(found[...], SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(name)))
    names = ("z", "y", "x", "c") if kind == "vector" else ("z", "y", "x")
    assert found.metadata.dimension_names == names
    if kind == "vector":  # OME-Zarr has channels before space only
        return
    (multiscale,) = jnrrdz.open_group(name).attrs["ome"]["multiscales"]
    scale, translation = multiscale["datasets"][0]["coordinateTransformations"]
    assert scale["scale"][:3] == [2.0, 0.75, 0.5]
    assert translation["translation"][:3] == [30.5, 20.0, -10.0]


def written(name, lines, data=b""):
    with open(name, "wb") as file:  # noqa: PTH123
        file.write("\n".join(["NRRD0005", *lines, "", ""]).encode() + data)
    return name


BASE = {"type": "uint16", "dimension": "2", "sizes": "6 4", "encoding": "raw", "endian": "little"}


def header(**changes):
    fields = BASE | {key.replace("_", " "): value for key, value in changes.items()}
    return [f"{name}: {value}" for name, value in fields.items() if value is not None]


@pytest.mark.parametrize(
    ("fields", "wrap"),
    [
        ({}, bytes),
        ({"byte_skip": "7"}, lambda data: bytes(7) + data),
        ({"line_skip": "2"}, lambda data: b"one\ntwo\r\n" + data),
        ({"line_skip": "1", "byte_skip": "3"}, lambda data: b"one\nabc" + data),
        ({"byte_skip": "-1"}, lambda data: b"whatever" + data),
        ({"encoding": "gz"}, gzip.compress),
        ({"encoding": "bz2"}, bz2.compress),
        ({"encoding": "gzip", "byte_skip": "5"}, lambda data: gzip.compress(bytes(5) + data)),
        ({"encoding": "gzip", "line_skip": "1"}, lambda data: b"text\n" + gzip.compress(data)),
    ],
)
@pytest.mark.parametrize("detached", [False, True])
def test_what_stands_before_the_data(fields, wrap, detached):
    pixels = numbers((4, 6), "<u2")
    data = wrap(pixels.tobytes())
    if detached:
        with open("a.raw", "wb") as file:  # noqa: PTH123
            file.write(data)
        written("a.nhdr", header(**fields, data_file="a.raw"))
    else:
        written("a.nrrd", header(**fields), data)
    np.testing.assert_array_equal(read("a.nhdr" if detached else "a.nrrd")[...], pixels)


@pytest.mark.parametrize("before", [b"", b"abcde"])
def test_a_skip_from_the_end_of_what_gzip_holds(before):
    pixels = numbers((4, 6), "<u2")
    written("a.nrrd", header(encoding="gzip", byte_skip="-1"), gzip.compress(before + pixels.tobytes()))
    found = read("a.nrrd")[...]
    np.testing.assert_array_equal(found, nrrd.read("a.nrrd", index_order="C")[0])
    np.testing.assert_array_equal(found, SimpleITK.GetArrayFromImage(SimpleITK.ReadImage("a.nrrd")))


def test_a_skip_from_the_end_that_cannot_be_counted():
    pixels = numbers((4, 6), "<u2")
    written("a.nrrd", header(encoding="bzip2", byte_skip="-1"), bz2.compress(pixels.tobytes()))
    with pytest.raises(UnsupportedError, match="bzip2, which does not record") as caught:
        read("a.nrrd")
    assert caught.value.field == "byte skip"
    written("b.nrrd", header(encoding="gzip", byte_skip="-1"), gzip.compress(pixels.tobytes()[:-2]))
    with pytest.raises(MalformedError, match="cannot become") as short:
        read("b.nrrd")
    assert short.value.field == "sizes"
    # the last of two gzip members records its own length only
    members = gzip.compress(b"abc") + gzip.compress(pixels.tobytes())
    written("c.nrrd", header(encoding="gzip", byte_skip="-1"), members)
    with pytest.raises(JnrrdzError):
        read("c.nrrd")[...]


def test_text_as_pynrrd_writes_it_is_refused_by_its_encoding():
    nrrd.write("a.nrrd", numbers(dtype="i2"), {"encoding": "ascii"})
    with pytest.raises(UnsupportedError, match=r"'ascii' stores numbers as text.*raw") as caught:
        read("a.nrrd")
    assert caught.value.field == "encoding"


@pytest.mark.parametrize(
    ("data_file", "names", "parts"),
    [
        ("p%02d.raw 0 3 1", ["p00.raw", "p01.raw", "p02.raw", "p03.raw"], 4),
        ("p%d.raw 6 0 -2", ["p6.raw", "p4.raw", "p2.raw", "p0.raw"], 4),
        ("p%d.raw 1 2 1 2", ["p1.raw", "p2.raw"], 2),
        ("LIST\nb.raw\na.raw\nd.raw\nc.raw", ["b.raw", "a.raw", "d.raw", "c.raw"], 4),
        ("LIST 2\nb.raw\na.raw", ["b.raw", "a.raw"], 2),
    ],
)
@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_several_files(data_file, names, parts, encoding):
    pixels = numbers((4, 6), "<u2")
    for name, part in zip(names, np.split(pixels, parts), strict=True):
        with open(name, "wb") as file:  # noqa: PTH123
            file.write(gzip.compress(part.tobytes()) if encoding == "gzip" else part.tobytes())
    with open("a.nhdr", "w") as file:  # noqa: PTH123
        file.write("\n".join(["NRRD0005", *header(encoding=encoding), f"data file: {data_file}"]) + "\n")
    np.testing.assert_array_equal(read("a.nhdr")[...], pixels)


def test_crlf_comments_pairs_and_other_spellings():
    pixels = numbers((4, 6), "<u2")
    text = (
        "NRRD0004\r\n# a comment\r\nTYPE: unsigned short\r\ndimension: 2\r\nsizes: 6 4\r\nencoding: RAW\r\n"
        'endian: LITTLE\r\ncontent: a: b\r\nmy key:=one\\ntwo\r\nlabels: "col" "row"\r\nunits: "mm" "a \\"b\\""\r\n\r\n'
    )
    with open("a.nrrd", "wb") as file:  # noqa: PTH123
        file.write(text.encode() + pixels.tobytes())
    found = read("a.nrrd")
    np.testing.assert_array_equal(found[...], pixels)
    assert found.metadata.dimension_names == ("row", "col")
    about = jnrrdz.open_group("a.nrrd").attrs["nrrd"]
    assert about["content"] == "a: b"
    assert about["key_values"] == {"my key": "one\ntwo"}


def test_a_large_volume_is_cut_into_slabs():
    pixels = numbers((64, 128, 256), "<u2")
    nrrd.write("a.nrrd", pixels, {"encoding": "raw"}, index_order="C")
    found = read("a.nrrd")
    assert found.chunks[1:] == (128, 256)
    assert 1 < found.nchunks <= 64
    np.testing.assert_array_equal(found[17:19, 3], pixels[17:19, 3])


def test_compressed_data_warn_of_their_windows():
    nrrd.write("a.nrrd", np.zeros((64, 256, 256), "u2"), {"encoding": "gzip"}, index_order="C")
    with pytest.warns(UserWarning, match="reading and inflating the whole"):
        assert read("a.nrrd").nchunks == 1


def test_time_and_colours_have_names():
    written(
        "a.nrrd", header(type="uint8", dimension="4", sizes="3 5 4 2", kinds="RGB-color domain domain time"), bytes(120)
    )
    assert read("a.nrrd").metadata.dimension_names == ("t", "y", "x", "c")


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"type": None}, MalformedError, "type"),
        ({"type": "quad"}, MalformedError, "type"),
        ({"type": "block", "block_size": "3"}, UnsupportedError, "type"),
        ({"dimension": None}, MalformedError, "dimension"),
        ({"dimension": "3"}, MalformedError, "sizes"),
        ({"dimension": "0"}, MalformedError, "dimension"),
        ({"dimension": "two"}, MalformedError, "dimension"),
        ({"sizes": None}, MalformedError, "sizes"),
        ({"sizes": "6 -4"}, MalformedError, "sizes"),
        ({"sizes": "6 0"}, MalformedError, "sizes"),
        ({"sizes": "6 4.5"}, MalformedError, "sizes"),
        ({"sizes": "6 100000"}, MalformedError, "sizes"),
        ({"sizes": "1000000000 1000000000"}, MalformedError, "sizes"),
        ({"endian": None}, MalformedError, "endian"),
        ({"endian": "middle"}, MalformedError, "endian"),
        ({"encoding": None}, MalformedError, "encoding"),
        ({"encoding": "ascii"}, UnsupportedError, "encoding"),
        ({"encoding": "txt"}, UnsupportedError, "encoding"),
        ({"encoding": "hex"}, UnsupportedError, "encoding"),
        ({"encoding": "zrl"}, UnsupportedError, "encoding"),
        ({"byte_skip": "-2"}, MalformedError, "byte skip"),
        ({"line_skip": "99"}, MalformedError, "line skip"),
        ({"labels": '"a"'}, MalformedError, "labels"),
        ({"labels": "a b"}, MalformedError, "labels"),
        ({"spacings": "1 x"}, MalformedError, "spacings"),
        ({"space_directions": "(1,0) (0,1)"}, MalformedError, "space directions"),
        ({"space": "nowhere"}, MalformedError, "space"),
        ({"space_dimension": "2", "space_directions": "(1,0,0) (0,1,0)"}, MalformedError, "space directions"),
        ({"space_dimension": "2", "space_origin": "(1,0) (2,0)"}, MalformedError, "space origin"),
        ({"data_file": "gone.raw"}, MalformedError, "data file"),
        ({"data_file": "../outside.raw"}, UntrustedSourceError, "data file"),
        ({"data_file": "/etc/passwd"}, UntrustedSourceError, "data file"),
        ({"data_file": "a%d.raw 0 9999999 1"}, MalformedError, "data file"),
        ({"data_file": "a%d.raw 0 9 0"}, MalformedError, "data file"),
        ({"data_file": "a%s.raw 0 9 1"}, MalformedError, "data file"),
        ({"data_file": "LIST 9\na.raw"}, MalformedError, "data file"),
    ],
)
def test_what_is_refused_is_named(fields, error, field):
    written("a.nrrd", header(**fields), bytes(48))
    with pytest.raises(error, match="a\\.nrrd") as caught:
        read("a.nrrd")
    assert caught.value.field == field


@pytest.mark.parametrize(
    "data", [b"NRRD0004\n", b"NRRD0004\ntype: uint8\n", b"NRRD0004\n" + b"x" * 100, b"NRRD0004\n\n"]
)
def test_headers_that_end_early(data):
    with open("a.nrrd", "wb") as file:  # noqa: PTH123
        file.write(data)
    with pytest.raises(JnrrdzError, match="a\\.nrrd"):
        read("a.nrrd")


def test_truncated_gzip_is_an_error_and_no_zeros():
    pixels = numbers((4, 6), "<u2")
    written("a.nrrd", header(encoding="gzip"), gzip.compress(pixels.tobytes())[:-12])
    with pytest.raises((JnrrdzError, ValueError, EOFError, RuntimeError)):
        read("a.nrrd")[...]


def test_a_link_beside_the_header_leads_no_other_name_astray(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.raw").write_bytes(bytes(range(12)))
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere" / "x")
    head = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 4 3 2\nencoding: raw\ndata file: LIST\na.raw\nb.raw\n"
    (tmp_path / "h.nhdr").write_text(head)
    assert jnrrdz.open_group(tmp_path / "h.nhdr")["data"][...].ravel().tolist() == [*range(12)] * 2
