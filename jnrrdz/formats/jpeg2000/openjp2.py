"""Components of any size and precision out of a codestream, through glymur's binding of libopenjp2.

May touch numpy, glymur (imported when called) and errors.  imagecodecs decodes what is regular;
this is for components that differ in precision, sign or size.  The library reads a path, which is
that of a file in memory where the system has such.
"""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError

INSTALL = "libopenjp2 is not installed: on Debian `apt-get install libopenjp2-7`, with conda `openjpeg`"
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


def binding() -> Any:
    """Return glymur's module of libopenjp2, or an error that says how to get the library."""
    try:
        from glymur.lib import openjp2  # noqa: PLC0415  half a second, for few files
    except ImportError as error:
        raise UnsupportedError(f"glymur does not import: {error}; pip install glymur", field="jpeg2000") from error
    if openjp2.OPENJP2 is None:
        raise UnsupportedError(INSTALL, field="jpeg2000")
    return openjp2


def decode_components(codestream: bytes, level: int) -> list[NDArray[np.int32]]:
    """Return the samples of every component at a resolution level."""
    library = binding()
    messages: list[str] = []
    handler = HANDLER(lambda text, _: messages.append((text or b"").decode(errors="replace").strip()))
    with ExitStack() as stack:
        path = stack.enter_context(_path(codestream))
        try:
            image = _decoded(library, stack, path, level, handler)
        except (library.OpenJPEGLibraryError, RuntimeError) as error:
            said = "; ".join(messages) or str(error)
            raise MalformedError(f"libopenjp2 does not decode the codestream: {said}", field="jpeg2000") from error
        return [_samples(image.comps[number]) for number in range(image.numcomps)]


def _decoded(library: Any, stack: ExitStack, path: str, level: int, handler: Any) -> Any:
    """Return the decoded image, which lives as long as `stack` does."""
    stream = library.stream_create_default_file_stream(path, True)  # noqa: FBT003  glymur's own signature: to read
    stack.callback(library.stream_destroy, stream)
    codec = library.create_decompress(library.CODEC_J2K)
    stack.callback(library.destroy_codec, codec)
    library.set_error_handler(codec, handler)
    parameters = library.set_default_decoder_parameters()
    parameters.cp_reduce = level
    library.setup_decoder(codec, parameters)
    image = library.read_header(stream, codec)
    stack.callback(library.image_destroy, image)
    library.decode(codec, stream, image)
    library.end_decompress(codec, stream)
    return image.contents


def _samples(component: Any) -> NDArray[np.int32]:
    if not component.data:
        raise MalformedError("a component without samples", field="jpeg2000")
    samples: NDArray[np.int32] = np.ctypeslib.as_array(component.data, (component.h, component.w)).copy()
    return samples


@contextmanager
def _path(data: bytes) -> Iterator[str]:
    """Give a path at which the library finds these bytes."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("codestream")
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile(suffix=".j2k", delete_on_close=False) as named:
        named.write(data)
        named.close()
        yield named.name
