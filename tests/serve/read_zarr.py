"""Read arrays of plain Zarr with zarr-python where jnrrdz cannot be imported: what read_zarrita.mjs does.

`[{"url": ..., "path": ...}]` on stdin, a line of JSON for each on stdout.
"""

import hashlib
import json
import sys

import numpy as np
import zarr

sys.modules["jnrrdz"] = None  # importing it fails

for one in json.load(sys.stdin):
    array = zarr.open_group(one["url"], mode="r", zarr_format=3)[one["path"]]
    data = np.ascontiguousarray(array[...]).astype(array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(data.tobytes()).hexdigest()
    sys.stdout.write(json.dumps({"shape": list(data.shape), "dtype": data.dtype.name, "sha256": digest}) + "\n")
