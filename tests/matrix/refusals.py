"""The table of refusals: which cells are refused, in which words, and why."""

from rioxarray.exceptions import MissingSpatialDimensionError, TooManyDimensions
from tests.matrix.doors_open import NotReadableError
from tests.matrix.outcomes import Refusal

ANY = ".*"
CUBES = "cube.*"
VOLUMES = (
    "(N5|NRRD|JNRRD|HDF5|FITS|kerchunk|tifffile|osml|VirtualiZarr).*|netCDF-(3.*|4)"
)
PLACED = {"traits": ("place",), "without": ("bands",)}

# fmt: off
REFUSALS = [
    Refusal("in place", "Zarr.*", "Zarr is not described in place",
            "Zarr has metadata in place"),
    Refusal("in place", ".* product", "so it is no N5 container",
            "Only containers of N5 get metadata in place"),
    Refusal("in place", ANY, "a file is not described in place",
            "Only containers of N5 get metadata in place", without=("N5",)),
    Refusal("Parser|refresh", ANY, "this is a manifest, where an image is needed",
            "References of others are a manifest, not an image; `convert` takes them",
            traits=("references",)),
    Refusal("physical.*", ANY, "unexpected keyword argument 'physical'",
            "References of others are converted as they are", TypeError,
            traits=("references",)),
    Refusal("Parser|.*icechunk.*", "JPEG 2000 offset|osml, JPEG 2000",
            "a chunk of several ranges",
            "Icechunk and VirtualiZarr have one range a chunk: --single-range"),
    Refusal(".*icechunk.*", "JPEG 2000 windows in one tile",
            "a chunk of several ranges",
            "Icechunk and VirtualiZarr have one range a chunk: --single-range"),
    Refusal("stock fsspec", ANY, "the codec .*, which jnrrdz brings",
            "Zarr itself has no codec for this compression or predictor",
            NotReadableError, traits=("our codec",)),
    Refusal("merge, old axis", "JPEG 2000 sizes that differ|JNRRD levels|"
            "TIFF several pages|NITF several segments", "arrays of different lengths",
            "Images and levels of other sizes have axes of other lengths"),
    Refusal("merge, old axis", "JPEG 2000.*", "arrays of different lengths",
            "Images and levels of other sizes have axes of other lengths",
            without=("bands",)),
    Refusal("merge, old axis", ANY, "images of the same place cannot be joined along y",
            "Images of one place would lie over each other along y", **PLACED),
    Refusal("merge, old axis", "TIFF (GCPs|RPC)",
            "images of the same place cannot be joined along y",
            "Images of one place would lie over each other along y"),
    Refusal("merge, old axis", "N5 (edges|of Java)", "do not divide the length",
            "Only the last source may end within a chunk"),
    Refusal(CUBES, VOLUMES + "|TIFF (mask|stack of pages|OME.*|ImageJ)",
            "images with the axes y, x or band, y, x; one is read",
            "A cube is made of files with one image of rows and columns"),
    Refusal(CUBES, ANY, "it does not say where it lies",
            "A cube needs a place: an affine and a CRS", without=("place",)),
    Refusal(CUBES, "TIFF rotated", "a rotated image, whose rows are at no one y",
            "The axes of a cube run along rows and columns"),
    Refusal("to_raster", "TIFF OME of five axes|NRRD vectors",
            "Only 2D and 3D data arrays",
            "rioxarray writes two or three axes", TooManyDimensions),
    Refusal("to_raster|to_raster, one band",
            "(HDF5|FITS|kerchunk|VirtualiZarr|tifffile's references).*",
            "[xy] dimension not found", "rioxarray wants the axes y and x",
            MissingSpatialDimensionError),
    Refusal("to_raster, by name", ANY, "'band'",
            "The image has no axis of bands", KeyError, without=("bands",)),
]
# fmt: on
