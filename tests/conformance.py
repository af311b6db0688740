"""Run the conformance script with an option of the scan: the script itself calls `jnrrdz.index(file, refs)` only.

`python tests/conformance.py SCRIPT CODECS CORPUS [what the script takes]`; jnrrdz is imported once, before the script
forks a child for each file.
"""

import importlib.util
import sys
from functools import partial
from pkgutil import resolve_name

import jnrrdz
from jnrrdz import codecs, formats


def main() -> None:
    """Load the script and run it with the rest of the arguments."""
    script, mode, *arguments = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("conformance", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in codecs.__all__:
        getattr(codecs, name)
    for fmt in formats.FORMATS:
        for function in filter(None, (fmt.decoders, fmt.scan)):
            resolve_name(function)
    _ = jnrrdz.open_group
    jnrrdz.index = partial(jnrrdz.index, codecs=mode)
    sys.argv = [script, *arguments]
    module.main()


if __name__ == "__main__":
    main()
