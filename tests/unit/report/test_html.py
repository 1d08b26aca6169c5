from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from jinja2 import UndefinedError

from forensics.analysis.evidence import Case
from forensics.analysis.finding import Quiet
from forensics.bundle.content import Part
from forensics.report import html, pictures
from forensics.report.speech import Speech
from forensics.report.view import build
from tests.unit.report import samples

T = Speech()
VOID = {"meta", "link", "img", "br", "hr", "input"}
# Where HTML lets an end tag be left out, what begins ends what was open.
ENDED_BY = {"td": {"td", "th"}, "tr": {"td", "th", "tr"}}


class Page(HTMLParser):
    """Elements, attributes and text of a page; complains about what is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag in ENDED_BY:
            self._end(ENDED_BY[tag])
        if tag not in VOID:
            self._open.append(tag)

    def _end(self, optional: set[str]) -> None:
        while self._open and self._open[-1] in optional:
            self._open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag == "tbody":
            self._end({"td", "th", "tr"})
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self._open[-1] if self._open else "", []).append(data)

    def said(self) -> str:
        return " ".join(" ".join(piece.split()) for pieces in self.text.values() for piece in pieces)


@pytest.fixture(scope="module")
def plain() -> str:
    return html.render(samples.diagnosis(), samples.bundle(), T)


@pytest.fixture(scope="module")
def hostile() -> str:
    bundle = samples.bundle(samples.hostile_content(), {samples.HOSTILE: samples.HOSTILE})
    return html.render(samples.hostile_diagnosis(), bundle, T)


def test_the_first_screen_answers_what_where_how_sure_and_what_to_do(plain: str) -> None:
    first = plain[: plain.index('id="chain"')]
    positions = [
        first.index(text) for text in ("Log in loss_fn received 3 zeros</h1>", "97 %", "What to do", "1042 (epoch 3)")
    ]
    assert positions == sorted(positions)
    assert "Take the logarithm of the softmax" in first
    assert "ops.log(p)" in first
    assert first.count("<svg") == 1


@pytest.mark.parametrize(
    "text",
    [
        "How it came about",
        "followed from it",
        "/autopsy/operators[10]",
        "The last 11 of 61 operators up to the break",
        "Gradient norms by parameter and step",
        "The last 8 of 400 recorded steps",
        "Everything that was recorded",
        "The batch of the fatal step",
        "2 fired, 2 stayed quiet, 1 could not look, 1 broke down.",
        "the largest jump of the loss, in deviations",
        "step times, device memory",
        "KeyError: 'l2'",
        "jit_level",
        "The bundle is complete.",
        "log-of-nonpositive/Log/loss_fn/6f2a",
    ],
)
def test_the_report_holds_all_of_the_evidence(plain: str, text: str) -> None:
    assert text in Page(plain).said()


def test_the_page_is_one_file_without_network(plain: str) -> None:
    page = Page(plain)
    assert not {"link", "iframe", "img", "object", "form"} & set(page.tags)
    assert all(value.startswith("#") for name, value in page.attributes if name in ("href", "src", "xlink:href"))
    assert not re.search(r"@import|url\((?!#)", plain)
    assert set(re.findall(r"https?://[^\"'\s<]*", plain)) <= {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_the_pages_own_style_and_nothing_else(plain: str) -> None:
    style = plain[plain.index("<style>") + 7 : plain.index("</style>")]
    script = plain[plain.index("<script>") + 8 : plain.index("</script>")]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    page = Page(plain)
    policy = next(value for name, value in page.attributes if value.startswith("default-src"))
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "style" not in {name for name, _ in page.attributes}
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert "&" not in style.replace("&&", "")
    assert "<" not in style


def test_every_id_is_there_once_and_every_link_leads_somewhere(plain: str) -> None:
    attributes = Page(plain).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = [value[1:] for name, value in attributes if name == "href"]
    targets += [part for name, value in attributes if name in ("aria-labelledby",) for part in value.split()]
    assert set(targets) <= set(ids)


def test_every_class_that_is_used_has_a_style(plain: str) -> None:
    style = plain[plain.index("<style>") : plain.index("</style>")]
    used = {part for name, value in Page(plain).attributes if name == "class" for part in value.split()}
    unstyled = {"table", "text", "cascade", "teardown", "sorts", "copied"}
    assert {name for name in used if f".{name}" not in style} <= unstyled


def test_the_same_bundle_gives_the_same_bytes(plain: str) -> None:
    assert html.render(samples.diagnosis(), samples.bundle(), T) == plain


def test_an_ordinary_report_is_small(plain: str) -> None:
    assert len(plain.encode()) < 400_000


def test_hostile_text_stays_text(hostile: str) -> None:
    page = Page(hostile)
    assert "img" not in page.tags
    assert page.tags.count("script") == 1
    assert "<script>alert(1)</script>" in page.said()
    assert "{{7*7}}" in page.said()
    assert "\x1b" not in hostile
    assert "\u202e" not in hostile
    assert "style" not in {name for name, _ in page.attributes}


def test_a_hostile_report_is_bounded(hostile: str) -> None:
    assert len(hostile.encode()) < 2_000_000
    assert "and 280 more" not in hostile
    assert f"and {300 - 200} more" in hostile


def test_a_bundle_with_next_to_nothing_still_gives_a_whole_page() -> None:
    page = Page(html.render(samples.bare_diagnosis(), samples.bundle({}), T))
    assert "svg" not in page.tags
    assert "Too little was recorded to judge" in page.said()


def test_only_damage_is_an_alarm() -> None:
    lacking = samples.bundle(missing={"weights": "over the budget"})
    assert '<p class="state small muted">Not recorded' in html.render(samples.diagnosis(), lacking, T)
    lacking.damaged["batch"] = "checksum"
    assert '<p class="state warn">Damaged in the bundle' in html.render(samples.diagnosis(), lacking, T)


def test_one_finding_alone_makes_no_chain() -> None:
    alone = samples.finding()
    page = html.render(samples.diagnosis(findings=(alone,), chain=(alone,)), samples.bundle(), T)
    assert "How it came about" not in page
    assert "One finding alone explains what happened." in page


def test_a_picture_that_the_first_screen_shows_whole_is_not_drawn_again(plain: str) -> None:
    verdict = replace(samples.diagnosis().verdict, cause="fp16-overflow")
    page = html.render(samples.diagnosis(verdict=verdict), samples.bundle(), T)
    assert page.count("Headroom in bits") == 1
    assert "--figure headroom" in page
    assert "Room up to the end of each operator&#39;s number range: drawn at the top" in page
    assert plain.count("Headroom in bits") == 2  # for wide screens and for narrow ones


def test_rows_before_the_others_are_folded_above_them() -> None:
    parts = samples.content()
    many = {name: np.tile(values, 3) for name, values in samples.operators().items()}
    parts["autopsy"] = Part({"origin": {"row": 32}}, {"operators": many})
    page = html.render(samples.diagnosis(), samples.bundle(parts), T)
    table = page[page.index('class="table sorts earlier"') :]
    assert table.index("and 19 before these") < table.index('class="marked"') < table.index("</div>\n</div>")


def test_an_incomplete_bundle_says_so_on_the_first_screen() -> None:
    page = html.render(samples.diagnosis(), samples.bundle(missing={"weights": "over the budget"}), T)
    assert page.index("Not recorded: weights – over the budget.") < page.index('id="chain"')
    assert "over the budget" in page


def test_a_picture_that_cannot_be_drawn_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from forensics.report import charts

    def broken(*_: Any, **__: Any) -> str:
        raise OverflowError("too large \x1b")

    monkeypatch.setattr(charts, "trajectory", broken)
    page = html.render(samples.diagnosis(), samples.bundle(), T)
    assert "A picture could not be drawn: last-steps: OverflowError: too large \\x1b" in Page(page).said()
    assert "Gradient norms by parameter and step" in page
    # The headroom takes the first picture's place.
    assert page.index("Headroom of 11 operators") < page.index('id="chain"')


def test_an_exception_is_shown_with_its_stack() -> None:
    frames = [
        {"file": "/p/train.py", "line": 3, "function": "main", "code": "run()", "own": True, "context": [[3, "run()"]]}
    ]
    parts = {"exception": Part({"chain": [{"type": "ValueError", "message": "a\n  b <c>", "frames": frames}]})}
    page = html.render(samples.diagnosis(), samples.bundle(parts), T)
    assert "ValueError</h3>" in page
    assert "<code>/p/train.py:3</code>" in page
    assert "a\n  b &lt;c&gt;\n</pre>" in page


def test_the_threads_of_a_hang_are_shown() -> None:
    frames = [{"file": "wait.py", "line": 2, "function": "get", "code": "queue.get()"}]
    parts = {"exception": Part({"threads": [{"name": "MainThread", "frames": frames}]})}
    said = Page(html.render(samples.diagnosis(), samples.bundle(parts), T)).said()
    assert "What each thread was doing" in said
    assert "queue.get()" in said


def test_code_between_backticks_is_set_as_code() -> None:
    from forensics.analysis.message import t

    finding = samples.finding(remedy=(t("run `{x}` now", x="<b>"), t("one ` alone")))
    page = html.render(samples.diagnosis(findings=(finding,)), samples.bundle({}), T)
    assert "run <code>&lt;b&gt;</code> now" in page
    assert "one ` alone" in page


def test_short_histories_are_drawn_once() -> None:
    parts = {"scalars": Part({}, {"": {"step": np.arange(70), "loss": np.ones(70)}})}
    drawn = pictures.draw(samples.diagnosis(), Case(samples.bundle(parts)), T)
    assert drawn.get("all-steps") is None
    close_up = drawn.get("last-steps")
    assert close_up is not None
    assert "to 69" in close_up.wide


def test_a_name_that_the_template_misspells_is_an_error() -> None:
    view = build(samples.diagnosis(), samples.bundle({}), T)
    with pytest.raises(UndefinedError):
        html.page(view, object(), T)  # type: ignore[arg-type]


def test_words_of_the_page_go_through_the_translation() -> None:
    loud = Speech("en", lambda template: template.replace("What to do", "WAS TUN"))
    page = html.render(samples.diagnosis(), samples.bundle({}), loud)
    assert ">WAS TUN<" in page
    assert "What to do" not in page


def many_parameters(count: int, name: str = "backbone.layers.{}.attention.block.{}.weight") -> dict[str, Part]:
    """Statistics of so many parameters, with gradients at the fatal step; every thousandth is not finite."""
    numbers = np.random.default_rng(0)
    names = np.array([name.format(n // 8, n % 8) for n in range(count)])
    size = np.full(count, 4096)
    bad = (np.arange(count) % 1000 == 999).astype(np.int64)
    table = {
        "name": names,
        "dtype": np.full(count, "float32"),
        "shape": np.full(count, "1024,1024"),
        "size": size,
        **{key: numbers.normal(size=count) for key in ("min", "max", "mean", "std")},
        **{key: np.zeros(count, np.int64) for key in ("zero", "pos_inf", "neg_inf")},
        "nan": bad,
    }
    last = {
        "parameter": names,
        "nonfinite": bad,
        "largest": numbers.normal(size=count),
        "zero_share": np.full(count, 0.25),
    }
    return {
        **samples.content(),
        "statistics": Part({}, {"weights": table}),
        "gradients": Part({}, {"last": last}),
    }


@pytest.fixture(scope="module")
def large() -> str:
    return html.render(samples.diagnosis(), samples.bundle(many_parameters(10_000)), T)


def test_ten_thousand_parameters_are_all_there_and_weigh_little(large: str) -> None:
    assert len(large.encode()) < 3_000_000
    page = Page(large)
    assert large.count("backbone.layers.1249.attention.block.7.weight") == 2
    assert page.tags.count("tr") > 20_000


def test_the_worst_parameters_come_first_and_the_others_on_demand(large: str) -> None:
    start = large.index("Gradients at the fatal step, worst first")
    folded = large.index('<details class="rest">', start)
    assert "block.7.weight" in large[start:folded]
    assert large[start:folded].count("<tr>") == 1 + 12
    assert "and 9988 more</summary>" in large[folded : folded + 100]


def test_what_is_too_much_for_a_page_is_counted() -> None:
    parts = many_parameters(3000, "{}.{}<" + "&" * 190)
    page = html.render(samples.diagnosis(), samples.bundle(parts), T)
    assert len(page.encode()) < 3_000_000
    assert re.search(r'<p class="more">and \d+ more</p></details>', page)


def test_names_in_folded_rows_are_escaped() -> None:
    parts = many_parameters(20, "<img src={}.{}>")
    assert "img" not in Page(html.render(samples.diagnosis(), samples.bundle(parts), T)).tags


def test_a_ticket_can_be_copied_without_script(plain: str) -> None:
    start = plain.index('id="ticket"')
    ticket = plain[start : plain.index("</section>", start)]
    assert '<pre class="message copied" id="ticket-title" tabindex="0">log-of-nonpositive: Log in loss_fn' in ticket
    assert "msforensics analyze step1042-nan-loss.h5 --lang en</pre>" in ticket
    assert "## Log in loss\\_fn received 3 zeros" in ticket
    assert "### What to do" in ticket


def test_evidence_leads_to_where_it_lives_in_the_bundle(plain: str) -> None:
    assert '<a href="#at-autopsy-operators">/autopsy/operators[10]</a>' in plain
    assert '<a href="#at-scalars-loss">/scalars/loss</a>' in plain
    row = plain[plain.index('<tr id="at-scalars-loss">') :]
    assert "400</td>" in row[: row.index("</tr>")]
    assert "the mean where the network returns more than one number" in row[: row.index("</tr>")]


def test_pictures_and_tables_name_the_places_that_are_there(plain: str) -> None:
    figure = plain[plain.index('<figure id="figure-gradients">') :]
    figure = figure[: figure.index("</figure>")]
    assert '<a class="from" href="#at-gradients-norm">/gradients/norm</a>' in figure
    assert "msforensics analyze step1042-nan-loss.h5 --figure gradients --lang en -o gradients.svg</pre>" in figure
    caption = plain[plain.index("The last 8 of 400 recorded steps</span>") :]
    assert caption.startswith('The last 8 of 400 recorded steps</span><a class="from" href="#at-scalars">/scalars</a>')


def test_a_name_that_a_shell_would_obey_is_quoted() -> None:
    path = "/x/run; rm -rf ~.h5"
    page = html.render(samples.diagnosis(subject=replace(samples.diagnosis().subject, path=path)), samples.bundle(), T)
    assert "msforensics analyze &#39;run; rm -rf ~.h5&#39; --lang en" in page


def test_rules_lead_to_their_explanation() -> None:
    fired = samples.finding(rule="loss-spike")
    quiet = (Quiet(1, 2, rule="divergence"),)
    page = html.render(samples.diagnosis(findings=(fired,), chain=(fired, fired), quiet=quiet), samples.bundle(), T)
    assert '<a href="#rule-loss-spike">The rule explained</a>' in page
    assert '<a href="#rule-divergence">divergence</a>' in page
    explained = page[page.index('<details id="rule-loss-spike">') :]
    explained = explained[: explained.index("</details>")]
    for text in ("<dt>Symptom</dt>", "<dt>What to do</dt>", "the batch of that step and go on", "own: the rise over"):
        assert text in explained
    assert '<a class="name" href="#finding-1">loss-spike</a>' in page
    assert '<details id="finding-1" open>' in page
    assert 'id="rule-weight-norms"' not in page  # no rule of that name has a page here


def test_numbers_do_not_break_at_their_exponent() -> None:
    assert html.unbroken("2.3e-08 & 99 % <b>") == (
        '<span class="n">2.3e-08</span> &amp; <span class="n">99 %</span> &lt;b&gt;'
    )
