"""What repeats in a TIFF and in its texts: a scan takes time in proportion to how often."""

import contextlib
import struct

import numpy as np
import pytest

import jnrrdz
from jnrrdz.formats.tiff.pages import Pages
from jnrrdz.formats.tiff.structure import TiffLayout
from tests.growth import assert_linear

ASCII, SHORT, LONG, RATIONAL, UNDEFINED, DOUBLE = 2, 3, 4, 5, 7, 12
CODES = {SHORT: "H", LONG: "I", RATIONAL: "I", DOUBLE: "d"}
EXIF, SUB_IFDS = 34665, 330


def page(*more, width=4, height=4, size=64):
    """Return the tags of a page of one strip of zeros; those of `more` stand in for others of their number."""
    tags = {
        256: (LONG, (width,)),
        257: (LONG, (height,)),
        258: (SHORT, (8,)),
        259: (SHORT, (1,)),
        262: (SHORT, (1,)),
        277: (SHORT, (1,)),
    }
    given = [tag for tag, _, _ in more]
    if not {273, 324}.intersection(given):
        tags |= {273: (LONG, (8,)), 278: (LONG, (height,)), 279: (LONG, (width * height,))}
    plain = [(tag, kind, value) for tag, (kind, value) in tags.items() if tag not in given]
    return sorted([*plain, *more], key=lambda entry: entry[0]), max(size, width * height)


def tiff(pages, *, below=(), exif=()):
    """Return a little-endian TIFF of pages; `below` are SubIFDs of all, `exif` the EXIF tags of all.

    All pixels are the zeros behind the header.
    """
    data = bytearray(b"II*\0\0\0\0\0" + bytes(max(size for _, size in [*pages, *below])))

    def put(entries):
        rows = []
        for tag, kind, value in entries:
            stored = value if isinstance(value, bytes) else struct.pack(f"<{len(value)}{CODES[kind]}", *value)
            count = len(value) // (2 if kind == RATIONAL else 1)
            if len(stored) > 4:
                data.extend(b"\0" * (len(data) % 2))
                at = struct.pack("<I", len(data))
                data.extend(stored)
                stored = at
            rows.append(struct.pack("<HHI4s", tag, kind, count, stored))
        data.extend(b"\0" * (len(data) % 2))
        start = len(data)
        data.extend(struct.pack("<H", len(rows)) + b"".join(rows) + bytes(4))
        return start

    pointers = []
    if below:
        pointers.append((SUB_IFDS, LONG, tuple(put(entries) for entries, _ in below)))
    if exif:
        pointers.append((EXIF, LONG, (put(exif),)))
    link = 4
    for entries, _ in pages:
        data[link : link + 4] = struct.pack("<I", put(sorted([*entries, *pointers], key=lambda entry: entry[0])))
        link = len(data) - 4
    return bytes(data)


OME = '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">{}</OME>'


def ome_image(inner, *, number=0, name="a", t=1, c=1):
    return (
        f'<Image ID="Image:{number}" Name="{name}"><Pixels ID="Pixels:{number}" DimensionOrder="XYCZT" Type="uint8" '
        f'SizeX="4" SizeY="4" SizeZ="1" SizeC="{c}" SizeT="{t}">{inner}</Pixels></Image>'
    )


def described(text, pages=1):
    """Return a file of alike pages, the first of which has a description."""
    return tiff([page(*[(270, ASCII, text.encode())] * (number == 0)) for number in range(pages)])


def images_of_a_page(n):
    words = f'<TiffData IFD="0" PlaneCount="1"/><!--{" " * 40_000}-->'  # it is the page's description too
    images = (ome_image(words, number=number, name=f"i{number}") for number in range(n))
    return described(OME.format("".join(images)))


def images_of_pages(n):
    images = (ome_image(f'<TiffData IFD="{number}" PlaneCount="1"/>', number=number) for number in range(n))
    return described(OME.format("".join(images)), n)


def images_of_pyramids(n):
    images = (ome_image(f'<TiffData IFD="{number}" PlaneCount="1"/>', number=number) for number in range(n))
    text = OME.format("".join(images)).encode()
    pages = [page(*[(270, ASCII, text)] * (number == 0)) for number in range(n)]
    return tiff(pages, below=[page((254, LONG, (1,)), width=side, height=side) for side in (3, 2)])


def planes(n):
    blocks = "".join(f'<TiffData IFD="{n - 1 - t}" FirstT="{t}" PlaneCount="1"/>' for t in range(n))
    return described(OME.format(ome_image(blocks, t=n)), n)


def blocks_of_all(n):
    return described(OME.format(ome_image(f'<TiffData IFD="0" PlaneCount="{n}"/>' * 200, t=n)), n)


def channels(n):
    names = "".join(f'<Channel ID="C:{number}" Name="c{number}"/>' for number in range(n))
    return described(OME.format(ome_image(names + '<TiffData IFD="0"/>', c=n)), n)


def labels(n):
    along = "".join(f"<Label>{number}</Label>" for number in range(n))
    image = ome_image('<TiffData IFD="0"/>', t=n).replace("</Image>", '<AnnotationRef ID="A:0"/></Image>')
    annotation = (
        '<StructuredAnnotations><XMLAnnotation ID="A:0" Namespace="openmicroscopy.org/omero/dimension/modulo"><Value>'
        f'<Modulo><ModuloAlongT Type="angle">{along}</ModuloAlongT></Modulo></Value></XMLAnnotation>'
        "</StructuredAnnotations>"
    )
    return described(OME.format(image + annotation), n)


def annotations(n):
    return described(OME.format(ome_image('<TiffData IFD="0"/>' + '<AnnotationRef ID="A:0"/>' * n)))


def plane_elements(n):
    inner = '<TiffData IFD="0"/>' + "".join(f'<Plane TheZ="0" TheT="{t}" TheC="0" DeltaT="{t}"/>' for t in range(n))
    return described(OME.format(ome_image(inner)))


def deep(n):
    return described(OME.format(ome_image('<TiffData IFD="0"/>') + "<a>" * n + "</a>" * n))


OME_FAMILIES = {
    "images of one page": (images_of_a_page, 20),
    "images of pages": (images_of_pages, 25),
    "images of pyramids": (images_of_pyramids, 15),
    "planes": (planes, 150),
    "blocks of all planes": (blocks_of_all, 150),
    "channels": (channels, 200),
    "labels": (labels, 150),
    "annotations": (annotations, 1500),
    "planes' facts": (plane_elements, 1500),
    "depth": (deep, 2000),
}


@pytest.mark.parametrize("family", OME_FAMILIES)
def test_ome(tmp_path, family):
    make, size = OME_FAMILIES[family]
    assert_linear(lambda n: written(tmp_path / f"{n}.tif", make(n)), jnrrdz.scan, size)


def written(path, data):
    path.write_bytes(data)
    return path


def test_places_of_smaller_versions_are_read_once():
    """Each image asks for those of its pages: the second time, nothing is read."""
    data = tiff([page() for _ in range(600)], below=[page((254, LONG, (1,)), width=side) for side in (3, 2)])
    asked = []
    layout = TiffLayout(lambda start, stop: asked.append(start) or data[start:stop], len(data))
    pages = Pages(layout, "a.tif", layout.main)
    first = pages.sub_ifds(np.arange(600))
    asked.clear()
    assert (pages.sub_ifds(np.arange(500, 600)) == first[500:]).all()
    assert not asked


def test_ome_in_many_files(tmp_path):
    def make(n):
        folder = tmp_path / str(n)
        folder.mkdir(exist_ok=True)
        blocks = "".join(
            f'<TiffData IFD="0" FirstT="{t}" PlaneCount="1"><UUID FileName="{t}.tif">urn:uuid:{t}</UUID></TiffData>'
            for t in range(n)
        )
        text = OME.format(ome_image(blocks, t=n))
        for t in range(n):
            written(folder / f"{t}.tif", described(text) if t == 0 else tiff([page()]))
        return folder / "0.tif"

    assert_linear(make, jnrrdz.scan, 12)


def nested(n):
    """Return elements in elements, as deep as may be, each with much in it."""
    inside = "<a>" * 60 + "<b/>" * n + "</a>" * 60
    return tiff([page((42112, ASCII, f"<GDALMetadata>{inside}</GDALMetadata>".encode()))])


def metadata_items(n):
    items = "".join(f'<Item name="n{number}">v</Item>' for number in range(n))
    return tiff([page((42112, ASCII, f"<GDALMetadata>{items}</GDALMetadata>".encode()))])


def metadata_samples(n):
    items = "".join(f'<Item name="n{number}" sample="{number}">v</Item>' for number in range(n))
    return tiff([page((42112, ASCII, f"<GDALMetadata>{items}</GDALMetadata>".encode()))])


def metadata_markup(n):
    inside = "<a>" * 40 + "<b/>" * n + "</a>" * 40
    return tiff([page((42112, ASCII, f'<GDALMetadata><Item name="a">{inside}</Item></GDALMetadata>'.encode()))])


def metadata_entities(n):
    return tiff([page((42112, ASCII, f'<GDALMetadata><Item name="a">{"&amp;" * n}</Item></GDALMetadata>'.encode()))])


def metadata_attributes(n):
    inside = " ".join(f'a{number}="1"' for number in range(n))
    return tiff([page((42112, ASCII, f"<GDALMetadata><Item {inside}>v</Item></GDALMetadata>".encode()))])


def chain_alike(n):
    return tiff([page() for _ in range(n)])


def chain_of_sizes(n):
    return tiff([page(width=4 + number) for number in range(n)])


def chain_of_levels(n):
    return tiff([page(width=9000)] + [page((254, LONG, (1,)), width=8999 - number) for number in range(n)])


def chain_of_masks(n):
    return tiff([page()] + [page((254, LONG, (4,))) for _ in range(n)])


def sub_ifds(n):
    return tiff([page(width=9000)], below=[page((254, LONG, (1,)), width=8999 - number) for number in range(n)])


def tags(n):
    return tiff([page(*((60000 + number, LONG, (1,)) for number in range(n)))])


def doubled_tags(n):
    return tiff([page(*((60000, LONG, (1,)) for _ in range(n)))])


def values(n):
    return tiff([page((60000, LONG, tuple(range(n))), (60001, RATIONAL, tuple(range(2 * n))))])


def samples(n):
    """Return a file of many samples a pixel, each with its own tags' values."""
    more = [(277, SHORT, (n,)), (258, SHORT, (8,) * n), (339, SHORT, (1,) * n), (338, SHORT, (0,) * (n - 1))]
    return tiff([page(*more, size=16 * n)])


def strips(n):
    return tiff([page((278, SHORT, (1,)), (273, LONG, (8,) * n), (279, LONG, (4,) * n), height=n)])


def tiles(n):
    more = [(322, LONG, (16,)), (323, LONG, (16,)), (324, LONG, (8,) * n), (325, LONG, (256,) * n)]
    return tiff([page(*more, width=16 * n, height=16, size=300)])


def geo_keys(n):
    keys = [number for key in range(n) for number in (5000 + key, 0, 1, 1)]
    return tiff([page((34735, SHORT, (1, 1, 0, n, *keys)), (33550, 12, (1.0, 1.0, 0.0)), (33922, 12, (0.0,) * 6))])


def geo_texts(n):
    keys = [number for key in range(n) for number in (5000 + key, 34737, 8, 8 * key)]
    texts = b"abcdefg|" * n
    return tiff([page((34735, SHORT, (1, 1, 0, n, *keys)), (34737, ASCII, texts))])


def citation(n):
    keys = (1, 1, 0, 2, 1024, 0, 1, 1, 1026, 34737, min(9 * n, 65000), 0)
    return tiff([page((34735, SHORT, keys), (34737, ASCII, b"a = b | c" * n))])


def tie_points(n):
    keys = (1, 1, 0, 1, 1024, 0, 1, 2)
    return tiff([page((34735, SHORT, keys), (33922, 12, tuple(float(number) for number in range(6 * n))))])


def image_j(n):
    return described(f"ImageJ=1.53t\nimages={n}\nslices={n}\nloop=false\n", n)


def image_j_lines(n):
    return described("ImageJ=1.53t\nimages=2\nslices=2\n" + "".join(f"k{number}=v\n" for number in range(n)), 2)


def shaped(n):
    return described(f'{{"shape": [{n}, 4, 4]}}', n)


def aperio(n):
    text = b"Aperio Image Library v11\n9x4 [0,0 9x4] (16x16)|AppMag = 20|" + b"|".join(b"a = b" for _ in range(n))
    more = [(322, LONG, (16,)), (323, LONG, (16,)), (324, LONG, (8,)), (325, LONG, (256,))]
    return tiff([page((270, ASCII, text), *more, size=300)])


def dates(n):
    return tiff([page((306, ASCII, b"2020:01:01 00:00:00 " * n), (305, ASCII, b"a" * n))])


FAMILIES = {
    "items": (metadata_items, 500),
    "items of samples": (metadata_samples, 500),
    "markup in an item": (metadata_markup, 1000),
    "elements in elements": (nested, 1000),
    "entities": (metadata_entities, 8000),
    "attributes": (metadata_attributes, 2000),
    "pages alike": (chain_alike, 150),
    "pages of sizes": (chain_of_sizes, 20),
    "levels": (chain_of_levels, 40),
    "masks": (chain_of_masks, 60),
    "SubIFDs": (sub_ifds, 40),
    "tags": (tags, 400),
    "a tag many times": (doubled_tags, 400),
    "values": (values, 40000),
    "samples": (samples, 300),
    "strips": (strips, 16000),
    "tiles": (tiles, 16000),
    "keys": (geo_keys, 500),
    "texts of keys": (geo_texts, 500),
    "a citation": (citation, 600),
    "tie points": (tie_points, 500),
    "ImageJ": (image_j, 60),
    "ImageJ's lines": (image_j_lines, 1000),
    "tifffile's pages": (shaped, 60),
    "Aperio's description": (aperio, 800),
    "dates": (dates, 10000),
}


@pytest.mark.filterwarnings("ignore:the georeference is left out:UserWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_tiff(tmp_path, family):
    make, size = FAMILIES[family]

    def scan(path):
        with contextlib.suppress(jnrrdz.JnrrdzError):
            jnrrdz.scan(path, embedded=True)

    assert_linear(lambda n: written(tmp_path / f"{n}.tif", make(n)), scan, size)


def exif_tags(n):
    return tiff([page()], exif=[(40000 + number, ASCII, b"some text of it") for number in range(n)])


def documents(n):
    return tiff([page((34675, UNDEFINED, b"\1" * n), (700, ASCII, b"<a/>" * (n // 4)))])


EMBEDDED = {"EXIF": (exif_tags, 300), "profile and XMP": (documents, 200000)}


@pytest.mark.parametrize("family", EMBEDDED)
def test_embedded(tmp_path, family):
    make, size = EMBEDDED[family]
    assert_linear(
        lambda n: written(tmp_path / f"{n}.tif", make(n)), lambda path: jnrrdz.scan(path, embedded=True), size
    )
