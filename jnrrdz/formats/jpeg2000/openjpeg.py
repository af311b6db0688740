"""Codestreams decoded by libopenjp2, through glymur's binding (the extra `openjp2`).

It decodes components that differ in precision, sign or size, and areas of a tile.  Each call has its own codec and
stream, which are closed on errors too: it is safe to use from many threads.
"""

import ctypes
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.errors import MalformedError, UnsupportedError

INSTALL = "libopenjp2 is not installed: on Debian `apt-get install libopenjp2-7`, with conda `openjpeg`"
EXTRA = "pip install 'jnrrdz[openjp2]'"
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


def binding() -> Any:
    """Return glymur's module of libopenjp2; refuse with how to get what is missing."""
    try:
        from glymur.lib import openjp2  # noqa: PLC0415  half a second, for few files
    except ImportError as error:
        raise UnsupportedError(
            f"components that differ in precision, sign or size need glymur, which does not import ({error}): {EXTRA}",
            field="jpeg2000",
        ) from error
    if openjp2.OPENJP2 is None:
        raise UnsupportedError(INSTALL, field="jpeg2000")
    return openjp2


def decode_components(
    codestream: bytes,
    level: int,
    components: Sequence[int] = (),
    area: tuple[int, int, int, int] | None = None,
) -> list[NDArray[np.int32]]:
    """Return the samples of some components (all where none is named) at a level.

    Their sizes and precisions may differ.  A component that is not named may have no samples.  `area` is the part of
    the reference grid that is decoded: left, top, right, bottom.
    """
    library = binding()
    messages: list[str] = []
    handler = HANDLER(lambda text, _: messages.append((text or b"").decode(errors="replace").strip()))
    with ExitStack() as stack:
        path = stack.enter_context(_path(codestream))
        try:
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
            if components:
                library.set_decoded_components(codec, list(components))
            if area is not None:
                library.set_decode_area(codec, image, *area)
            library.decode(codec, stream, image)
            library.end_decompress(codec, stream)
        except (library.OpenJPEGLibraryError, RuntimeError) as error:
            reason = "; ".join(messages) or str(error)
            raise MalformedError(f"libopenjp2 does not decode the codestream: {reason}", field="jpeg2000") from error
        planes = []
        for component in image.contents.comps[: image.contents.numcomps]:
            if not component.data:
                raise MalformedError("a component without samples", field="jpeg2000")
            planes.append(np.ctypeslib.as_array(component.data, (component.h, component.w)).copy())
        return planes


@contextmanager
def _path(data: bytes) -> Iterator[str]:
    """Give a path at which the library finds these bytes: that of a file in memory where the system has such."""
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
