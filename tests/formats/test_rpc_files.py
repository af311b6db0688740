"""RPC files next to TIFF, JPEG 2000 and NITF, against rasterio, which reads them unasked."""

import json

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from rasterio.rpc import RPC

import jnrrdz
from jnrrdz.errors import MalformedError
from jnrrdz.formats.rpc_files import parse_rpb, parse_rpc_txt
from tests import writers

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

UNITS = {
    "LINE_OFF": "pixels",
    "SAMP_OFF": "pixels",
    "LAT_OFF": "degrees",
    "LONG_OFF": "degrees",
    "HEIGHT_OFF": "meters",
    "LINE_SCALE": "pixels",
    "SAMP_SCALE": "pixels",
    "LAT_SCALE": "degrees",
    "LONG_SCALE": "degrees",
    "HEIGHT_SCALE": "meters",
}
POLYNOMIALS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")
ENDINGS = {"GTiff": "tif", "JP2OpenJPEG": "jp2", "NITF": "ntf"}


def numbers(seed):
    """Return the numbers of a sensor's model, others for each seed."""
    random = np.random.default_rng(seed)
    single = {name: round(float(random.uniform(1, 60)), 2) for name in UNITS}
    return single | {name: random.uniform(-1, 1, 20).round(12).tolist() for name in POLYNOMIALS}


def rpb(seed):
    """Return the numbers as DigitalGlobe spells them."""

    def spelt(name):
        head, *tail = name.replace("COEFF", "COEF").replace("OFF", "OFFSET").lower().split("_")
        return head + "".join(map(str.title, tail))

    lines = ['satId = "QB02";', 'bandId = "P";', 'SpecId = "RPC00B";', "BEGIN_GROUP = IMAGE"]
    lines += ["\terrBias = 1.5;", "\terrRand = 0.25;"]
    for name, value in numbers(seed).items():
        if isinstance(value, list):
            terms = ",\n".join(f"\t\t\t{term:+.12E}" for term in value)
            lines.append(f"\t{spelt(name)} = (\n{terms});")
        else:
            lines.append(f"\t{spelt(name)} = {value};")
    return "\n".join([*lines, "END_GROUP = IMAGE", "END;", ""])


def rpc_txt(seed):
    """Return the numbers as GeoEye spells them."""
    lines = []
    for name, value in numbers(seed).items():
        if isinstance(value, list):
            lines += [f"{name}_{number}: {term:+.12E}" for number, term in enumerate(value, 1)]
        else:
            lines.append(f"{name}: {value:+010.2f} {UNITS[name]}")
    return "\n".join([*lines, ""])


def aux_xml(seed):
    """Return the numbers as GDAL keeps them."""
    texts = {name: " ".join(map(repr, np.atleast_1d(value).tolist())) for name, value in numbers(seed).items()}
    items = "".join(f'<MDI key="{name}">{text}</MDI>' for name, text in texts.items())
    return f'<PAMDataset><Metadata domain="RPC">{items}</Metadata></PAMDataset>'


def image(folder, driver, *, has_own=False):
    """Write an image, with a model of its own if that is asked for, and return its path."""
    path, plain = folder / f"scene.{ENDINGS[driver]}", folder / "plain.tif"
    with writers.gdal_file(plain, np.arange(4096).astype("u1").reshape(64, 64)) as file:
        if has_own:
            file.rpcs = RPC(**{name.lower(): value for name, value in numbers(1).items()}, err_bias=1, err_rand=1)
    options = {"RPC00B": "YES"} if driver == "NITF" and has_own else {}
    rasterio.shutil.copy(plain, path, driver=driver, **options)
    plain.unlink()
    return path


def model(path, **options):
    """Return the coefficients that `spatial_ref` has for rioxarray."""
    group = jnrrdz.scan(str(path), **options)
    group = group if "spatial_ref" in group.children or "image_0" not in group.children else group.children["image_0"]
    place = group.children.get("spatial_ref")
    return None if place is None else json.loads(place.attributes["rpcs"])


def expected(path):
    """Return the same as rasterio reads it."""
    with rasterio.open(path) as file:
        return {name: value for name, value in file.rpcs.to_dict().items() if value is not None}


CASES = [
    *((driver, (name,)) for driver in ("GTiff", "JP2OpenJPEG") for name in ("scene.RPB", "scene.rpb")),
    *((driver, (name,)) for driver in ENDINGS for name in ("scene_RPC.TXT", "scene_rpc.txt")),
    *((driver, ("scene.RPB", "scene_RPC.TXT")) for driver in ENDINGS),
]


@pytest.mark.parametrize(("driver", "names"), CASES)
def test_a_file_next_to_an_image(tmp_path, driver, names):
    path = image(tmp_path, driver)
    for seed, name in enumerate(names, 2):
        (tmp_path / name).write_text(rpb(seed) if name.lower().endswith("rpb") else rpc_txt(seed))
    assert model(path) is None
    assert model(path, sidecars=True) == expected(path)
    used = {source.url for source in jnrrdz.scan(str(path), sidecars=True).sources} - {str(path)}
    assert len(used) == 1
    assert used <= {str(tmp_path / name) for name in names}


@pytest.mark.parametrize("names", [(), ("scene.RPB",), ("scene_RPC.TXT",), ("scene.RPB", "scene_RPC.TXT")])
@pytest.mark.parametrize("driver", ["GTiff", "NITF"])
def test_which_of_several_counts(tmp_path, driver, names):
    path = image(tmp_path, driver, has_own=True)
    for aux in tmp_path.glob("*.aux.xml"):
        aux.unlink()
    if driver == "GTiff":  # of a NITF no .aux.xml is read
        (tmp_path / "scene.tif.aux.xml").write_text(aux_xml(7))
    for seed, name in enumerate(names, 2):
        (tmp_path / name).write_text(rpb(seed) if name.endswith("RPB") else rpc_txt(seed))
    theirs = expected(path)
    if driver == "GTiff" and names == ("scene_RPC.TXT",):
        theirs = {name: value for name, value in theirs.items() if not name.startswith("err_")}
    assert model(path, sidecars=True) == theirs


@pytest.mark.parametrize("driver", ENDINGS)
@pytest.mark.parametrize("text", [rpc_txt(2)[:400], rpc_txt(2).replace("LINE_OFF: ", "LINE_OFF: x"), "x" * 70_000])
def test_a_file_that_cannot_be_read_never_costs_the_pixels(tmp_path, driver, text):
    path = image(tmp_path, driver)
    (tmp_path / "scene_RPC.TXT").write_text(text)
    with pytest.warns(UserWarning, match=r"scene_RPC\.TXT"):
        group = jnrrdz.scan(str(path), sidecars=True)
    assert "scene_RPC.TXT" in json.dumps([dict(node.attributes) for _, node in (("", group), *group.walk())])
    assert len(list(group.arrays())) >= 1


def test_numbers_that_are_missing_are_named():
    with pytest.raises(MalformedError, match="LAT_SCALE"):
        parse_rpb(rpb(2).replace("latScale", "latScales"))
    with pytest.raises(MalformedError, match="SAMP_DEN_COEFF"):
        parse_rpc_txt(rpc_txt(2).replace("SAMP_DEN_COEFF_20", "SAMP_DEN_COEFF_21"))
