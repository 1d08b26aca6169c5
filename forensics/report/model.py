"""What a report shows, as plain values: words are chosen, numbers have units, nothing has markup.

All text in here is visible text of limited length (see `speech.visible`), but not escaped for any markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "bad", "warn", "good", "quiet"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table. `link` is the fragment that it leads to, `anchor` the one that it is."""

    text: str
    tone: Tone = ""
    link: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class Column:
    """`kind`: how the cells are set: prose, an identifier, or a number."""

    label: str
    kind: Literal["text", "name", "number"] = "text"


@dataclass(frozen=True)
class Table:
    """`more` says how many rows were left out; `marked` is the row that everything is about.

    `rest` are rows that are left out too, but shown on demand where that can be; `beyond` says what even it leaves out.
    `earlier`: the rows on demand come before the others, not after them.
    `sorts` tells that the order of the rows is not itself what the table says. `paths` says where in the bundle it
    comes from, `anchor` is its own fragment.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: str = ""
    marked: int | None = None
    rest: tuple[tuple[Cell, ...], ...] = ()
    beyond: str = ""
    sorts: bool = False
    paths: tuple[str, ...] = ()
    anchor: str = ""
    earlier: bool = False

    @property
    def leading(self) -> int:
        """How many columns of names come before columns of numbers alone; 0 for any other arrangement."""
        kinds = [column.kind for column in self.columns]
        count = kinds.index("number") if "number" in kinds else 0
        return count if set(kinds[:count]) == {"name"} and set(kinds[count:]) == {"number"} else 0


@dataclass(frozen=True)
class Fact:
    """A label and its value. `detail` is the longer truth behind the value."""

    label: str
    value: str
    detail: str = ""
    kind: Literal["text", "name", "number"] = "text"


@dataclass(frozen=True)
class CodeLine:
    """A line of source; `here` marks the one that it is about."""

    number: int
    text: str
    here: bool


@dataclass(frozen=True)
class Quote:
    """Source code with its context. `note` says what the line is where it is not the fault itself."""

    file: str
    line: int
    function: str
    lines: tuple[CodeLine, ...]
    note: str = ""


@dataclass(frozen=True)
class Contents:
    """What is in the bundle: a table for each section, and the fragments that can be led to."""

    tables: tuple[Table, ...]
    anchors: frozenset[str]


@dataclass(frozen=True)
class RulePage:
    """A rule explained: its summary, its parts (title, text), what it needs, its limits."""

    rule: str
    anchor: str
    summary: str
    parts: tuple[tuple[str, str], ...]
    needs: str
    limits: tuple[Fact, ...]


@dataclass(frozen=True)
class VerdictView:
    """The first thing that is read. `meaning` of the cause's id is empty where the headline says it already.

    `sure` is how it is known and how sure the cause is; `why`, why it was this step and none before.
    """

    cause: str
    meaning: str
    headline: str
    percent: str
    status: str
    tone: Tone
    facts: tuple[Fact, ...]
    quote: Quote | None
    todo: tuple[str, ...]
    lead: str
    sure: str
    why: str = ""


@dataclass(frozen=True)
class Link:
    """One link of the causal chain."""

    rule: str
    role: str
    role_word: str
    when: str
    cause: str
    summary: str
    anchor: str = ""


@dataclass(frozen=True)
class FindingView:
    """A finding with its evidence. `anchor` is its own fragment, `page` that of its rule's explanation."""

    rule: str
    cause: str
    severity: str
    severity_word: str
    role_word: str
    certainty: str
    when: str
    decides: bool
    summary: str
    explanation: str
    remedy: tuple[str, ...]
    evidence: Table | None
    tone: Tone = ""
    where: str = ""
    anchor: str = ""
    page: str = ""


@dataclass(frozen=True)
class OriginView:
    """The first break, looked at closely."""

    sentence: str
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class Trace:
    """One exception of the chain, or one thread: its type or name, its message, its frames, innermost last."""

    type: str
    message: tuple[str, ...]
    frames: Table
    quote: Quote | None


@dataclass(frozen=True)
class Group:
    """A named list of facts."""

    name: str
    facts: tuple[Fact, ...]
    more: str = ""
    folded: bool = False


@dataclass(frozen=True)
class RulesView:
    """Every rule's answer; `changed` says which limits were the user's own, and is empty when none was."""

    summary: str
    tables: tuple[Table, ...]
    changed: str = ""


@dataclass(frozen=True)
class Completeness:
    """Whether the bundle is whole, and what it lacks; `damaged` is what a sound bundle never is."""

    complete: bool
    sentence: str
    lacking: tuple[Fact, ...]
    damaged: bool = False


@dataclass(frozen=True)
class ReportView:
    """A whole report."""

    language: str
    title: str
    identity: str
    subject: tuple[Fact, ...]
    run: str
    rank: str
    verdict: VerdictView
    chain: tuple[Link, ...]
    origin: OriginView | None
    exceptions: tuple[Trace, ...]
    threads: tuple[Trace, ...]
    trajectory: Table | None
    gradients: Table | None
    batch: Table | None
    weights: Table | None
    events: Table | None
    findings: tuple[FindingView, ...]
    rules: RulesView
    environment: tuple[Group, ...]
    completeness: Completeness
    contents: Contents
    rule_pages: tuple[RulePage, ...] = ()
    ranks: Table | None = None
    bundle: str = ""
    fingerprint: str = ""
    footer: str = ""
