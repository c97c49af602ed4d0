"""The curriculum as a static site: all its pages as texts, whose links are checked before any page is written."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from html.parser import HTMLParser
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import unquote, urlsplit

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.lab import Lab
from ddpquiz.errors import UserError
from ddpquiz.learning.exchange import FORMAT, VERSION
from ddpquiz.learning.schedule import Weights
from ddpquiz.terminal.kit.style import plain
from ddpquiz.web.markup import Markup
from ddpquiz.web.run_page import asset, policy, safe_json
from ddpquiz.web.site_concept import concept_data, concept_html
from ddpquiz.web.site_index import index_html, search_index

_LOADING = ("src", "srcset", "poster", "data", "action", "formaction", "background", "style")  # of no element here


def site_pages(known: Catalog, runs: Mapping[str, str], labs: Sequence[Lab] = ()) -> dict[str, str]:
    """Return the pages of the site by their path; `runs` are the pages of recorded demos by their name.

    Raises UserError if a link leads nowhere.
    """
    pages = {"index.html": _page("ddpquiz", index_html(known, runs, labs), {"search": [*search_index(known, labs)]})}
    for concept in known.concepts:
        here = [lab for lab in labs if lab.concept == concept.id]
        body, data = concept_html(concept, known, runs, here), {"questions": concept_data(concept)}
        pages[f"concepts/{concept.id}.html"] = _page(concept.title, body, data)
    check_links(pages, {f"runs/{name}.html" for name in runs})
    return pages | {f"runs/{name}.html": page for name, page in runs.items()}


def _page(title: str, body: Markup, data: Mapping[str, Any]) -> str:
    style, script = asset("colors.css") + asset("site.css"), asset("site.js")
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
    return re.sub("__(TITLE|POLICY|STYLE|SCRIPT|BODY|DATA)__", lambda found: values[found[1]], asset("site.html"))


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
    for path, found in read.items():
        twice = next((each for at, each in enumerate(found.ids) if each in found.ids[:at]), None)
        if twice is not None:
            raise UserError(f"{path} would have two places named '{twice}', so no link could lead to the second.")
        if found.loads:
            raise UserError(f"{path} would load a file ({found.loads[0]}); pages of the site hold text only.")
        for link in found.links:
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
