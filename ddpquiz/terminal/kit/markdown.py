"""The Markdown of a lesson as a terminal shows it, in the colors of the other text."""

from collections.abc import Iterator
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.markdown import (
    CodeBlock,
    Heading,
    Markdown,
    MarkdownContext,
    MarkdownElement,
    Paragraph,
    TableDataElement,
    TableElement,
)
from rich.padding import Padding
from rich.table import Table

from ddpquiz.terminal.kit.highlight import python
from ddpquiz.terminal.kit.layout import Barred
from ddpquiz.terminal.kit.line_wrap import Prose
from ddpquiz.terminal.kit.style import code, plain

_INDENT = 4


class _Paragraph(Paragraph):
    """A paragraph, drawn as prose."""

    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = Prose()


class _Cell(TableDataElement):
    """A cell of a table, drawn as prose."""

    def __init__(self, justify: JustifyMethod) -> None:
        super().__init__(justify)
        self.content = Prose(justify=justify)


class _Heading(Heading):
    """A heading at the left, at any depth."""

    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = Prose()

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[RenderableType]:
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    """Code or a drawing, without a background, which would be hard to read on light terminals; output has a bar."""

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[RenderableType]:
        text = str(self.text)
        drawn: dict[str, RenderableType] = {"python": python(text), "output": Barred(code(text, ""), "quiet")}
        yield Padding(drawn.get(self.lexer_name, code(text)), (0, 0, 0, _INDENT))


class _Table(TableElement):
    """A table without empty lines above and below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
                yield table


class _Page(Markdown):
    """Markdown that shows every address, and shows HTML as text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "paragraph_open": _Paragraph,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
        "td_open": _Cell,
        "th_open": _Cell,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["entity", "image", "autolink"])
        self.parsed = parser.parse(text)
        for token in [child for block in self.parsed for child in block.children or []]:
            if token.type == "code_inline" and "`" not in token.content:
                token.content = f"`{token.content}`"


def markdown(text: str) -> RenderableType:
    """Draw Markdown that came from a content file."""
    return _Page(plain(text))
