"""The pictures of lessons: SVG files beside the content, which the site draws where a lesson names them.

A picture says what is where, and never how it looks: its shapes have classes, and the style sheet of the site gives
these their colors, for light and dark screens.
"""

from pathlib import Path
from xml.parsers import expat

_FOLDER = "pictures"
_NAMESPACE = "http://www.w3.org/2000/svg"
_MAY_HAVE: dict[str, set[str]] = {  # the attributes of each element of a picture, besides `class`
    "svg": {"xmlns", "viewBox", "role"},
    "title": set(),
    "desc": set(),
    "rect": {"x", "y", "width", "height", "rx"},
    "path": {"d"},
    "text": {"x", "y"},
}


def pictures(content: Path) -> dict[str, Path]:
    """The files of a content folder's pictures by their names."""
    return {path.stem: path for path in sorted((content / _FOLDER).glob("*.svg")) if path.is_file()}


def faults(picture: Path) -> list[tuple[int, int, str]]:
    """What is wrong with a picture: line, column, and what would be right. OSError if it cannot be read.

    A picture without faults loads nothing, runs nothing, has no color of its own, and says in words what it shows.
    """
    return _Reader(picture.read_bytes()).faults


class _Reader:
    """Reads a picture, and collects its faults."""

    def __init__(self, svg: bytes) -> None:
        self.faults: list[tuple[int, int, str]] = []
        self._inside: list[str] = []
        self._words = dict.fromkeys(("title", "desc"), "")
        self._parser = parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._begin, self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = lambda *_: self._complain("a picture has no DOCTYPE")
        try:
            parser.Parse(svg, True)
        except expat.ExpatError as problem:
            self._complain(f"not valid XML: {expat.ErrorString(problem.code)}")
            return
        missing = [name for name, words in self._words.items() if not words]
        self.faults += [(1, 1, f"`<{name}>` is missing or empty; say in words what is shown") for name in missing]

    def _complain(self, text: str) -> None:
        self.faults.append((self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1, text))

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if not self._inside and (name, attributes.get("xmlns"), attributes.get("role")) != ("svg", _NAMESPACE, "img"):
            self._complain(f'a picture begins with `<svg xmlns="{_NAMESPACE}" viewBox="0 0 360 ..." role="img">`')
        self._inside.append(name)
        if name not in _MAY_HAVE:
            self._complain(f"`<{name}>` is not allowed; a picture consists of {', '.join(_MAY_HAVE)}")
            return
        for attribute in sorted(attributes.keys() - _MAY_HAVE[name] - {"class"}):
            self._complain(f"`{attribute}` is not allowed here; a class of ddpquiz/web/pictures.css gives it its look")

    def _end(self, _: str) -> None:
        self._inside.pop()

    def _text(self, text: str) -> None:
        if self._inside[-1] in self._words:
            self._words[self._inside[-1]] += text.strip()
