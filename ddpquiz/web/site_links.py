"""Links within the site: the sections of a page, and the pages of recorded runs."""

from collections.abc import Mapping

from ddpquiz.web.markup import Markup, element, joined


def sections_with_links(sections: Mapping[str, tuple[str, Markup]]) -> Markup:
    """Return the sections of a page by their ids, each with title and content, after links to them; skip empty ones."""
    present = {name: section for name, section in sections.items() if section[1]}
    links = (joined(" · " if at else "", _link(name, present[name][0])) for at, name in enumerate(present))
    return joined(
        element("nav", element("p", "On this page: ", *links), aria_label="On this page"),
        *(
            element("section", element("h2", title, id=f"{name}-title"), inside, id=name)
            for name, (title, inside) in present.items()
        ),
    )


def _link(name: str, title: str) -> Markup:
    return element("a", title, href=f"#{name}")


def run_address(name: str) -> str:
    """Return where the first page finds the recorded run of a demo, at its first operation."""
    return f"runs/{name}.html#op=1"
