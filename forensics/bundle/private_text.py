"""Takes out of text what a stranger need not know: folders, addresses, machines, lines of source.

Secrets are the recorder's business and are gone before a bundle is written. What is left names people's folders and
machines, and quotes their code; a copy for a ticket does without. Everything runs in time linear in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

# In the order in which they are looked for.
CLASSES = ("source", "url", "address", "host", "path")

_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s\"'<>`«»]{1,2000}")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")
_NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_PIECE = r"[^\s\\/\"'`:;,()<>\[\]|{}=*?]{1,255}"
_PATH = re.compile(rf"(?<![\w./\\…~:-])(?:~[\w-]{{0,64}}|[A-Za-z]:)?(?:[\\/]{{1,2}}{_PIECE}){{2,60}}")
# Where a library's path begins to say which library it is.
_LIBRARY = re.compile(r"(?:site-packages|dist-packages|lib[\\/]{1,2}python3[.\d]*)[\\/]")
_QUOTED = re.compile(r"[\"']((?:~|[A-Za-z]:)?[\\/][^\"'\n]{1,1000})[\"']")
# MindSpore and Python quote the line of the program below the place that they name, with signs beneath it.
_PLACE = re.compile(r"""\bFile "[^"\n]{1,1000}", line \d{1,9}|\bIn file [^\n]{1,1000}:\d{1,9}""")
_SIGNS = re.compile(r"\s*[~^][\s~^]*$")


class Cleaner:
    """Cleans the texts of one bundle.

    Args:
        hosts: names of machines that must not be told.
        secrets: what a text passes first: the recorder's redactor, for bundles whose writer knew fewer secrets.

    Attributes:
        counts: class → how often something was taken out.
    """

    def __init__(self, hosts: Iterable[str] = (), secrets: Callable[[str], str] = str) -> None:
        self.counts: Counter[str] = Counter()
        self._secrets = secrets
        # A short name, or a common one, would take half of every text with it.
        named = sorted({host for host in hosts if len(host) > 3 and host != "localhost"}, key=len, reverse=True)[:20]
        self._hosts = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, named))})(?![\w-])") if named else None

    def text(self, text: str) -> str:
        """The text without what is private."""
        text = self._secrets(text)
        if "\n" in text:
            text = self._without_source(text)
        text = _URL.sub(lambda _: self._mark("url"), text)
        text = _MAIL.sub(lambda _: self._mark("address"), text)
        text = _NUMBER.sub(lambda _: self._mark("address"), text)
        if self._hosts is not None:
            text = self._hosts.sub(lambda _: self._mark("host"), text)
        text = _QUOTED.sub(lambda found: found[0][0] + self.path(found[1]) + found[0][-1], text)
        return _PATH.sub(lambda found: self._shortened(found[0]), text)

    def path(self, text: str) -> str:
        """A text that is a path as a whole, e.g. with blanks in it: its last part, a library's from its name on."""
        return self._shortened(text) if re.search(r"[\\/][^\\/]*[\\/]", text) and not _URL.match(text) else text

    def _mark(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"«removed:{kind}»"

    def _shortened(self, path: str) -> str:
        library = _LIBRARY.search(path)
        kept = path[library.start() :] if library else re.split(r"[\\/]", path.rstrip("\\/"))[-1]
        self.counts["path"] += 1
        return f"…/{kept}"

    def _without_source(self, text: str) -> str:
        kept: list[str] = []
        below_place = False
        for line in text.split("\n"):
            if _SIGNS.match(line):
                if kept and not _PLACE.search(kept[-1]) and kept[-1].strip() not in ("", "…"):
                    kept[-1] = self._left_out(kept[-1])
                continue
            place = bool(_PLACE.search(line))
            quoted = below_place and not place and line[:1].isspace() and line.strip() not in ("", "…")
            kept.append(self._left_out(line) if quoted else line)
            below_place = place
        return "\n".join(kept)

    def _left_out(self, line: str) -> str:
        self.counts["source"] += 1
        return line[: len(line) - len(line.lstrip())] + "…"
