"""HTML as it is built: text is escaped unless it is already markup, so that no text of content becomes an element."""

from html import escape

from ddpquiz.terminal.kit.style import plain

_EMPTY = ("input", "br")  # elements without an end tag


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def element(tag: str, *inside: str, **attributes: object) -> Markup:
    """An element. `class_` becomes `class` and `data_item` `data-item`; True is an attribute without a value.

    Attributes that are None or False are left out, and so are the inner parts that are empty.
    """
    head = tag
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        head += f" {name.rstrip('_').replace('_', '-')}"
        if value is not True:
            head += f'="{escape(plain(str(value)))}"'
    if tag in _EMPTY:
        return Markup(f"<{head}>")
    return Markup(f"<{head}>{joined(*inside)}</{tag}>")


def joined(*parts: str) -> Markup:
    """Parts one after the other; what is not markup is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(plain(part), quote=False) for part in parts))
