"""The languages that reports are written in: which one is asked for, and its catalogue.

A catalogue is gettext's: it maps an English template to one of another language. Its keys are the literals given to
`t(...)` in the analysis, here and in the HTML templates, the remedies of the error signatures, the pages of the rules
(their docstrings) and the descriptions of the bundle's schema. `make messages` collects them into
`locale/<language>/LC_MESSAGES/msforensics.po` and compiles that.
"""

from __future__ import annotations

import gettext
from collections.abc import Mapping
from functools import cache
from importlib import resources

from forensics.analysis.message import Translate
from forensics.errors import ConfigurationError

LANGUAGES = ("en", "zh")
DOMAIN = "msforensics"


def of_locale(environment: Mapping[str, str]) -> str:
    """The language of a POSIX environment's messages; English where it has none that we speak.

    The first of LC_ALL, LC_MESSAGES and LANG that is not empty decides, as everywhere in POSIX.
    """
    names = (environment.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    locale = next((name for name in names if name), "")
    language = locale.replace("-", "_").split("_")[0].split(".")[0].lower()
    return language if language in LANGUAGES else LANGUAGES[0]


@cache
def translation(language: str) -> Translate:
    """Maps English templates to templates of a language. Raises ConfigurationError for one without catalogue."""
    if language not in LANGUAGES:
        raise ConfigurationError(f"reports are not available in {language}", hint=f"there are: {', '.join(LANGUAGES)}")
    if language == LANGUAGES[0]:
        return lambda template: template
    file = resources.files("forensics.report").joinpath("locale", language, "LC_MESSAGES", f"{DOMAIN}.mo")
    with file.open("rb") as stream:
        catalogue = gettext.GNUTranslations(stream)
    # Gettext keeps the catalogue's header under the empty message.
    return lambda template: catalogue.gettext(template) if template else ""
