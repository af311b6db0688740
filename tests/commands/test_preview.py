"""Pictures: the pixels of other readers, right way up, in the file's own colours, and no more read than is needed."""

import json
import warnings

import imagecodecs
import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.enums import Resampling
from rasterio.transform import from_origin

import jnrrdz
from jnrrdz import PreviewOptions

Y, X = np.mgrid[:120, :160]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        yield


def write(path, bands, **options):
    bands = np.atleast_3d(bands) if bands.ndim == 2 else bands
    bands = bands.transpose(2, 0, 1) if bands.shape[-1] <= 4 < bands.shape[0] else bands
    profile = {"driver": "GTiff", "count": len(bands), "height": bands.shape[1], "width": bands.shape[2]}
    palette = options.pop("palette", None)
    with rasterio.open(path, "w", dtype=bands.dtype.name, **profile, **options) as target:
        target.write(bands)
        if palette:
            target.write_colormap(1, palette)
    return path


def picture(path, **options):
    """Return red, green, blue and alpha as another reader finds them in the PNG."""
    png = jnrrdz.preview(path, PreviewOptions(**options)).png
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
    with pytest.raises(jnrrdz.JnrrdzError, match="there are 4"):
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
    with pytest.raises(jnrrdz.JnrrdzError, match="z=9; there are 0 to 4"):
        picture(tmp_path / "a.ome.tif", at={"z": 9})


def test_a_picture_of_a_pyramid_reads_the_coarsest_level_that_suffices(tmp_path, http_server):
    noise = np.random.default_rng(3).integers(0, 255, (2048, 2048), "u1")
    path = tmp_path / "a.tif"
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=1,
        height=2048,
        width=2048,
        dtype="uint8",
        tiled=True,
        blockxsize=256,
        blockysize=256,
    ) as target:
        target.write(noise, 1)
        target.build_overviews([2, 4, 8], Resampling.average)
    http_server.files["/a.tif"] = path.read_bytes()
    shown = jnrrdz.preview(f"{http_server.url}/a.tif", PreviewOptions(size=256)).rgba
    with rasterio.open(path, OVERVIEW_LEVEL=2) as source:
        np.testing.assert_array_equal(shown[..., 0], source.read(1))
    assert http_server.body_bytes < 200_000  # of 4 MB and levels


def test_segments_of_nitf_lie_where_their_headers_say(tmp_path):
    """Two segments by GDAL; the second is attached to the first, 30 rows down and 40 columns to the right."""
    with rasterio.open(
        tmp_path / "a.ntf", "w", driver="NITF", count=1, height=60, width=80, dtype="uint8", NUMI=2
    ) as target:
        target.write((X + Y).astype("u1")[:60, :80], 1)
    with rasterio.open(
        tmp_path / "a.ntf",
        "w",
        driver="NITF",
        count=1,
        height=20,
        width=30,
        dtype="uint8",
        APPEND_SUBDATASET="YES",
        IDLVL=2,
        IALVL=1,
        ILOCROW=30,
        ILOCCOL=40,
    ) as target:
        target.write(np.full((20, 30), 250, "u1"), 1)
    expected = (X + Y).astype("u1")[:60, :80]
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
