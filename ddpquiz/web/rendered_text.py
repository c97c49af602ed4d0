"""The texts of content as HTML: paragraphs with `code` and **strong** words, code, and the Markdown of lessons."""

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from ddpquiz.terminal.kit import style
from ddpquiz.web.site_markup import Markup, element, joined

_TAGS = {"code": "code", "bold": "strong", "italic": "em"}
_DEEPER = 2  # levels that a heading of a lesson lies below those of the page


class _LessonHtml(RendererHTML):
    """Writes code so that it can be scrolled by keyboard, and headings below those of the page."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        del options, env
        kind = tokens[idx].info.split()[:1] == ["output"]
        return listing(tokens[idx].content, output=kind)

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        del options
        return str(env.pop("picture")) if "picture" in env else listing(tokens[idx].content)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        del options, env
        return f"<{_deeper(tokens[idx])}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        del options, env
        return f"</{_deeper(tokens[idx])}>"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        del options, env
        return "<th>" if tokens[idx + 1].content else "<td>"  # the corner of a table is no header

    def th_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        del options, env
        return "</th>\n" if tokens[idx - 1].content else "</td>\n"


def _deeper(token: Token) -> str:
    return f"h{min(int(token.tag[1]) + _DEEPER, 6)}"


_PARSER = MarkdownIt("commonmark", {"html": False}, renderer_cls=_LessonHtml)
_PARSER.enable("table").disable(["entity", "image", "autolink"])


def lesson_parts(text: str, picture: Markup | None = None) -> list[tuple[str, Markup]]:
    """The Markdown of a lesson in parts, each as its text and as HTML.

    A part is a paragraph with the code, lists and tables that follow it. A picture takes the place of the first
    indented drawing; in a text without a drawing it is the last part.
    """
    tokens = _PARSER.parse(style.plain(text))
    environment: dict[str, Any] = {"picture": picture} if picture else {}
    starts = [at for at, token in enumerate(tokens) if token.level == 0 and _begins(tokens, at)]
    parts = []
    for start, end in zip([0, *starts[1:]], [*starts[1:], len(tokens)], strict=True):
        part = tokens[start:end]
        words = " ".join(token.content for token in part if token.content)
        parts.append((words, Markup(_PARSER.renderer.render(part, _PARSER.options, environment))))
    return [*parts, *(("", left) for left in environment.values())]


def _begins(tokens: Sequence[Token], at: int) -> bool:
    """Whether a part begins here: at a heading, or at a paragraph that does not follow a heading."""
    after_heading = at > 0 and tokens[at - 1].type == "heading_close"
    return tokens[at].type == "heading_open" or (tokens[at].type == "paragraph_open" and not after_heading)


def spans(text: str) -> Markup:
    """A text of content with its code, strong and stressed words; line breaks of lists stay."""
    drawn = style.prose(text)
    parts: list[str] = []
    at = 0
    for span in sorted(drawn.spans, key=lambda each: each.start):
        words = drawn.plain[span.start : span.end]
        tag = _TAGS[str(span.style)]
        parts += [drawn.plain[at : span.start], element(tag, words.strip("`") if tag == "code" else words)]
        at = span.end
    return joined(*parts, drawn.plain[at:])


def paragraph(text: str, **attributes: object) -> Markup:
    """A text of content as a paragraph."""
    return element("p", spans(text), **{"class_": "prose", **attributes})


def listing(text: str, *, output: bool = False) -> Markup:
    """Lines of code, or what a program printed."""
    lines = element("code", style.code(text).plain)
    return element("pre", lines, class_="output" if output else None, tabindex=0)
