"""Tells strings that were drawn at random (keys, passwords) from names that people gave to things.

A string is judged by its pairs of neighbouring letters: in a name they are those of words, in a random string they are
anything. `_PAIRS` scores each pair from 0 to 9, as round(4.5 + 1.2·ln(676·p)), where p is its share among the words of
the identifiers of Python's standard library and of MindSpore. Over 20,000 random strings of 24 letters and digits the
mean score was 2.9, and 99.5 % stayed below 4.7; of 1,600 identifiers as long, 99 % scored above 4.85.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

SHORTEST = 24
RANDOM_BELOW = 4.7
WORDS_RANDOM_BELOW = 3.6
# So much of a string is enough to judge it by.
_JUDGED = 1000

# One row for each first letter, one digit for each second letter.
_ROWS = """
15662352514766161767444441 52335221541532530443502131 62436326506533732546532130 53347332621423531454422330
64675553413667454777354642 41335521600422521544412130 42226134500434420543421011 61236201502322520434313030
55665551202668651567151405 20103000100000310110300000 31225231401303221142223020 63357322702623640255531150
64237211502342560153411120 63666573514434542367542131 45663452414667560755645311 62336324502622651645422040
00000000000101000210500000 73558452604455640566433240 53537335614433553367633140 63547426702543641665533353
45435430400556350656100100 51206111500231320222001100 51334214501214420442112100 22324212400221240125011221
12323211300334350244112111 30005100300001210001000000
"""
_PAIRS = _ROWS.split()
_CANDIDATE = re.compile(r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{24,}={0,2}")
_HASH_LENGTHS = frozenset((32, 40, 56, 64, 96, 128))
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_MANGLED = re.compile(r"_?_Z[A-Z]*\d")


def replace_random(text: str, replacement: Callable[[], str]) -> str:
    """Put a replacement where random strings are; of a path or a URL only its random part goes."""

    def judged(match: re.Match[str]) -> str:
        found = match[0]
        parts = found.split("/")
        if not any(len(part) >= SHORTEST and looks_random(part) for part in parts):
            # Base64 holds slashes of its own, so that no part between two of them need be long.
            before = text[match.start() - 1] if match.start() else " "
            whole = len(parts) > 1 and before not in "/.~:" and parts[0] and looks_random(found.replace("/", ""))
            return replacement() if whole else found
        return "/".join(replacement() if len(part) >= SHORTEST and looks_random(part) else part for part in parts)

    return _CANDIDATE.sub(judged, text)


def looks_random(text: str) -> bool:
    """Whether the text (letters, digits and a few separators) looks drawn at random. Common hashes and UUIDs do not."""
    text = text[:_JUDGED]
    if _MANGLED.match(text):
        return False
    split = re.split(r"[-_+=]", _UUID.sub("", text))
    pieces = [piece for piece in split if len(piece) >= 6 and not _known(piece)]
    joined = "".join(pieces)
    if len(joined) < 18 or _bits(joined) < 3.0:
        return False
    if _HEX.fullmatch(joined):
        return True
    pairs = [pair for piece in pieces for pair in _letter_pairs(piece.lower())]
    if len(pairs) < 8:
        letters = [character.isalpha() for character in joined]
        return sum(a != b for a, b in pairwise(letters)) >= len(joined) / 4
    if sum(ord(b) - ord(a) == 1 for a, b in pairs) > len(pairs) / 2:
        return False  # an alphabet
    # Words that are set apart speak for a name, whose letters may then be unusual (CusMatMulCubeFracz, x_qkv_matmul).
    words = _WORD.findall(joined)
    camel = len(words) > 1 and len(joined) / len(words) >= 3 and joined.isalpha()
    snake = len(split) > 1 and all(
        not piece or (piece.isalpha() and (piece.islower() or piece.isupper())) for piece in split
    )
    limit = WORDS_RANDOM_BELOW if camel or snake else RANDOM_BELOW
    return sum(int(_PAIRS[ord(a) - 97][ord(b) - 97]) for a, b in pairs) / len(pairs) < limit


def _known(piece: str) -> bool:
    return piece.isdigit() or (bool(_HEX.fullmatch(piece)) and (len(piece) in _HASH_LENGTHS or len(piece) < SHORTEST))


def _letter_pairs(piece: str) -> list[tuple[str, str]]:
    return [(a, b) for a, b in pairwise(piece) if "a" <= a <= "z" and "a" <= b <= "z"]


def _bits(text: str) -> float:
    """Shannon's entropy, in bits for each character."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
