"""Selectors in the parameters of a request. Pure."""

import re
from collections.abc import Mapping

from gpushare.errors import InvalidRequest
from gpushare.model.selector import Selector, parse_selector


def selector_of(
    parameters: Mapping[str, list[str]], key: str, label: re.Pattern[str] | None = None
) -> Selector:
    """Parse a selector parameter. Raises InvalidRequest with the parameter's name."""
    text = ",".join(parameters.get(key, ()))
    try:
        selector = parse_selector(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"{key}: {error}") from error
    for term in selector.terms:
        if label and not label.fullmatch(term.key):
            raise InvalidRequest(f"{key}: {term.key!r} cannot be the label of a series")
    return selector
