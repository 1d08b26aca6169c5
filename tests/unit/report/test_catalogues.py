"""Every sentence that a report can say is translated. The sources are read here in another way than make messages."""

from __future__ import annotations

import ast
import gettext
import inspect
import re
import string
import sys
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

from forensics.analysis.registry import all_rules
from forensics.bundle import schema
from forensics.report.language import DOMAIN, LANGUAGES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
LOCALE = ROOT / "forensics" / "report" / "locale"
MARKS = {"t", "message", "say", "Message"}
# Calls that pass on what was marked elsewhere.
PASSING = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def name_of(call: ast.Call) -> str:
    """The name by which a function is called, without what stands before the last dot."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def of_python(source: str, where: str = "") -> dict[str, str]:
    """Template → where it stands. A template that cannot be collected is an error."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and name_of(node) in MARKS and node.args:
            first = node.args[0]
            place = f"{where}:{node.lineno}"
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found[first.value] = place
            else:
                assert isinstance(first, PASSING), f"{place}: give a literal to {name_of(node)}()"
    return found


def of_template(source: str, where: str = "") -> dict[str, str]:
    """The same of an HTML template."""
    found = {}
    for call in Environment(autoescape=True).parse(source).find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == "t":
            assert isinstance(call.args[0], nodes.Const), f"{where}:{call.lineno}: give a literal to t()"
            found[call.args[0].value] = f"{where}:{call.lineno}"
    return found


def of_signatures(source: str, where: str = "") -> dict[str, str]:
    """The remedies of a file of signatures."""
    entries = tomllib.loads(source)["signature"]
    return {text: f"{where}: {entry['id']}" for entry in entries for text in entry["remedy"]}


def of_schema() -> dict[str, str]:
    """What the bundle's sections and columns hold."""
    found: dict[str, str] = {}
    for section in schema.SECTIONS:
        place = f"the schema's section {section.name}"
        found |= {section.description: place, section.tensors: place}
        found |= {column.description: place for _, columns in section.tables for column in columns}
    return found


def of_rules() -> dict[str, str]:
    """The pages of the rules: a docstring's first line, and what follows each of its headings, on one line each."""
    found = {}
    for rule in all_rules():
        text = inspect.cleandoc(type(rule).__doc__ or "")
        for part in re.split(r"^(?:Symptom|Why|What to do):\s*", text, flags=re.MULTILINE):
            found[" ".join(part.split())] = f"the page of the rule {rule.id}"
    return found


def templates() -> dict[str, str]:
    """All of them."""
    found: dict[str, str] = {**of_schema(), **of_rules()}
    for folder, pattern, read in (
        ("forensics/analysis", "*.py", of_python),
        ("forensics/report", "*.py", of_python),
        ("templates", "*.j2", of_template),
        ("forensics/analysis/signatures", "*.toml", of_signatures),
    ):
        for file in sorted((ROOT / folder).rglob(pattern)):
            found.update(read(file.read_text("utf-8"), str(file.relative_to(ROOT))))
    return {text: place for text, place in found.items() if text}


def catalogue(language: str) -> dict[str, str]:
    """Template → translation, as reports read it."""
    with (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.mo").open("rb") as stream:
        found: dict[str, str] = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
    return {text: translation for text, translation in found.items() if text}


def fields(template: str) -> list[str]:
    """The names between braces, sorted."""
    return sorted(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_sentence_is_translated(language: str) -> None:
    known = catalogue(language)
    lacking = [f"{place}: {text!r}" for text, place in templates().items() if not known.get(text, "").strip()]
    assert not lacking, f"make messages, then translate into {language}:\n" + "\n".join(lacking)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_translations_have_the_fields_of_their_sentence(language: str) -> None:
    known = catalogue(language)
    wrong = {text: known[text] for text in known if fields(text) != fields(known[text])}
    assert not wrong


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_code_in_a_translation_is_that_of_its_sentence(language: str) -> None:
    known = catalogue(language)
    wrong = {text: known[text] for text in known if text.split("`")[1::2] != known[text].split("`")[1::2]}
    assert not wrong


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_catalogues_hold_nothing_else_and_nothing_unsure(language: str) -> None:
    assert set(catalogue(language)) <= set(templates()), "make messages"
    text = (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.po").read_text("utf-8")
    assert "fuzzy" not in text
    assert "#~" not in text


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_the_compiled_catalogue_is_that_of_its_source(language: str) -> None:
    pofile = pytest.importorskip("babel.messages.pofile", reason="Babel is not installed")
    with (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.po").open("rb") as stream:
        source = {item.id: item.string for item in pofile.read_po(stream) if item.id and item.string}
    assert source == catalogue(language), "make messages"


def test_sentences_are_found_wherever_they_stand() -> None:
    assert of_python('x = {"a": t("one " "two", n=1)}; self.say("three"); other("four")') == {
        "one two": ":1",
        "three": ":1",
    }
    assert of_template('{% if x %}{{ m.f(t("five {n}", n=1)) }}{% endif %}') == {"five {n}": ":1"}
    assert len(templates()) > 800


@pytest.mark.parametrize("source", ['t("a" if x else "b")', 't(f"{x} steps")', 't("a" + x)'])
def test_a_sentence_that_cannot_be_collected_is_an_error(source: str) -> None:
    with pytest.raises(AssertionError, match="give a literal"):
        of_python(source)
