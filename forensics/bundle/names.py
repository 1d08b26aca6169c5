"""Names of parameters as names of HDF5 links, and back: a slash would nest, a dot alone means something else."""

from __future__ import annotations

from collections.abc import Container
from urllib.parse import unquote

from forensics.bundle.content import utf8

# Names that a section's own datasets and groups have.
RESERVED = frozenset({"json", "tensors"})
EMPTY = "%"


def link_name(name: str, taken: Container[str] = ()) -> str:
    """The link for a parameter's name, other than those that are taken. `name_of` gives back the name as `utf8` has it.

    Names that are the same by then are told apart by a number after "%~".
    """
    safe = utf8(name).decode().replace("%", "%25").replace("/", "%2F")
    if safe in RESERVED:
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if not safe.strip("."):
        safe = safe.replace(".", "%2E") or EMPTY
    candidate, count = safe, 1
    while candidate in taken:
        count += 1
        candidate = f"{safe}%~{count}"
    return candidate


def name_of(link: bytes) -> str:
    """The name that a link stands for. Raises UnicodeDecodeError when it is no UTF-8, as no bundle's is."""
    text = link.decode("utf-8")
    return "" if text == EMPTY else unquote(text, errors="replace")
