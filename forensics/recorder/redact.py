"""Takes secrets out of text before it is written: environment, command line, exception texts, logs, paths and URLs.

Classes, in the order in which they are looked for:
  * url: user information in a URL, `https://USER:PASSWORD@host`;
  * name: the value of a variable, option, header or JSON member whose name says that it is secret;
  * token: shapes that providers give their keys (AKIA…, ghp_…, JSON web tokens, PEM blocks …);
  * entropy: strings of 24 characters and more that look drawn at random;
  * home: folders of users, which become `~`.
Everything runs in time linear in the text, and nothing here raises.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from forensics.recorder import secret_names
from forensics.recorder.guard import Note, nobody
from forensics.recorder.randomness import replace_random

MAX_CHARACTERS = 2**20
CLASSES = ("url", "name", "token", "entropy", "home")
# A value is judged by its beginning; what is judged secret goes as a whole.
_JUDGED = 128
# So far behind a name, on its line, are literals looked for that belong to it, and so many.
_STATEMENT, _LITERALS = 256, 4

_ASSIGNMENT = re.compile(
    r"""(?<![\w.\-]) (?P<name>[\w.\-]+) (?P<quote>\\?["'])? \]?
    (?P<separator> [ \t]{0,8} (?: => | =(?![=]) | :(?![=:/]) ) [ \t]{0,8} | (?:,[ \t]?|[ \t]{1,8}) (?=[^\s=:\-]) )""",
    re.VERBOSE,
)
# A value in quotes ends at the next quote of the same kind; within quotes (JSON in a string) both are escaped.
_QUOTED = re.compile(r"""(["'])((?:(?!\1)[^\\\n]|\\.)*)""")
_QUOTED_WITHIN = re.compile(r"""\\(["'])((?:[^\\\n]|\\(?!\1).)*)""")
_BARE = re.compile(r"[^\s\"'`]*")
_BARE_IN_QUERY = re.compile(r"[^\s\"'`&#]*")
_REST_OF_LINE = re.compile(r"[^\r\n\"'`]*")
# In a line of code, a literal that stands in for the value when there is no other: get("NAME", "this"), x or "this".
_OTHERWISE = re.compile(
    r"""(?:,|\bor\b|\belse\b) [ \t]{0,8} [rbuRBU]{0,2} (["']) ((?:(?!\1)[^\\\n]|\\.)*) \1 (?![ \t]{0,8}[:=])""",
    re.VERBOSE,
)
_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"))

_URL_USER = re.compile(r"(://)([^\s/'\"<>«]{1,512})@(?=[\w\[])")
_TOKENS = re.compile(
    r"""-----BEGIN\ (?!CERTIFICATE|PUBLIC)[^-\n]{1,60}-----
        [^-]{0,20000}(?:-{1,4}[^-]{1,20000}){0,4}(?:-----END\ [^-\n]{1,60}-----)?
    | (?<![A-Za-z0-9]) (?:
        (?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{16}(?![A-Za-z0-9])
      | LTAI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])
      | AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])
      | gh[opsur]_[A-Za-z0-9]{20,255}
      | github_pat_[A-Za-z0-9_]{20,255}
      | gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_\-]{16,255}
      | sk-(?=[A-Za-z_\-]{0,60}[0-9])[A-Za-z0-9_\-]{18,255}
      | [rs]k_(?:live|test)_[A-Za-z0-9]{10,255}
      | xox[a-z]-[A-Za-z0-9\-]{10,255} | xapp-[A-Za-z0-9\-]{10,255}
      | hf_[A-Za-z0-9]{28,64}(?![A-Za-z0-9_])
      | AIza[A-Za-z0-9_\-]{35} | ya29\.[A-Za-z0-9_\-]{20,1000}
      | npm_[A-Za-z0-9]{36} | pypi-[A-Za-z0-9_\-]{50,1000}
      | SG\.[A-Za-z0-9_\-]{16,40}\.[A-Za-z0-9_\-]{30,60}
      | glsa_[A-Za-z0-9_]{30,60} | dop_v1_[a-f0-9]{64} | shpat_[a-f0-9]{32} | lin_api_[A-Za-z0-9]{30,60}
      | ms-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
      | AGE-SECRET-KEY-1[A-Z0-9]{50,70}
      | [0-9]{8,10}:AA[A-Za-z0-9_\-]{32,36}
      | hooks\.slack\.com/services/[A-Za-z0-9/]{20,100}
      | eyJ[A-Za-z0-9_\-]{8,8000}\.[A-Za-z0-9_\-]{8,8000}(?:\.[A-Za-z0-9_\-]{0,8000})?
      | (?:[Bb]earer|BEARER|Basic|Token)[ ]+(?=[A-Za-z._~+/\-]{0,40}[0-9=])[A-Za-z0-9._~+/=\-]{12,8000}
    )""",
    re.VERBOSE,
)
_HOMES = re.compile(
    r"""(?:(?<![\w.~-])|(?<=/mnt/[a-z])) /(?:home|Users)/ (?![<$«{*]) [^\s"'/:;,()<>\[\]|\\]{1,64}
    | (?<![\w.~/-])/root(?![\w.-])
    | \b[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)[^\s"'/:;,()<>\[\]|\\]{1,64}""",
    re.VERBOSE,
)


class Redactor:
    """One redactor for a run.

    Args:
        home: the user's home folder, which becomes `~` wherever it lies; by default that of this process.
        note: told when a text cannot be examined, without a word of the text.

    Attributes:
        counts: class → how many were taken out so far.
    """

    def __init__(self, home: str | None = None, note: Note = nobody) -> None:
        self._note = note
        self.counts: dict[str, int] = dict.fromkeys(CLASSES, 0)
        home = os.path.expanduser("~") if home is None else home
        # A home like / or /data would take half of every path with it.
        self._own_home = re.compile(rf"(?<![\w.~-]){re.escape(home)}(?![\w.-])") if home.count("/") > 1 else None

    def text(self, value: str) -> str:
        """The text without secrets. What is beyond MAX_CHARACTERS is cut off; what cannot be examined is not shown."""
        try:
            text = str.__str__(value)
            cut = len(text) - MAX_CHARACTERS
            text = text[:MAX_CHARACTERS]
            text = _URL_USER.sub(self._user, text)
            text = self._assignments(text)
            text = _TOKENS.sub(lambda _: self._mark("token"), text)
            text = replace_random(text, lambda: self._mark("entropy"))
            if self._own_home:
                text = self._own_home.sub(self._home, text)
            text = _HOMES.sub(self._home, text)
            return text if cut <= 0 else f"{text}… ({cut} more characters were cut off)"
        except Exception as error:
            return self._unreadable(error)

    def mapping(self, name: str, value: Any) -> str:
        """The value of a variable of this name, e.g. of the environment; replaced as a whole when it is secret."""
        try:
            text = str.__str__(value) if isinstance(value, str) else str(value)
            if secret_names.holds_secret(str.__str__(name), text[:_JUDGED].strip()):
                return self._mark("name")
        except BaseException as error:  # a foreign object's str() may raise anything at all
            return self._unreadable(error)
        return self.text(text)

    def arguments(self, argv: Sequence[str]) -> list[str]:
        """A command line; an option's value may be an argument of its own."""
        shown: list[str] = []
        option = ""
        for item in argv:
            text = item if isinstance(item, str) else f"<{type(item).__name__}>"
            follows = option and not text.startswith("-")
            shown.append(self.mapping(option.lstrip("-"), text) if follows else self.text(text))
            option = text if text.startswith("-") and "=" not in text else ""
        return shown

    def _unreadable(self, error: BaseException) -> str:
        # Not the error itself: its text may hold what must not be shown.
        self._note("looking for secrets", RuntimeError(f"{type(error).__name__} in a text, which is left out"))
        return "«redacted:unreadable»"

    def _mark(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"«redacted:{kind}»"

    def _user(self, match: re.Match[str]) -> str:
        if match[2] == "git":  # everybody's user at a repository's address
            return match[0]
        return f"{match[1]}{self._mark('url')}@"

    def _home(self, match: re.Match[str]) -> str:
        self.counts["home"] += 1
        return "~"

    def _assignments(self, text: str) -> str:
        secret: list[tuple[int, int]] = []
        position = 0
        ends: dict[re.Pattern[str], tuple[int, int]] = {}
        while match := _ASSIGNMENT.search(text, position):
            position = match.end("name")
            if not _may_assign(match):
                continue
            start, end, quoted = _value(text, match, ends)
            judged = text[start : min(end, start + _JUDGED)]
            if not quoted and _is_code(text, match, judged):
                secret += _literals(text, match)
            elif not quoted and _in_prose(text, match, judged):
                continue
            elif secret_names.holds_secret(match["name"], judged, certain=_in_query(text, match)):
                secret.append((start, end))
                position = end
        parts: list[str] = []
        done = 0
        for start, end in sorted(secret):
            if start >= done:
                parts += (text[done:start], self._mark("name"))
                done = end
        return "".join((*parts, text[done:]))


def _literals(text: str, match: re.Match[str]) -> list[tuple[int, int]]:
    """Where literals stand, in the code that gives a name its value, that are this value when it has no other."""
    line = text[match.end() : match.end() + _STATEMENT].split("\n", 1)[0]
    return [
        (match.end() + found.start(2), match.end() + found.end(2))
        for found in islice(_OTHERWISE.finditer(line), _LITERALS)
        if secret_names.holds_secret(match["name"], found[2][:_JUDGED])
    ]


def _may_assign(match: re.Match[str]) -> bool:
    separator = match["separator"].strip(" \t")
    # Without a sign between them, only an option and what follows it belong together; with a comma, in a list's repr.
    if separator in ("", ",") and (not match["name"].startswith("-") or (separator == ",") != bool(match["quote"])):
        return False
    return secret_names.strength(match["name"]) > 0


def _in_query(text: str, match: re.Match[str]) -> bool:
    """Whether the name is a parameter of a URL's query, where `token=` means but one thing."""
    return match["separator"] == "=" and text[match.start() - 1 : match.start()] in ("?", "&")


def _value(text: str, match: re.Match[str], ends: dict[re.Pattern[str], tuple[int, int]]) -> tuple[int, int, bool]:
    """Where the value begins and ends, without its quotes, and whether it has any."""
    start = match.end()
    quoted = _QUOTED.match(text, start) or _QUOTED_WITHIN.match(text, start)
    if quoted:
        closed = text[quoted.end() : quoted.end() + 1] in ("\\", quoted[1])
        # A quote that nothing closes and that stands before a comma was itself the closing one.
        return (start, start, True) if not closed and quoted[2][:1] in ",;)]} " else (*quoted.span(2), True)
    pattern = _BARE
    if match["name"].lower() in _HEADERS and ":" in match["separator"]:
        pattern = _REST_OF_LINE
    elif _in_query(text, match):
        pattern = _BARE_IN_QUERY
    # Values without an end in sight may begin inside one another (a=a=a=…): their common end is looked for once.
    first, end = ends.get(pattern, (0, -1))
    if not first <= start <= end:
        found = pattern.match(text, start)
        end = found.end() if found else start
        ends[pattern] = (start, end)
    while end > start and text[end - 1] in ",;)]}>":
        end -= 1
    return start, end, False


def _in_prose(text: str, match: re.Match[str], value: str) -> bool:
    """Whether `name: word` is part of a sentence: a plain word after a colon, with more words behind it."""
    if match["separator"][-1:] not in (" ", "\t") or ":" not in match["separator"] or not value.isalpha():
        return False
    end = match.end() + len(value)
    rest = text[end : end + 40].split("\n", 1)[0].strip(" \t\r,.;)]}\"'")
    return bool(rest) and not rest.startswith("#")


_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _is_code(text: str, match: re.Match[str], value: str) -> bool:
    """Whether the value is a piece of Python: `token = self.token`, `password=password`, `key = get_key(x)`."""
    found = _NAME.match(value)
    if not found:
        return False
    stem, rest = found[0], text[match.end() + found.end() : match.end() + _JUDGED]
    spaced = "=" in match["separator"] and match["separator"].startswith(" ")
    if rest[:1] == "(" or (rest[:1] == "[" and spaced):
        return ")" in rest or spaced
    if stem != value:
        return False
    last = stem.rsplit(".", 1)[-1]
    if _letters(last) == _letters(match["name"].rsplit(".", 1)[-1]):
        return True
    # Words that speak of secrets are names of variables; other lone words may well be the secret itself.
    if stem.startswith(("self.", "args.", "cfg.", "config.", "os.environ")):
        return True
    return spaced and ("." in stem or secret_names.strength(match["name"]) == 1 or secret_names.strength(last) > 0)
