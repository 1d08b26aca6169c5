from __future__ import annotations

import pytest

from forensics.errors import ConfigurationError
from forensics.report.language import LANGUAGES, of_locale, translation
from forensics.report.speech import speech


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN"}, "zh"),
        ({"LANG": "zh_CN", "LC_MESSAGES": "", "LC_ALL": ""}, "zh"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "zh.GBK"}, "zh"),
        ({"LANG": "zh-CN"}, "zh"),
        ({"LANG": "zha_CN"}, "en"),
        ({"LANG": "de_AT.UTF-8"}, "en"),
        ({"LANG": "../../etc"}, "en"),
    ],
)
def test_the_language_follows_the_locale(environment: dict[str, str], language: str) -> None:
    assert of_locale(environment) == language


def test_a_language_without_catalogue_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"not available in tlh \(there are: en, zh\)"):
        speech("tlh")


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_stays_nothing(language: str) -> None:
    assert translation(language)("") == ""


def test_a_sentence_of_tomorrow_stays_english() -> None:
    assert speech("zh")("no catalogue has {this}", this=1) == "no catalogue has 1"


def test_a_sentence_is_said_in_chinese() -> None:
    assert speech("zh")("{rank} (of ranks 0 to {last})", rank=1, last=2) == "1（共 rank 0 至 2）"
