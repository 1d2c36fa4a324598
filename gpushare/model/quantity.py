"""Kubernetes quantities ("4", "10G", "1500m") as whole numbers.

The grammar is that of apimachinery's ``resource.Quantity``; the number is what its ``Value()``
returns: rounded up (away from zero), capped at the largest int64.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from gpushare.errors import InvalidRequest

_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>\d*)(?:\.(?P<part>\d*))?"
    r"(?:(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_INT64: Final = 2**63 - 1
_MAX_LENGTH: Final = 64
_MAX_EXPONENT: Final = 100  # larger exponents give the same result, given the length limit and the cap
_SMALL_DIGITS: Final = 5


def parse_quantity(text: object) -> int:
    """The whole number of a quantity, rounded up as by Go's ``Value()``.

    Accepts a string or an integer. Raises InvalidRequest for anything else.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return _clamp(Fraction(text))
    if not isinstance(text, str) or len(text) > _MAX_LENGTH:
        raise InvalidRequest(f"quantity {text!r:.80} is not a Kubernetes quantity such as 4 or 10G")
    return _parsed(text)


def parse_milli(text: object) -> int:
    """Thousandths, rounded up, as by Go's ``MilliValue()``: kube-scheduler counts CPU so.

    Accepts a string or a number. Raises InvalidRequest for anything else.
    """
    text = str(text) if isinstance(text, int | float) and not isinstance(text, bool) else text
    if not isinstance(text, str) or len(text) > _MAX_LENGTH:
        raise InvalidRequest(f"quantity {text!r:.80} is not a Kubernetes quantity such as 4 or 500m")
    return _parsed_milli(text)


def parse_small(text: str | None) -> int | None:
    """A plain decimal number below 100,000, such as a card index; None for anything else."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _SMALL_DIGITS:
        return None
    return int(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> int:
    """Cached: the pods of a cluster have few different amounts."""
    return _clamp(_fraction(text))


@lru_cache(maxsize=1024)
def _parsed_milli(text: str) -> int:
    return _clamp(_fraction(text) * 1000)


def _fraction(text: str) -> Fraction:
    match = _PATTERN.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise InvalidRequest(f"quantity {text!r} is not a Kubernetes quantity such as 4 or 10G")
    part = match["part"] or ""
    number = Fraction(int((match["whole"] or "0") + part), 10 ** len(part))
    return (-number if match["sign"] == "-" else number) * _scale(match["suffix"], match["exponent"])


def _scale(suffix: str | None, exponent: str | None) -> Fraction:
    if suffix in _BINARY:
        return Fraction(2 ** _BINARY[suffix])
    power = _DECIMAL[suffix] if suffix else int(exponent or 0)
    return Fraction(10) ** max(-_MAX_EXPONENT, min(_MAX_EXPONENT, power))


def _clamp(value: Fraction) -> int:
    magnitude = -(-abs(value.numerator) // value.denominator)
    return min(magnitude, _MAX_INT64) * (-1 if value < 0 else 1)
