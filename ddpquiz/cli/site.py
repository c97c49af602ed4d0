"""`ddpquiz site`: write the curriculum as a static site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli.output import say
from ddpquiz.cli.saving import page_of
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.labs import labs_of
from ddpquiz.curriculum.pictures import pictures
from ddpquiz.events import saved_run
from ddpquiz.events.run_state import RunState
from ddpquiz.paths import content_dir, recordings_dir
from ddpquiz.web.site import prepare_site, site_pages, write_site


def site(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder, or an earlier site.", metavar="DIR")],
) -> None:
    """Write the curriculum as a static site that works from disk and from any host.

    It has a page for each concept, with cards to grade, questions to answer and the tasks of labs, and a page for the
    recorded run of each demo. Progress stays in the browser; `ddpquiz import` reads the file that the site lets you
    download.
    """
    prepare_site(folder)  # before the pages are made, which takes long
    known = loading.load()
    runs = run_pages({link.run for concept in known.concepts for link in concept.demos})
    pages = site_pages(known, runs, labs_of([concept.id for concept in known.concepts]), picture_texts())
    write_site(folder, pages)
    size = sum(len(page.encode()) for page in pages.values()) / 1e6
    say(f"{len(pages)} pages, {size:.1f} MB; open {folder / 'index.html'} in a browser.")


def picture_texts() -> dict[str, str]:
    """The pictures that came with ddpquiz, by their names."""
    return {name: file.read_text("utf-8") for name, file in pictures(content_dir()).items()}


def run_pages(demos: set[str]) -> dict[str, str]:
    """The page of the saved run of each of these demos that has one."""
    pages = {}
    for name in sorted(demos):
        path = recordings_dir() / f"{name}.json"
        if path.is_file():
            events = saved_run.read(path)
            pages[name] = page_of(events, RunState.after(events), None, "../index.html#runs")
    return pages
