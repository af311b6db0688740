"""Print the JavaScript packages that the viewer is bundled from as an SBOM (CycloneDX 1.6).

`npm sbom` does not take packages from a folder, of which the viewer has two.  The list is that of LICENSES.txt, which
the viewer's build writes from what it bundled.
"""

import json
import re
from pathlib import Path

LICENSES = Path(__file__).parents[2] / "jnrrdz" / "server" / "viewer" / "LICENSES.txt"
PACKAGE = re.compile(r"^(@?[\w./-]+) (\d[\w.+-]*) \(([^)]+)\)\n=+$", re.MULTILINE)


def packages(text: str) -> list[tuple[str, str, str]]:
    """Return name, version and licence of each package."""
    return PACKAGE.findall(text)


def sbom(text: str) -> dict[str, object]:
    """Return the document: a component for each package."""
    components = [
        {
            "type": "library",
            "name": name,
            "version": version,
            "licenses": [{"expression": licence}],
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{version}",
        }
        for name, version, licence in packages(text)
    ]
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}


if __name__ == "__main__":
    print(json.dumps(sbom(LICENSES.read_text(encoding="utf-8")), indent=2))
