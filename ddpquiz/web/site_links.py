"""Links within the site: the sections of a page, and the pages of recorded runs."""

from collections.abc import Mapping

from ddpquiz.web.markup import Markup, element, joined


def page_contents(sections: Mapping[str, str]) -> Markup:
    """Return links to the sections of a page, given by their ids with their titles."""
    links = [element("a", title, href=f"#{name}") for name, title in sections.items()]
    inside = joined(*(joined(" · " if at else "", link) for at, link in enumerate(links)))
    return element("nav", element("p", "On this page: ", inside), aria_label="On this page")


def run_address(name: str) -> str:
    """Return where the first page finds the recorded run of a demo, at its first operation."""
    return f"runs/{name}.html#op=1"
