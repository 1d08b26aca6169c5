"""Makes a picture that matplotlib drew fit to stand inside a page that allows no inline styles.

Style attributes become presentation attributes, the colours of the palette become classes (so that the page's dark
mode applies), ids get a prefix of their own, and a title and a description say what is shown.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

# The palette: role → the colour that stands for it on light ground. Each role is a class in report.css.
PALETTE = {
    "ink": "#1f2328",
    "muted": "#59636e",
    "paper": "#fffffe",
    "grid": "#d9dee4",
    "line": "#0a5aa6",
    "bar": "#4083be",
    "bad": "#b3420b",
    "early": "#7b4fb5",
    "zero": "#c9cfd6",
    **{
        f"heat{level}": colour
        for level, colour in enumerate(("#e3eef8", "#c3dbef", "#9bc2e2", "#6ba3d1", "#4083bd", "#1f62a2", "#0c4079"))
    },
}
_ROLES = {colour: role for role, colour in PALETTE.items()}
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_KEPT = frozenset(
    (
        *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-opacity"),
        *("opacity", "font-size", "font-weight", "text-anchor"),
    )
)
_NUMBER = re.compile(r"-?\d+\.\d+")


def finish(svg: str, prefix: str, title: str, description: str) -> str:
    """The picture as markup to stand in an HTML page.

    Args:
        svg: what matplotlib's SVG backend wrote.
        prefix: makes ids unique in the page.
        title, description: what the picture is, and what it shows, for those who cannot see it.
    """
    ElementTree.register_namespace("", _SVG.strip("{}"))
    # The text was written by matplotlib a moment ago, with every name escaped; it is no foreign XML.
    root = ElementTree.fromstring(svg)  # noqa: S314
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rsplit("}", 1)[-1] in ("metadata", "style"):
                parent.remove(child)
    used = {name for element in root.iter() for name in _references(element)}
    for element in root.iter():
        _restyle(element)
        _rename(element, prefix, used)
        element.tail = None
        if element.text and not element.text.strip():
            element.text = None
    _unwrap(root)
    root.attrib = {
        "viewBox": root.get("viewBox", "0 0 1 1"),
        "class": "chart",
        "role": "img",
        "aria-labelledby": f"{prefix}-title {prefix}-desc",
    }
    for index, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{_SVG}{tag}", {"id": f"{prefix}-{tag}"})
        element.text = text
        root.insert(index, element)
    return ElementTree.tostring(root, encoding="unicode")


def _references(element: ElementTree.Element) -> list[str]:
    found = re.findall(r"url\(#([^)]+)\)", " ".join(element.attrib.values()))
    return [*found, element.get(_HREF, "")[1:]]


def _restyle(element: ElementTree.Element) -> None:
    style = element.attrib.pop("style", "")
    classes = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name not in _KEPT:
            continue
        element.set(name, value)
        if name in ("fill", "stroke") and value in _ROLES:
            classes.append(f"{name[0]}-{_ROLES[value]}")
    if classes:
        element.set("class", " ".join(classes))


def _rename(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    name = element.attrib.pop("id", None)
    if name in used:
        element.set("id", f"{prefix}-{name}")
    if _HREF in element.attrib:
        element.set("href", f"#{prefix}-{element.attrib.pop(_HREF)[1:]}")
    for key, value in element.attrib.items():
        if "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{prefix}-"))
        elif key in ("d", "x", "y", "transform", "width", "height"):
            element.set(key, _NUMBER.sub(lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), value))
    if "d" in element.attrib:
        element.set("d", " ".join(element.attrib["d"].split()))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]


def _unwrap(parent: ElementTree.Element) -> None:
    """Drop groups that say nothing."""
    for child in list(parent):
        _unwrap(child)
        if child.tag == f"{_SVG}g" and not child.attrib:
            position = list(parent).index(child)
            parent.remove(child)
            for offset, grandchild in enumerate(list(child)):
                parent.insert(position + offset, grandchild)
