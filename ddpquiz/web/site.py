"""The curriculum as a static site: all its pages as texts, whose links are checked before any page is written."""

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import unquote, urlsplit

from ddpquiz.atomic_file import replacing
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.lab import Lab
from ddpquiz.errors import UserError
from ddpquiz.learning.exchange import FORMAT, VERSION
from ddpquiz.learning.schedule import Weights
from ddpquiz.terminal.kit.style import plain
from ddpquiz.web.run_page import asset, policy, safe_json
from ddpquiz.web.site_concept import concept_data, concept_html, concept_path
from ddpquiz.web.site_index import index_html, search_index
from ddpquiz.web.site_markup import Markup

_LOADING = ("src", "srcset", "poster", "data", "action", "formaction", "background", "style")  # of no element here


def site_pages(
    known: Catalog, runs: Mapping[str, str], labs: Sequence[Lab] = (), pictures: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The pages of the site by their path; `runs` are the pages of recorded demos by their name, `pictures` SVG texts.

    Raises UserError if a link leads nowhere.
    """
    pages = {"index.html": _page("ddpquiz", index_html(known, runs, labs), {"search": [*search_index(known, labs)]})}
    for concept in known.concepts:
        here = [lab for lab in labs if lab.concept == concept.id]
        body = concept_html(concept, known, runs, here, pictures or {})
        data = {"questions": concept_data(concept)}
        pages[concept_path(concept)] = _page(concept.title, body, data)
    check_links(pages, {f"runs/{name}.html" for name in runs})
    return pages | {f"runs/{name}.html": page for name, page in runs.items()}


def _page(title: str, body: Markup, data: Mapping[str, Any]) -> str:
    style, script = asset("colors.css") + asset("site.css") + asset("pictures.css"), asset("site.js")
    weights = Weights()
    head = {
        "format": FORMAT,
        "version": VERSION,
        "weights": {**asdict(weights), "version": weights.version, "since": ""},
    }
    values = {
        "TITLE": escape(plain(title)),
        "POLICY": policy(style, script),
        "STYLE": style,
        "SCRIPT": script,
        "BODY": body,
        "DATA": safe_json(json.dumps({**head, **data}, separators=(",", ":"), allow_nan=False)),
    }
    return re.sub("__(TITLE|POLICY|STYLE|SCRIPT|BODY|DATA)__", lambda place: values[place[1]], asset("site.html"))


class PageLinks(HTMLParser):
    """The ids of a page, its links, and the attributes with which it would load something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in _LOADING or name == "href":
                self.loads.append(f"{tag} {name}={value}")


def check_links(pages: Mapping[str, str], others: set[str]) -> None:
    """Raise UserError if a link leads nowhere, an id is used twice, or a page would load something.

    `others` are the paths of files without places to link to.
    """
    read = {path: PageLinks(page) for path, page in pages.items()}
    for path, links in read.items():
        twice = next((name for at, name in enumerate(links.ids) if name in links.ids[:at]), None)
        if twice is not None:
            raise UserError(f"{path} would have two places named '{twice}', so no link could lead to the second.")
        if links.loads:
            raise UserError(f"{path} would load a file ({links.loads[0]}); pages of the site hold text only.")
        for link in links.links:
            if not _leads_somewhere(link, path, read, others):
                raise UserError(
                    f"{path} has a link to '{plain(link)}', which does not exist; correct it in the content."
                )


def _leads_somewhere(link: str, path: str, read: Mapping[str, PageLinks], others: set[str]) -> bool:
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    if parts.scheme or parts.netloc:
        return parts.scheme in ("https", "http") and bool(parts.netloc)
    target = normpath(join(dirname(path), unquote(parts.path))) if parts.path else path
    if target in others:
        return not parts.fragment or parts.fragment == "op=1"  # its first operation
    return target in read and (not parts.fragment or unquote(parts.fragment) in read[target].ids)


# The folder of a site: written only where nothing else lies, and only files of an earlier site are replaced

MARKER = ".ddpquiz-site"  # lists the files of the site, one per line
_HEAD = "ddpquiz site"
_NOT_WRITTEN = "The site cannot be written to {folder}: {why}."


def prepare_site(folder: Path) -> None:
    """Make the folder of a site; UserError if it holds any other file, or cannot be written."""
    try:
        _files_of_site(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise UserError(_NOT_WRITTEN.format(folder=folder, why=problem.strerror)) from None


def write_site(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages by their path, and remove those of an earlier site that are no longer among them.

    Raises UserError, before anything is written, if the folder holds any other file.
    """
    try:
        old = _files_of_site(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / MARKER, "\n".join([_HEAD, *sorted({*old, *pages})]) + "\n")  # so that a rest can be replaced
        for path, page in pages.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            _write(folder / path, page)
        for path in old - pages.keys():
            (folder / path).unlink(missing_ok=True)
        _write(folder / MARKER, "\n".join([_HEAD, *sorted(pages)]) + "\n")
    except OSError as problem:
        raise UserError(_NOT_WRITTEN.format(folder=folder, why=problem.strerror)) from None


def _files_of_site(folder: Path) -> set[str]:
    """The files that lie in a folder; UserError if one of them is not of a site."""
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name a new or empty one for the site.")
    present = {str(path.relative_to(folder).as_posix()) for path in _walked(folder)} - {MARKER}
    known: set[str] = set()
    marker = folder / MARKER
    if marker.is_file() and not marker.is_symlink():
        head, *lines = marker.read_text("utf-8", "replace").splitlines() or [""]
        known = set(lines) if head == _HEAD else set()
    if others := sorted(present - known):
        raise UserError(
            f"{folder} holds {others[0]}, which is not of a site of ddpquiz, so nothing was written; "
            "name a new or empty folder."
        )
    links = sorted(path for path in (*present, MARKER) if (folder / path).is_symlink())
    if links:
        raise UserError(f"{folder} holds the link {links[0]}, so nothing was written; name a new or empty folder.")
    return present


def _walked(folder: Path) -> list[Path]:
    """All files below a folder; a link to a folder counts as a file."""
    paths = []
    for top, folders, files in os.walk(folder):
        links = [name for name in folders if Path(top, name).is_symlink()]
        paths += [Path(top, name) for name in (*files, *links)]
    return paths


def _write(path: Path, text: str) -> None:
    with replacing(path) as fresh:
        fresh.write_text(text, "utf-8")
