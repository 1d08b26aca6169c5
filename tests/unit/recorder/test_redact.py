"""The redactor: what must go, what must stay, and that nothing makes it fail or crawl."""

from __future__ import annotations

import base64
import random
import secrets
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.recorder.randomness import looks_random, replace_random
from forensics.recorder.redact import CLASSES, MAX_CHARACTERS, Redactor
from forensics.recorder.secret_names import is_secret_name
from tests.unit.recorder.redaction_corpus import HARMLESS, HEX40, KEY, SECRET


def redacted(text: str) -> str:
    return Redactor(home="/nowhere/at-all").text(text)


def counts(text: str) -> dict[str, int]:
    redactor = Redactor(home="/nowhere/at-all")
    redactor.text(text)
    return {kind: count for kind, count in redactor.counts.items() if count}


def test_corpus_is_large_enough() -> None:
    assert len(SECRET) >= 100
    assert len(HARMLESS) >= 100
    assert all(secret in text for text, secret in SECRET)


def test_recall() -> None:
    missed = [(text, redacted(text)) for text, secret in SECRET if secret in redacted(text)]
    assert len(missed) <= 0.01 * len(SECRET), missed


def test_harmless_text_stays() -> None:
    touched = [(text, redacted(text)) for text in HARMLESS if redacted(text) != text]
    assert len(touched) <= 0.02 * len(HARMLESS), touched


def test_what_surrounds_a_secret_stays() -> None:
    assert redacted("train --password hunter2 --lr 0.1") == "train --password «redacted:name» --lr 0.1"
    assert redacted('{"api_key": "abc", "model": "bert"}') == '{"api_key": "«redacted:name»", "model": "bert"}'
    assert redacted("https://me:pw@host/a?b=c") == "https://«redacted:url»@host/a?b=c"
    assert redacted("https://host/?token=abc123&file=x#top") == "https://host/?token=«redacted:name»&file=x#top"
    assert redacted("ssh://git@host/x.git") == "ssh://git@host/x.git"
    assert redacted(f"/data/{KEY}/x.bin") == "/data/«redacted:entropy»/x.bin"
    assert redacted("f(password=abc, lr=0.1)") == "f(password=«redacted:name», lr=0.1)"
    assert redacted("/home/lisi/a:/home/lisi/b") == "~/a:~/b"
    assert redacted("password = 'a\\'b', lr") == "password = '«redacted:name»', lr"
    assert redacted("def ask(prompt='Password: ', stream=None):") == "def ask(prompt='Password: ', stream=None):"


def test_each_class_is_counted() -> None:
    assert counts("password=x1 secret=y2") == {"name": 2}
    assert counts("https://a:b@c/") == {"url": 1}
    assert counts("saw AKIAIOSFODNN7EXAMPLE") == {"token": 1}
    assert counts(KEY) == {"entropy": 1}
    assert counts("/home/a/x /Users/b/y") == {"home": 2}
    assert list(Redactor().counts) == list(CLASSES)


def test_redacting_twice_changes_nothing_more() -> None:
    for text, _ in SECRET:
        once = redacted(text)
        assert redacted(once) == once
        if "home" not in counts(text):
            assert counts(once) == {}


def test_own_home_folder_wherever_it_lies() -> None:
    redactor = Redactor(home="/data/people/lisi")
    assert redactor.text("/data/people/lisi/run /data/people/lisi2/run") == "~/run /data/people/lisi2/run"
    assert redactor.counts["home"] == 1
    assert Redactor(home="/data").text("/data/run") == "/data/run"


@pytest.mark.parametrize("length", [24, 32, 43, 64])
@pytest.mark.parametrize(
    "alphabet", [string.ascii_letters + string.digits, string.ascii_letters + string.digits + "-_"]
)
def test_random_strings_are_found(length: int, alphabet: str) -> None:
    generator = random.Random(length)
    drawn = ["".join(generator.choice(alphabet) for _ in range(length)) for _ in range(500)]
    missed = [text for text in drawn if redacted(f"value {text} here") == f"value {text} here"]
    # A separator cuts a short string into pieces too short to be judged.
    assert len(missed) <= (0.15 if len(alphabet) == 64 and length == 24 else 0.02) * len(drawn), missed


def test_random_bytes_in_base64_are_found() -> None:
    generator = random.Random(7)
    drawn = [base64.b64encode(generator.randbytes(32)).decode() for _ in range(500)]
    missed = [text for text in drawn if text in redacted(f"got {text}")]
    assert len(missed) <= 0.01 * len(drawn), missed


def test_hashes_and_ids_stay() -> None:
    generator = random.Random(3)
    for length in (32, 40, 64, 128):
        digest = "".join(generator.choice("0123456789abcdef") for _ in range(length))
        assert redacted(f"commit {digest}") == f"commit {digest}"
    assert looks_random("".join(generator.choice("0123456789abcdef") for _ in range(50)))
    assert not looks_random("0" * 40 + "1")
    assert not looks_random("123456789012345678901234567890")


def test_digits_among_letters_without_words() -> None:
    assert looks_random("a1b2c3d4e5f6g7h8i9j0k1m2")
    assert not looks_random("conv2d-3x3-bn2d-relu6-s2-p1")


def test_slashes_inside_a_random_string() -> None:
    assert replace_random("x pX9vQ2mT7k/Lw4RzYc1Nf8J/bHs5Ud3Ge1Ka", lambda: "*") == "x *"
    assert "pX9vQ2mT7k" in replace_random("/pX9vQ2mT7k/Lw4RzYc1Nf8J/bHs5Ud3Ge1Ka", lambda: "*")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("PWD", False),
        ("OLDPWD", False),
        ("DB_PWD", True),
        ("MAX_TOKENS", False),
        ("HCCL_WHITELIST_FILE", False),
        ("API_KEYS", True),
        ("pad_token", False),
        ("password_file", False),
        ("subtoken", True),
        ("subtokens", False),
        ("session_id", True),
        ("key_id", True),
        ("monkey", False),
        ("_", False),
        ("", False),
        ("x" * 300 + "password", False),
    ],
)
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_values_of_secret_variables() -> None:
    redactor = Redactor(home="/nowhere/at-all")
    assert redactor.mapping("HF_TOKEN", "abc") == "«redacted:name»"
    assert redactor.mapping("MODEL_TOKEN", "word") == "word"
    assert redactor.mapping("MODEL_TOKEN", "w0rd-word") == "«redacted:name»"
    assert redactor.mapping("API_KEY", "") == ""
    assert redactor.mapping("API_KEY", "$OTHER") == "$OTHER"
    assert redactor.mapping("PASSWORD", 12345678) == "«redacted:name»"
    assert redactor.mapping("WANDB_NOTES", HEX40) == HEX40
    assert redactor.mapping("PYTHONPATH", "/home/lisi/x") == "~/x"
    assert redactor.mapping("RANK_ID", 3) == "3"
    assert redactor.mapping("SOME_AUTH", "two words1") == "two words1"


def test_command_line() -> None:
    redactor = Redactor(home="/nowhere/at-all")
    line = ["/home/lisi/train.py", "--token", "t0ken-1", "--lr", "0.1", "--password=x", "--api-key", "--flag", "abc"]
    assert redactor.arguments(line) == [
        "~/train.py",
        "--token",
        "«redacted:name»",
        "--lr",
        "0.1",
        "--password=«redacted:name»",
        "--api-key",
        "--flag",
        "abc",
    ]
    foreign: list[Any] = ["a", 3]
    assert redactor.arguments(foreign) == ["a", "<int>"]


def test_long_text_is_cut() -> None:
    text = redacted("ab " * MAX_CHARACTERS)
    assert len(text) < MAX_CHARACTERS + 60
    assert text.endswith(f"({2 * MAX_CHARACTERS} more characters were cut off)")


class _Hostile:
    def __str__(self) -> str:
        raise SystemExit


class _Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError

    def __getitem__(self, _: Any) -> str:
        raise RuntimeError


def test_hostile_objects() -> None:
    redactor = Redactor()
    foreign: Any = _Hostile()
    assert redactor.text(foreign) == "«redacted:unreadable»"
    assert redactor.mapping("RANK_ID", foreign) == "«redacted:unreadable»"
    assert redactor.mapping(foreign, "x") == "«redacted:unreadable»"
    assert redactor.text(_Text("password=x1")) == "password=«redacted:name»"
    assert redactor.mapping("RANK_ID", _Text("3")) == "3"
    assert is_secret_name(foreign)


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(redacted(text), str)


@given(st.text(alphabet="ab='\"\\ -:/@token,[](){}<>\n", max_size=200))
def test_any_punctuation_is_taken(text: str) -> None:
    assert "unreadable" not in redacted(text)


@given(st.text(alphabet=string.ascii_letters + string.digits + "!#%+.:?~^", min_size=4, max_size=40))
def test_a_password_of_any_letters(password: str) -> None:
    assert password not in redacted(f"PASSWORD=Zq{password}").removeprefix("PASSWORD=").replace("redacted:name", "")


# Each of these took minutes while a pattern was quadratic in it.
@pytest.mark.parametrize(
    "piece",
    [
        "token=",
        'token="',
        "token='\"",
        'token=\\"',
        "?token=",
        "password: ",
        "cookie: <",
        "://",
        "-----BEGIN X Y-----",
        "a",
        "-",
        "eyJaaaaaaaaaa.",
        "Bearer ",
        "/home/",
        "aB3",
        "/aB3",
        "sk-a",
        "'--token', ",
        "a_password=b(x, 'y') ",
        "a_password=b(x, 'y' ",
        "a        :        ",
        "\\",
    ],
)
def test_repetition(piece: str) -> None:
    assert "unreadable" not in redacted(piece * (200_000 // len(piece)))


def test_secrets_module_makes_what_is_found() -> None:
    # The generator that people are told to use; without a seed, so only what cannot fail by chance is asserted.
    assert "«redacted:name»" in redacted(f"SECRET_KEY={secrets.token_urlsafe(32)}")
