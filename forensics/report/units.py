"""Numbers as people read them."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from typing import Any

from forensics.bundle.strict_json import as_float
from forensics.report.speech import visible

NOTHING = "–"


def number(value: Any, digits: int = 4) -> str:
    """A number with `digits` significant digits; other values as visible text, None as a dash."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) < 10**12:
        return str(value)
    if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
        return visible(value)
    quantity = as_float(value)
    if math.isnan(quantity):
        return "NaN"
    if math.isinf(quantity):
        return "+Inf" if quantity > 0 else "-Inf"
    if quantity == int(quantity) and abs(quantity) < 10**6:
        return str(int(quantity))
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{quantity:.{digits}g}").replace("e+", "e")


def known(value: Any, digits: int = 4) -> str:
    """A number of a column in which NaN says that nothing was measured."""
    return NOTHING if math.isnan(as_float(value)) else number(value, digits)


def percent(share: float) -> str:
    """A share from 0 to 1, e.g. "97 %"."""
    return f"{100 * min(max(share, 0.0), 1.0):.0f} %"


def size(count: Any) -> str:
    """Bytes with a binary unit, e.g. "1.5 MiB"."""
    amount = as_float(count)
    if not math.isfinite(amount):
        return NOTHING
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"


def duration(seconds: Any) -> str:
    """Seconds, e.g. "12 ms", "3.1 s", "2 h 5 min"."""
    amount = as_float(seconds)
    if not math.isfinite(amount):
        return NOTHING
    if abs(amount) < 0.9995:
        return f"{number(1000 * amount, 3)} ms"
    if abs(amount) < 120:
        return f"{number(amount, 3)} s"
    minutes = round(amount / 60)
    return f"{minutes} min" if abs(minutes) < 120 else f"{minutes // 60} h {minutes % 60} min"


def moment(value: Any) -> str:
    """An ISO 8601 time in UTC to the second; what is no time is shown as the text it is, nothing as ""."""
    text = str(value or "")[:64]
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return visible(text, 40)
    if when.tzinfo is not None:
        try:
            when = when.astimezone(timezone.utc)
        except OverflowError:
            return visible(text, 40)
    return when.strftime("%Y-%m-%d %H:%M:%S") + " UTC"


def shape(value: Any) -> str:
    """Dimensions from "32,10" or [32, 10] as "32 × 10"; a scalar as "scalar"."""
    items = value if isinstance(value, list | tuple) else str(value or "").split(",")
    parts = [visible(item, 20) for item in items if str(item).strip()]
    return " × ".join(parts[:12]) if parts else "scalar"
