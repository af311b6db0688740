"""Pictures: the pixels of other readers, right way up, in the file's own colours, and no more read than is needed."""

import base64
import json
import re
import warnings

import imagecodecs
import nrrd
import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.enums import Resampling
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz.store.store import ReferenceStore
from tests import writers

Y, X = np.mgrid[:120, :160]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        yield


def write(path, bands, **options):
    is_last = bands.ndim == 3 and bands.shape[-1] <= 4 < bands.shape[0]
    return writers.geotiff(path, bands.transpose(2, 0, 1) if is_last else bands, **options)


def picture(path, **options):
    """Return red, green, blue and alpha as another reader finds them in the PNG."""
    png = jnrrdz.preview(path, **options).png
    return imagecodecs.png_decode(png)


def test_bytes_are_shown_as_they_are(tmp_path):
    rgb = np.stack([X, Y, X // 2 + Y // 2]).astype("u1")
    path = write(tmp_path / "a.tif", rgb, photometric="rgb")
    shown = picture(path, size=160)
    np.testing.assert_array_equal(shown[..., :3], rgb.transpose(1, 2, 0))
    assert (shown[..., 3] == 255).all()


def test_thinned_out_it_is_gdals_average(tmp_path):
    grey = ((X * 3 + Y * 5) % 251).astype("u1")
    path = write(tmp_path / "a.tif", grey)
    with rasterio.open(path) as source:
        expected = source.read(1, out_shape=(30, 40), resampling=Resampling.average)
    shown = picture(path, size=40)
    assert shown.shape == (30, 40, 4)
    assert np.abs(shown[..., 0].astype(int) - expected).max() <= 1


def test_a_palette_is_looked_up_and_never_averaged(tmp_path):
    colours = {0: (255, 0, 0, 255), 1: (0, 255, 0, 255), 2: (0, 0, 255, 255)}
    path = write(tmp_path / "a.tif", ((X // 40) % 3).astype("u1"), palette=colours, photometric="palette")
    shown = picture(path, size=40)
    assert {tuple(pixel) for pixel in shown.reshape(-1, 4)[:, :3].tolist()} <= {color[:3] for color in colours.values()}
    assert shown[0, [0, 15, 25]].tolist()[:2] == [[255, 0, 0, 255], [0, 255, 0, 255]]


def test_nodata_and_alpha_are_transparent_and_count_for_nothing(tmp_path):
    values = np.where(X < 80, 9000, 100 + Y).astype("u2")
    shown = picture(write(tmp_path / "a.tif", values, nodata=9000), size=160, stretch="min,max")
    assert not shown[:, :80, 3].any()
    assert (shown[:, 80:, 3] == 255).all()
    assert (shown[0, 100, 0], shown[-1, 100, 0]) == (0, 255)
    alpha = np.stack([X, np.where(Y < 60, 0, 255)]).astype("u1")
    shown = picture(write(tmp_path / "b.tif", alpha, alpha="yes"), size=160)
    np.testing.assert_array_equal(shown[..., 3], alpha[1])
    np.testing.assert_array_equal(shown[..., 0], alpha[0])


def test_numbers_beyond_bytes_are_stretched_between_percentiles(tmp_path):
    values = (X * 100 + Y).astype("f4")
    values[0, 0], values[0, 1] = np.nan, 1e9
    path = write(tmp_path / "a.tif", values)
    low, high = np.nanpercentile(values, (2, 98))
    expected = np.clip((values - low) / (high - low), 0, 1) * 255
    shown = picture(path, size=160)
    assert shown[0, 0, 3] == 0
    assert np.abs(shown[..., 0].ravel()[1:] - expected.ravel()[1:]).max() <= 1
    with pytest.raises(jnrrdz.JnrrdzError, match="stretch"):
        picture(path, stretch="98,2")


def test_bands_can_be_chosen(tmp_path):
    bands = np.stack([X, Y, X + Y, np.full_like(X, 7)]).astype("u1")
    path = write(tmp_path / "a.tif", bands, photometric="minisblack")
    np.testing.assert_array_equal(picture(path, size=160)[..., 0], bands[0])
    np.testing.assert_array_equal(
        picture(path, size=160, bands=(3, 2, 1))[..., :3], bands[[2, 1, 0]].transpose(1, 2, 0)
    )
    np.testing.assert_array_equal(picture(path, size=160, bands=(2,))[..., 1], bands[1])
    with pytest.raises(jnrrdz.JnrrdzError, match="the image has 4 bands"):
        picture(path, bands=(5,))


def test_north_is_up_and_west_is_left(tmp_path):
    grey = (X + Y).astype("u1")
    north = write(tmp_path / "n.tif", grey, transform=from_origin(10, 50, 1, 1), crs="EPSG:4326")
    south = write(tmp_path / "s.tif", grey[::-1], transform=rasterio.Affine(1, 0, 10, 0, 1, 40), crs="EPSG:4326")
    west = write(tmp_path / "w.tif", grey[:, ::-1], transform=rasterio.Affine(-1, 0, 20, 0, -1, 50), crs="EPSG:4326")
    for path in (north, south, west):
        np.testing.assert_array_equal(picture(path, size=160)[..., 0], grey)


def test_microscopy_is_shown_in_the_colours_and_windows_of_its_channels(tmp_path):
    stack = np.stack([np.stack([X + z, Y + z]) * 10 for z in range(5)]).astype("u2")  # z, c, y, x
    metadata = {"axes": "ZCYX", "SignificantBits": 12, "Channel": {"Name": ["a", "b"], "Color": [-16776961, 16711935]}}
    tifffile.imwrite(tmp_path / "a.ome.tif", stack, metadata=metadata)
    red, green = (stack[2, channel] / 4095 * 255 for channel in range(2))
    shown = picture(tmp_path / "a.ome.tif", size=160)
    assert np.abs(shown[..., 0] - red).max() <= 1
    assert np.abs(shown[..., 1] - green).max() <= 1
    assert not shown[..., 2].any()
    shown = picture(tmp_path / "a.ome.tif", size=160, at={"z": 0, "c": 1}, stretch="min,max")
    assert shown[0, 0, 0] == 0
    with pytest.raises(jnrrdz.JnrrdzError, match="there is no z=9; z goes from 0 to 4"):
        picture(tmp_path / "a.ome.tif", at={"z": 9})


@pytest.mark.parametrize("bits", [{}, {"SignificantBits": 16}])
def test_a_window_of_all_numbers_of_a_type_gives_way_to_percentiles(tmp_path, bits):
    cells = np.random.default_rng(5).gamma(2.0, 200.0, (2, 160, 160)).astype("u2")
    metadata = {"axes": "CYX", "Channel": {"Color": [-16776961, 16711935]}, **bits}
    tifffile.imwrite(tmp_path / "a.ome.tif", cells, metadata=metadata)
    shown = picture(tmp_path / "a.ome.tif", size=160)
    for channel, pixels in enumerate(tifffile.imread(tmp_path / "a.ome.tif")):
        low, high = np.percentile(pixels, (2, 98))
        expected = np.clip((pixels - low) / (high - low), 0, 1) * 255
        assert np.abs(shown[..., channel] - expected).max() <= 1
    assert not shown[..., 2].any()


def test_a_window_of_all_bytes_shows_them_as_they_are(tmp_path):
    cells = np.stack([X, Y]).astype("u1")
    tifffile.imwrite(
        tmp_path / "a.ome.tif", cells, metadata={"axes": "CYX", "Channel": {"Color": [-16776961, 16711935]}}
    )
    np.testing.assert_array_equal(picture(tmp_path / "a.ome.tif", size=160)[..., :2], np.moveaxis(cells, 0, -1))


def test_a_picture_of_a_pyramid_reads_the_coarsest_level_that_suffices(tmp_path, http_server):
    noise = np.random.default_rng(3).integers(0, 255, (2048, 2048), "u1")
    path = tmp_path / "a.tif"
    with writers.gdal_file(path, noise, tiled=True, blockxsize=256, blockysize=256) as target:
        target.build_overviews([2, 4, 8], Resampling.average)
    http_server.files["/a.tif"] = path.read_bytes()
    shown = jnrrdz.preview(f"{http_server.url}/a.tif", size=256).rgba
    with rasterio.open(path, OVERVIEW_LEVEL=2) as source:
        np.testing.assert_array_equal(shown[..., 0], source.read(1))
    assert http_server.body_bytes < 200_000  # of 4 MB and levels


def test_segments_of_nitf_lie_where_their_headers_say(tmp_path):
    """Two segments by GDAL; the second is attached to the first, 30 rows down and 40 columns to the right."""
    expected = (X + Y).astype("u1")[:60, :80]
    second = {"IDLVL": 2, "IALVL": 1, "ILOCROW": 30, "ILOCCOL": 40}
    writers.nitf_segments(tmp_path / "a.ntf", (expected, {}), (np.full((20, 30), 250, "u1"), second))
    expected[30:50, 40:70] = 250
    shown = picture(tmp_path / "a.ntf", size=80)
    np.testing.assert_array_equal(shown[..., 0], expected)


def test_a_notebook_shows_the_png(tmp_path):
    path = write(tmp_path / "a.tif", X.astype("u1"))
    made = jnrrdz.preview(path)
    assert imagecodecs.png_decode(made._repr_png_()).shape == (120, 160, 4)
    assert repr(made) == "<Picture of 160x120 pixels>"


@pytest.mark.parametrize(
    ("node", "attributes"),
    [
        ("data", {"color_table": [["red"]]}),
        ("data", {"color_table": [7]}),
        ("", {"ome": {"omero": {"channels": [{"color": "no colour", "window": {"start": 0, "end": 9}}]}}}),
        ("", {"ome": {"omero": {"channels": ["green"]}}}),
    ],
)
def test_attributes_that_make_no_picture_are_told(tmp_path, node, attributes):
    group = jnrrdz.scan(write(tmp_path / "a.tif", X.astype("u1")))
    jnrrdz.write(group, tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    key = f"{node}/zarr.json".lstrip("/")
    changed = json.loads(document["refs"][key])
    changed["attributes"] |= attributes
    changed.pop("consolidated_metadata", None)
    document["refs"][key] = json.dumps(changed)
    root = json.loads(document["refs"]["zarr.json"])
    root.pop("consolidated_metadata", None)
    document["refs"]["zarr.json"] = json.dumps(root)
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(jnrrdz.JnrrdzError, match="make no picture"):
        jnrrdz.preview(tmp_path / "a.json")


def test_rows_and_columns_are_told_by_their_names(tmp_path):
    """NRRD keeps colours as its fastest axis."""
    colours = np.random.default_rng(5).integers(0, 255, (3, 40, 50), "u1")
    header = writers.nrrd_of(colours.T, kinds="RGB-color domain domain")
    (tmp_path / "a.nrrd").write_bytes(header + colours.tobytes(order="F"))
    np.testing.assert_array_equal(nrrd.read(str(tmp_path / "a.nrrd"))[0], colours)
    shown = picture(tmp_path / "a.nrrd", size=50)
    np.testing.assert_array_equal(shown[..., :3], colours.transpose(2, 1, 0))


def test_alpha_that_is_averaged_stays_what_it_is(tmp_path):
    bands = np.stack([X, np.full_like(X, 128)]).astype("u1")
    path = write(tmp_path / "a.tif", bands, alpha="yes")
    assert set(picture(path, size=40)[..., 3].ravel().tolist()) == {128}


def test_bits_are_black_and_white(tmp_path):
    bits = (X // 20 % 2).astype("u1")
    path = write(tmp_path / "a.tif", bits, nbits=1, compress="CCITTFAX4")
    np.testing.assert_array_equal(picture(path, size=160)[..., 0], bits * 255)


def test_a_channel_that_is_chosen_keeps_its_colour_and_a_stretch_replaces_its_window(tmp_path):
    stack = np.stack([X * 10, Y * 10]).astype("u2")
    metadata = {"axes": "CYX", "SignificantBits": 12, "Channel": {"Color": [-16776961, 16711935]}}
    tifffile.imwrite(tmp_path / "a.ome.tif", stack, metadata=metadata)
    shown = picture(tmp_path / "a.ome.tif", size=160, at={"c": 1})
    assert np.abs(shown[..., 1] - stack[1] / 4095 * 255).max() <= 1
    assert not shown[..., (0, 2)].any()
    shown = picture(tmp_path / "a.ome.tif", size=160, stretch="min,max")
    assert (shown[0, -1, 0], shown[-1, 0, 1]) == (255, 255)


def test_of_small_chunks_only_those_in_the_middle_are_read(tmp_path, http_server):
    """Strips of a row each: of 32 that a row of the picture stands for, one is fetched."""
    rows = np.random.default_rng(7).integers(0, 255, (1024, 4096), "u1")
    tifffile.imwrite(tmp_path / "a.tif", rows, rowsperstrip=1, compression="zlib")
    http_server.files["/a.tif"] = (tmp_path / "a.tif").read_bytes()
    shown = jnrrdz.preview(f"{http_server.url}/a.tif", size=128).rgba
    centres = rows[np.arange(32) * 32 + 16].reshape(32, 128, 32)
    spread = centres[..., [4, 12, 20, 28]].mean(axis=2)
    assert np.abs(shown[..., 0] - spread).max() <= 1
    assert http_server.body_bytes < rows.nbytes / 8


def test_an_image_without_levels_is_read_once_whatever_its_bands(tmp_path, monkeypatch):
    read = []
    usual = ReferenceStore.chunks_at

    def chunks_at(store, ranges, first, stop):
        read.extend(ranges.offset[first:stop].tolist())
        return usual(store, ranges, first, stop)

    monkeypatch.setattr(ReferenceStore, "chunks_at", chunks_at)
    rgb = np.random.default_rng(1).integers(0, 255, (3, 1000, 1000), "u1")
    path = write(
        tmp_path / "a.tif", rgb, tiled=True, blockxsize=128, blockysize=128, interleave="pixel", compress="lzw"
    )
    assert picture(path, size=125).shape == (125, 125, 4)
    assert len(read) == len(set(read)) == 64


def test_segments_of_one_picture_have_no_seam(tmp_path):
    """Two segments of 16 bits, one darker than the other, as long images are cut."""
    ramp = np.add.outer(np.arange(80) * 30, np.arange(60)).astype("u2")
    second = {"IDLVL": 2, "IALVL": 1, "ILOCROW": 40}
    writers.nitf_segments(tmp_path / "a.ntf", (ramp[:40], {}), (ramp[40:], second))
    shown = picture(tmp_path / "a.ntf", size=80, stretch="min,max")
    expected = np.clip((ramp - ramp.min()) / (ramp.max() - ramp.min()), 0, 1) * 255
    assert np.abs(shown[..., 0] - expected).max() <= 1


def test_a_picture_that_takes_too_much_is_refused_before_it_is_read(tmp_path):
    path = write(tmp_path / "a.tif", (X + Y).astype("u1"), blockysize=120)
    with pytest.raises(jnrrdz.JnrrdzError, match="more than 19199 bytes"):
        jnrrdz.preview(path, size=160, most_bytes=120 * 160 - 1)
    assert jnrrdz.preview(path, size=160, most_bytes=120 * 160).rgba.shape == (120, 160, 4)


def embedded(html):
    """Return the picture that a notebook shows, None where it shows none."""
    found = re.match(r'<img alt="" src="data:image/png;base64,([^"]+)">', html)
    return None if found is None else imagecodecs.png_decode(base64.b64decode(found[1]))


def test_a_notebook_shows_a_picture_of_a_scan(tmp_path):
    path = write(tmp_path / "a.tif", ((X + Y) % 256).astype("u1"))
    html = jnrrdz.scan(path)._repr_html_()
    np.testing.assert_array_equal(embedded(html)[..., 0], (X + Y) % 256)
    assert "<td>(120, 160)</td>" in html


def test_a_notebook_shows_a_table_where_no_picture_can_be_made(tmp_path, monkeypatch):
    path = write(tmp_path / "a.tif", ((X + Y) % 256).astype("u1"))
    group = jnrrdz.scan(path)
    path.unlink()
    assert embedded(group._repr_html_()) is None
    assert "<td>(120, 160)</td>" in group._repr_html_()
    monkeypatch.setattr("jnrrdz.commands.preview.INLINE_BYTES", 1000)
    group = jnrrdz.scan(write(tmp_path / "b.tif", ((X + Y) % 256).astype("u1")))
    assert embedded(group._repr_html_()) is None


def test_a_notebook_does_not_wait_for_a_slow_server(tmp_path, http_server, monkeypatch):
    http_server.files["/a.tif"] = write(tmp_path / "a.tif", ((X + Y) % 256).astype("u1")).read_bytes()
    group = jnrrdz.scan(f"{http_server.url}/a.tif")
    monkeypatch.setattr("jnrrdz.commands.preview.INLINE_SECONDS", 0.1)
    http_server.latency = 1.0
    assert embedded(group._repr_html_()) is None
