"""What the site's builder is told: pages from the checkout's root, navigation of whole folders, links that leave docs/.

mkdocs calls the functions by their names: https://www.mkdocs.org/user-guide/plugins/#events
"""

import posixpath
import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
ADDED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "reporting.md"}
"""Pages of the site that stand at the checkout's root, where people look for them."""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put each page of a folder into the navigation where it names `folder/*`; titles are the pages' own."""
    config.nav = [part for entry in config.nav or [] for part in _expanded(entry)]
    return config


def _expanded(entry: Any) -> list[Any]:
    if isinstance(entry, dict):
        ((title, below),) = entry.items()
        below = [below] if isinstance(below, str) and below.endswith("/*") else below
        return [{title: [part for one in below for part in _expanded(one)]}] if isinstance(below, list) else [entry]
    if not entry.endswith("/*"):
        return [entry]
    folder = ROOT / "docs" / entry.removesuffix("/*")
    pages = sorted((path.relative_to(ROOT / "docs").as_posix() for path in folder.rglob("*.md")), key=_without_ending)
    return sorted(pages, key=lambda page: page != f"{entry.removesuffix('/*')}/README.md")


def _without_ending(page: str) -> str:
    return page.removesuffix(".md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside of docs/."""
    for source, page in ADDED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        inside = LINK.sub(lambda match: match[0].replace("](docs/", "](").replace("](jnrrdz", "](../jnrrdz"), text)
        files.append(File.generated(config, page, content=inside))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add the benchmarks' figures; turn links that leave docs/ into links to the site's pages, or into names."""
    folder = posixpath.dirname(page.file.src_uri)
    if folder == "from":
        page.meta["hide"] = ["toc"]  # room for code in two columns
    if page.file.src_uri == "benchmarks.md":
        markdown += runpy.run_path(str(ROOT / "benchmarks" / "results.py"))["page"]()

    def rewritten(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        place = posixpath.normpath(posixpath.join(folder, target))
        if not place.startswith("../"):
            return match[0]
        name = place.removeprefix("../")
        if name in ADDED:
            return f"[{words}]({posixpath.relpath(ADDED[name], folder or '.')}{anchor})"
        if name == "README.md":
            return f"[{words}]({posixpath.relpath('README.md', folder or '.')})"
        return words if words in {name, f"`{name}`"} else f"{words} (`{name}`)"

    return LINK.sub(rewritten, markdown)
