"""The viewer in a browser: Debian's Chromium, driven by Playwright, against a server of this process.

Colours are those of screenshots, compared with the pixels that other libraries wrote.  Every request is looked at:
none leaves this machine.
"""

import io
import json
import os
import shutil
import subprocess
import time
import warnings
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import jbpy
import nrrd
import numpy as np
import pytest
import rasterio
import tifffile
from affine import Affine
from PIL import Image

import jnrrdz
from tests import writers
from tests.nitf.conftest import header, nitf_bytes

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian: apt-get install chromium)")

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb"),
    *("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
]
PATIENCE = 60.0
"""Seconds that a busy machine may take; nothing waits so long that need not."""

WEST, NORTH, STEP = 500000, 5000000, 10
RED, GREEN, BLUE, GREY = (200, 30, 20), (10, 180, 60), (30, 60, 220), (90, 90, 90)
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"


def quarters(size):
    """Return red, green, blue planes: a colour in each quarter, north-west first."""
    planes = np.zeros((3, size, size), "u1")
    half = size // 2
    for colour, rows, columns in [
        (RED, slice(0, half), slice(0, half)),
        (GREEN, slice(0, half), slice(half, size)),
        (BLUE, slice(half, size), slice(0, half)),
        (GREY, slice(half, size), slice(half, size)),
    ]:
        planes[:, rows, columns] = np.array(colour, "u1")[:, None, None]
    return planes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of what other libraries wrote."""
    made = tmp_path_factory.mktemp("served")
    writers.cog(made / "quarters.tif", quarters(1024), OVERVIEW_RESAMPLING="NEAREST")
    cosine, sine = STEP * np.cos(np.pi / 6), STEP * np.sin(np.pi / 6)
    turned = Affine(cosine, sine, WEST, sine, -cosine, NORTH)
    writers.geotiff(made / "turned.tif", quarters(256), crs="EPSG:32633", transform=turned)
    wide = Affine(4 * STEP, 0, WEST, 0, -STEP, NORTH)
    writers.geotiff(made / "wide.tif", quarters(256), crs="EPSG:3035", transform=wide)
    palette(made / "palette.tif")
    sixteen = np.full((300, 300), 2000, "u2")
    sixteen[:, 150:] = 3000
    sixteen[:20, :20] = 0
    writers.geotiff(made / "sixteen.tif", sixteen, nodata=0, **writers.PLACE)
    stack(made / "stack.ome.tif")
    segments(made / "segments.ntf")
    volume(made / "volume.n5")
    deep(made / "deep.n5")
    (made / "broken.tif").write_bytes(b"II*\0" + bytes(60))
    name(made / "named.tif")
    heights(made / "heights.tif")
    dates(made)
    bands(made / "bands.tif")
    boxes(made)
    cells(made / "cells.ome.tif")
    classified(made / "classified.ntf")
    labelled(made)
    return made


def palette(path):
    pixels = np.zeros((200, 200), "u1")
    pixels[:, 100:] = 7
    writers.geotiff(path, pixels, palette={0: (*RED, 255), 7: (*BLUE, 255)}, **writers.PLACE)


def stack(path):
    """Write two times, four depths and two channels, each plane of one value."""
    planes = np.zeros((2, 2, 4, 120, 160), "u1")
    for t, c, z in np.ndindex(2, 2, 4):
        planes[t, c, z] = 40 * z + 20 + 100 * t if c == 0 else 60
    channels = {"Name": [HOSTILE, "DAPI"], "Color": [0xFF0000FF - 2**32, 0x0000FFFF]}
    tifffile.imwrite(path, planes, ome=True, metadata={"axes": "TCZYX", "Channel": channels})


def segments(path):
    first, second = np.full((100, 140), 50, "u1"), np.full((80, 60), 210, "u1")
    images = []
    for pixels, name in [(first, "first"), (second, "second")]:
        rows, columns = pixels.shape
        sizes = {"NROWS": rows, "NCOLS": columns, "NPPBH": columns, "NPPBV": rows}
        images.append((pixels.tobytes(), {**sizes, "NBPP": 8, "IREP": "MONO", "IID1": name}))
    path.write_bytes(nitf_bytes(*images))


def volume(path):
    """Write an N5 volume: 255 in its middle, 80 around it."""
    values = np.full((64, 64, 40), 80, "u1")
    values[16:48, 16:48, 10:30] = 255
    scale = {"resolution": [4, 4, 8], "units": ["nm", "nm", "nm"]}
    writers.n5_dataset(path / "raw", values, [32, 32, 20], "gzip", **scale)


def deep(path):
    """Write two levels of a volume in which each half of the depths has one value."""
    for level, depth in [(0, 40), (1, 20)]:
        values = np.full((256 >> level, 256 >> level, depth), 50, "u1")
        values[..., depth // 2 :] = 150
        factors = {"downsamplingFactors": [2**level] * 3}
        writers.n5_dataset(path / f"raw/s{level}", values, [64, 64, 20], "raw", **factors)


def name(path):
    writers.geotiff(path, np.full((2, 50, 50), 9, "u1"), **writers.PLACE)
    with rasterio.open(path, "r+") as file:
        file.set_band_description(1, HOSTILE)


def heights(path):
    """Write floats, of which the west is nodata; 100 in the middle, 200 in the east."""
    pixels = np.full((200, 300), -3.4028234663852886e38, "f4")
    pixels[:, 100:200], pixels[:, 200:] = 100, 200
    writers.geotiff(path, pixels, nodata=-3.4028234663852886e38, **writers.PLACE)


def dates(folder):
    """Write a cube of four dates, each of one value."""
    (folder.parent / "dates").mkdir(exist_ok=True)
    paths = []
    for number, day in enumerate(["20240501", "20240506", "20240511", "20240516"]):
        path = folder.parent / "dates" / f"{day}.tif"
        pixels = np.full((64, 64), 40 + 40 * number, "u1")
        paths.append(writers.geotiff(path, pixels, **writers.PLACE, **writers.TILES))
    jnrrdz.cube(paths, folder / "dates.json", time_from=r"(\d{8})")


def bands(path):
    """Write bands 2, 3 and 4 of Sentinel-2, which are blue, green and red."""
    pixels = np.stack([np.full((100, 100), value, "u1") for value in (10, 120, 240)])
    writers.geotiff(path, pixels, photometric="minisblack", **writers.PLACE)
    with rasterio.open(path, "r+") as file:
        file.descriptions = ("B02", "B03", "B04")


def boxes(folder):
    """Write volumes of slices three times as far apart as rows: one flipped, one oblique."""
    values = np.full((40, 40, 20), 60, "u1")  # x, y, z
    values[10:30, 10:30, 5:15] = 255
    directions = {
        "flipped.nrrd": [[-1, 0, 0], [0, -1, 0], [0, 0, 3]],
        "oblique.nrrd": [[0.8, 0.6, 0], [-0.6, 0.8, 0], [0, 0, 3]],
    }
    for file, vectors in directions.items():
        fields = {"space": "left-posterior-superior", "space directions": np.array(vectors, float)}
        fields |= {"space origin": [0, 0, 0], "kinds": ["domain"] * 3, "encoding": "raw"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of pynrrd's own date
            nrrd.write(str(folder / file), values, fields)


def cells(path):
    """Write a picture of a microscope whose pixels are half a micrometre wide."""
    metadata = {"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm"}
    metadata |= {"PhysicalSizeY": 0.5, "PhysicalSizeYUnit": "µm"}
    tifffile.imwrite(path, np.full((300, 400), 90, "u1"), ome=True, metadata=metadata)


def classified(path):
    """Write a NITF whose file is confidential, and its second image secret."""
    file = jbpy.Jbp()
    file["FileHeader"]["FSCLAS"].value = "C"
    file["FileHeader"]["NUMI"].value = 2
    for number, level in enumerate("CS"):
        file["FileHeader"][f"LI{number + 1:03}"].value = 64 * 64
        image = {"NROWS": 64, "NCOLS": 64, "NPPBH": 64, "NPPBV": 64, "NBPR": 1, "NBPC": 1}
        image |= {"NBPP": 8, "ABPP": 8, "NBANDS": 1, "IREP": "MONO", "IC": "NC", "IID1": level}
        image |= {"ISCLAS": level, "IDATIM": "20240501103000", "IDLVL": number + 1, "IALVL": 0}
        image |= {"ISCTLH": "NF" if level == "S" else "", "ILOC": (0, 0)}
        header(file["ImageSegments"][number]["subheader"], image)
    file.finalize()
    with path.open("wb") as out:
        file.dump(out)
        out.truncate(file.get_size())


def labelled(folder):
    """Write an N5 tree of labels and an image, and a list of levels of another form."""
    for dataset, value in [("labels", 1), ("raw", 200)]:
        writers.n5_dataset(folder / "tree.n5" / dataset, np.full((64, 64), value, "u1"), [64, 64], "raw")
    source = folder.parent / "dates" / "20240501.tif"
    jnrrdz.index(source, folder / "foreign.json")
    references = json.loads((folder / "foreign.json").read_text())
    root = json.loads(references["refs"]["zarr.json"])
    root["attributes"] |= {"multiscales": {"layout": [1, 2]}, "ome": {"multiscales": [3]}}
    references["refs"]["zarr.json"] = json.dumps(root)
    (folder / "foreign.json").write_text(json.dumps(references))


@pytest.fixture(scope="module")
def server(folder):
    with jnrrdz.serve(folder) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


class Viewer:
    """A page of the viewer, what it asked for, and what it says."""

    def __init__(self, page, url):
        self.page, self.url, self.asked, self.errors = page, url, [], []
        page.set_default_timeout(PATIENCE * 1000)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: "Content Security" in message.text and self.errors.append(message.text))

    def open(self, name="", state="ready", **choices):
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}#/{name}" + (f"?{urlencode(choices)}" if choices else ""))
        self.wait(state)

    def wait(self, state="ready"):
        self.page.locator(f"body[data-state={state}]").wait_for()

    def colour(self, right=0, down=0):
        """Return the colour so many pixels from the middle of the picture."""
        box = self.page.locator(".map, .volume iframe").first.bounding_box()
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        return shot.getpixel((int(box["x"] + box["width"] / 2 + right), int(box["y"] + box["height"] / 2 + down)))

    def shows(self, expected, right=0, down=0, within=3):
        """Wait for a colour."""
        deadline = time.monotonic() + PATIENCE
        while np.abs(np.subtract(colour := self.colour(right, down), expected)).max() > within:
            assert time.monotonic() < deadline, f"{colour} at {right}, {down}; {expected} was expected"
            self.page.wait_for_timeout(50)

    def extent(self, right, down, across, along):
        """Return how many pixels of white there are about a place, along a row or column."""
        box = self.page.locator(".volume iframe").bounding_box()
        shot = np.array(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))
        x, y = (int(box["x"] + box["width"] / 2 + right), int(box["y"] + box["height"] / 2 + down))
        line = shot[y, :, 0] if across else shot[:, x, 0]
        at = x if across else y
        dark = np.flatnonzero(line < 160)
        assert along or across
        return dark[dark > at].min() - dark[dark < at].max() - 1

    def chunks(self):
        return [urlsplit(url).path for url in self.asked if "/c/" in url]

    def choose(self, label, value):
        self.page.get_by_label(label, exact=True).select_option(value)


@pytest.fixture
def viewer(browser, server):
    yield from viewers(browser, server.url)


def viewers(browser, url):
    """Yield a viewer; nothing of its page may have failed, and no request may have left this machine."""
    context = browser.new_context(viewport={"width": 800, "height": 500})
    made = Viewer(context.new_page(), url)
    yield made
    context.close()
    strangers = [url for url in made.asked if urlsplit(url).hostname not in {None, "127.0.0.1"}]
    assert strangers == []
    assert made.errors == []


def place(column, row, **choices):
    """Return choices that put a pixel's corner of quarters.tif into the middle, a pixel a pixel of the screen."""
    return {"x": WEST + column * STEP, "y": NORTH - row * STEP, "resolution": STEP, **choices}


def test_the_list_has_a_picture_of_each(viewer, server):
    viewer.open()
    cards = viewer.page.locator(".cards li")
    names = cards.evaluate_all("cards => cards.map((card) => card.dataset.name)")
    assert sorted(names) == sorted(server.names)
    pictured = viewer.page.locator("li[data-name='quarters.tif'] img")
    deadline = time.monotonic() + PATIENCE
    while not pictured.evaluate("image => image.complete && image.naturalWidth"):
        assert time.monotonic() < deadline
        viewer.page.wait_for_timeout(50)
    viewer.page.locator("li[data-name='quarters.tif'] a").click()
    viewer.shows(RED, right=-40, down=-40)
    assert viewer.page.locator("h1").text_content() == "quarters.tif"


def test_the_page_may_reach_nothing_else(viewer):
    answer = viewer.page.goto(viewer.url)
    rules = dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'self'"
    assert rules["connect-src"] == "'self' data:"
    assert rules["script-src"] == "'self' 'wasm-unsafe-eval'"
    assert rules["style-src"] == "'self'"


def test_a_cog_lies_on_its_place_in_its_colours(viewer):
    viewer.open("quarters.tif", **place(512, 512))
    for colour, right, down in [(RED, -1, -1), (GREEN, 0, -1), (BLUE, -1, 0), (GREY, 0, 0)]:
        viewer.shows(colour, right, down)
    viewer.open("quarters.tif", **place(0, 0))
    viewer.shows(RED, 0, 0)
    assert viewer.colour(-3, 3) != RED  # west of the picture there is none
    assert viewer.colour(3, -3) != RED
    box = viewer.page.locator(".map").bounding_box()
    viewer.page.mouse.move(int(box["x"] + box["width"] / 2) + 20, int(box["y"] + box["height"] / 2) + 10)
    viewer.page.get_by_label("longitudes and latitudes").check()
    viewer.page.locator(".status", has_text=f"column 20, row 10   = {', '.join(map(str, RED))}").wait_for()


@pytest.mark.parametrize("name", ["turned.tif", "wide.tif"])
def test_rotated_and_oblong_pixels_lie_on_their_place(viewer, folder, name):
    with rasterio.open(folder / name) as file:
        a, b, c, d, e, f = file.transform[:6]
    middle = [a * 128 + b * 128 + c, d * 128 + e * 128 + f]
    viewer.open(name, x=middle[0], y=middle[1], resolution=STEP * 2)
    corners = [(RED, 64, 64), (GREEN, 192, 64), (BLUE, 64, 192), (GREY, 192, 192)]
    for colour, column, row in [*corners, (RED, 124, 124), (GREY, 132, 132)]:
        x, y = a * column + b * row + c, d * column + e * row + f
        viewer.shows(colour, (x - middle[0]) / (STEP * 2), (middle[1] - y) / (STEP * 2))


def test_bands_switch(viewer):
    viewer.open("quarters.tif", **place(256, 256))
    viewer.shows(RED)
    viewer.choose("Red", "2")
    viewer.choose("Green", "0")
    viewer.shows((RED[2], RED[0], RED[2]))
    viewer.choose("Show", "one")
    viewer.shows((RED[0],) * 3)
    viewer.choose("Band", "1")
    viewer.shows((RED[1],) * 3)


def test_a_stretch_is_that_of_the_samples(viewer):
    viewer.open("sixteen.tif", **place(150, 150, stretch="min-max"))
    viewer.shows((0, 0, 0), right=-9)
    viewer.shows((255, 255, 255), right=9)
    end = viewer.page.get_by_label("high end of 1")
    end.fill("4000")
    end.press("Enter")
    viewer.shows((128, 128, 128), right=9)
    viewer.open("sixteen.tif", **place(20, 20, stretch="min-max"))
    background = viewer.colour(-250)
    viewer.shows(background, right=-9, down=-9)  # nodata is not drawn
    viewer.shows((0, 0, 0), right=9, down=9)


def test_a_palette_is_obeyed(viewer):
    viewer.open("palette.tif", **place(100, 100))
    viewer.shows(RED, right=-9)
    viewer.shows(BLUE, right=9)


def test_a_level_changes_on_zoom(viewer):
    viewer.open("quarters.tif", **place(512, 512, resolution=STEP * 4))
    viewer.shows(RED, -30, -30)
    assert {path.split("/")[2] for path in viewer.chunks()} == {"2"}
    viewer.asked.clear()
    viewer.page.locator(".map").focus()
    box = viewer.page.locator(".map").bounding_box()
    viewer.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    deadline = time.monotonic() + PATIENCE
    while not any(path.startswith("/quarters.tif/0/") for path in viewer.chunks()):
        assert time.monotonic() < deadline
        viewer.page.mouse.wheel(0, -240)
        viewer.page.wait_for_timeout(100)
    viewer.page.locator("[data-level='0']").wait_for()
    viewer.choose("Level", "3")
    viewer.page.locator("[data-level='3']").wait_for()


def test_a_stack_steps(viewer):
    viewer.open("stack.ome.tif", z=1, stretch="as-is")
    viewer.shows((60, 0, 60))
    viewer.page.get_by_label("z forward").click()
    viewer.shows((100, 0, 60))
    viewer.page.get_by_label("t forward").click()
    viewer.shows((200, 0, 60))
    viewer.page.get_by_label("show 2 · DAPI").uncheck()
    viewer.shows((200, 0, 0))
    assert "z=2" in viewer.page.url


def test_a_coarser_level_has_fewer_depths(viewer):
    viewer.open("deep.n5", view="planes", z=15, stretch="as-is", resolution=2, x=128, y=-128)
    viewer.shows((50, 50, 50))
    assert any(path.startswith("/deep.n5/raw/s1/") for path in viewer.chunks())
    viewer.choose("Level", "0")
    viewer.shows((50, 50, 50))
    assert any(path.startswith("/deep.n5/raw/s0/") for path in viewer.chunks())


def test_a_segment_is_chosen(viewer):
    viewer.open("segments.ntf")
    viewer.shows((50, 50, 50))
    options = viewer.page.get_by_label("Image").locator("option").all_text_contents()
    assert options == ["image_0 — first", "image_1 — second"]
    viewer.choose("Image", "image_1/data")
    viewer.shows((210, 210, 210))


def test_an_n5_volume_has_cross_sections_and_planes(viewer):
    viewer.open("volume.n5")
    box = viewer.page.locator(".volume iframe").bounding_box()
    left, up = -box["width"] / 4, -box["height"] / 4 + 37  # the middle of the first of four panels, below two bars
    viewer.shows((255, 255, 255), left - 8, up - 8, within=6)
    viewer.shows((0, 0, 0), left - 48, up - 8, within=6)
    assert any(path.startswith("/volume.n5/raw/data/c/") for path in viewer.chunks())
    viewer.page.get_by_role("button", name="Planes").click()
    viewer.shows((255, 255, 255))
    viewer.page.get_by_label("z", exact=True).fill("2")
    viewer.shows((80, 80, 80))


def test_nodata_of_floats_is_not_drawn_and_not_stretched(viewer):
    viewer.open("heights.tif", **place(150, 100))
    viewer.shows((0, 0, 0))
    viewer.shows((255, 255, 255), right=60)
    background = viewer.colour(-250)
    viewer.shows(background, right=-60)
    assert viewer.page.locator(".panel").text_content().count("nodata -3.40282e+38") == 1


def test_a_slider_of_dates_says_which_date(viewer):
    viewer.open("dates.json", **place(32, 32, stretch="as-is", view="planes"))
    viewer.shows((40, 40, 40))
    slider = viewer.page.locator(".slider[data-axis=time] output")
    assert slider.text_content() == "2024-05-01 · 1 of 4"
    viewer.page.get_by_label("time forward").click()
    viewer.shows((80, 80, 80))
    assert slider.text_content() == "2024-05-06 · 2 of 4"


def test_a_slider_without_places_counts_from_one(viewer):
    viewer.open("stack.ome.tif", z=1, stretch="as-is")
    assert viewer.page.locator(".slider[data-axis=z] output").text_content() == "2 of 4"


def test_bands_of_known_names_are_their_colours(viewer):
    viewer.open("bands.tif", **place(50, 50, stretch="as-is"))
    viewer.shows((240, 120, 10))
    assert viewer.page.get_by_label("Red", exact=True).input_value() == "2"
    viewer.choose("Red", "0")
    viewer.shows((10, 120, 10))


@pytest.mark.parametrize("name", ["flipped.nrrd", "oblique.nrrd"])
def test_flipped_and_oblique_volumes_have_their_proportions(viewer, name):
    """The bright box is 20 voxels wide and 10 slices high, which is 30 of their widths."""
    viewer.open(name)
    frame = viewer.page.locator(".volume iframe").bounding_box()
    left, down = -frame["width"] / 4, frame["height"] / 4  # the middle of the panel of x and z
    viewer.shows((255, 255, 255), left, down, within=6)
    width, height = (viewer.extent(left, down, *way) for way in [(1, 0), (0, 1)])
    assert 1.35 < height / width < 1.65


def test_a_picture_of_known_pixels_has_a_scale_bar(viewer):
    viewer.open("cells.ome.tif", x=200, y=-150, resolution=2)
    bar = viewer.page.locator(".scale-inner")
    length, unit = bar.text_content().split()
    assert unit == "μm"
    assert bar.bounding_box()["width"] == pytest.approx(float(length), abs=2.5)  # 2 pixels of 0.5 μm each


def test_pictures_of_unknown_pixels_have_no_scale_bar(viewer):
    viewer.open("stack.ome.tif")
    assert viewer.page.locator(".scale-inner").count() == 0


def test_a_classified_image_is_marked_and_dated(viewer):
    viewer.open("classified.ntf")
    banners = viewer.page.locator(".marking")
    assert banners.all_text_contents() == ["CONFIDENTIAL"] * 2
    assert "Taken 2024-05-01T10:30:00Z" in viewer.page.locator(".panel").text_content()
    viewer.choose("Image", "image_1/data")
    viewer.page.locator(".marking[data-class=S]").first.wait_for()
    assert banners.all_text_contents() == ["SECRET//NF"] * 2
    styles = banners.evaluate_all("all => all.map((one) => getComputedStyle(one).backgroundColor)")
    assert styles == ["rgb(200, 16, 46)"] * 2
    tops = [banners.nth(number).bounding_box()["y"] for number in (0, 1)]
    assert tops[0] == 0
    assert tops[1] > 400
    viewer.open("quarters.tif")
    assert banners.count() == 0


def test_labels_are_not_what_is_shown_first(viewer):
    viewer.open("tree.n5", stretch="as-is")
    viewer.shows((200, 200, 200))
    options = viewer.page.get_by_label("Image").locator("option").all_text_contents()
    assert options == ["raw", "labels"]


def test_a_list_of_levels_of_another_form_is_ignored(viewer):
    viewer.open("foreign.json", stretch="as-is")
    viewer.shows((40, 40, 40))


def test_a_page_below_a_token_and_a_mount(browser, folder):
    with jnrrdz.serve(folder / "quarters.tif", folder / "volume.n5", token="an-open-secret") as server:
        for viewer in viewers(browser, server.url):
            viewer.open()
            viewer.page.locator("li[data-name='quarters.tif'] a").click()
            viewer.shows(RED, right=-40, down=-40)
            viewer.open("volume.n5")
            assert all(
                urlsplit(url).path.startswith("/an-open-secret/") for url in viewer.asked if url != "about:blank"
            )


def test_names_of_strangers_are_text(viewer):
    viewer.open("stack.ome.tif")
    assert HOSTILE in viewer.page.locator(".ranges").text_content()
    viewer.open("named.tif")
    assert HOSTILE in viewer.page.get_by_label("Band", exact=True).text_content()
    assert viewer.page.title() != "taken"
    assert viewer.page.locator("img[src=x]").count() == 0


def test_what_cannot_be_shown_is_named(viewer):
    viewer.open("broken.tif", state="error")
    panel = viewer.page.get_by_role("alert").text_content()
    assert "broken.tif cannot be shown" in panel
    assert "502" in panel
    viewer.open("nothing.tif", state="error")
    assert "404" in viewer.page.get_by_role("alert").text_content()


def test_lines_that_read_the_data_elsewhere(viewer, server):
    viewer.open("quarters.tif")
    viewer.page.get_by_role("button", name="Read elsewhere").click()
    shown = viewer.page.get_by_role("dialog").text_content()
    assert f'xr.open_dataset("{server["quarters.tif"]}", engine="zarr", group="0", chunks={{}})' in shown
    code = viewer.page.locator("dialog pre", has_text="import zarr\n").first.text_content()
    scope = {}
    exec(code.rpartition("\n")[0], scope)  # the lines are run as they are shown
    np.testing.assert_array_equal(scope["array"][:, 0, 0], RED)


SOURCE = Path(jnrrdz.__file__).parent / "server" / "viewer_source"
BUILT = SOURCE.parent / "viewer"


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm (Debian: apt-get install npm)")
def test_what_is_shipped_is_what_the_sources_build(tmp_path):
    copy = tmp_path / "source"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("node_modules"))
    environment = os.environ | {"npm_config_update_notifier": "false"}
    installed = subprocess.run(["npm", "ci", "--silent"], cwd=copy, env=environment, capture_output=True, check=False)
    if installed.returncode:
        pytest.skip(f"npm ci does not reach its packages: {installed.stderr.decode()[-200:]}")
    subprocess.run(["node", "build.mjs", "--out", tmp_path / "built"], cwd=copy, check=True)
    assert files_below(tmp_path / "built") == files_below(BUILT)
