"""What a page sends, read with care: every field has a type and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BadRequestError(Exception):
    """A request that cannot be done, and the status that says so."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


class Body:
    """The JSON object of a request."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    def is_null(self, name: str) -> bool:
        """Whether a field is there, and null."""
        if name not in self._content:
            raise BadRequestError(f"The field '{name}' must be there.")
        return self._content[name] is None

    def text(self, name: str, *, default: str | None = None, longest: int = 200) -> str:
        """Return a text."""
        value = self._content.get(name, default)
        if not isinstance(value, str) or len(value) > longest:
            raise BadRequestError(f"The field '{name}' must be a text of at most {longest:,} characters.")
        return value

    def number(self, name: str, low: int, high: int) -> int:
        """Return a whole number between two bounds, both allowed."""
        value = self._content.get(name)
        if type(value) is not int or not low <= value <= high:
            raise BadRequestError(f"The field '{name}' must be a whole number between {low} and {high}.")
        return value

    def numbers(self, name: str, *, below: int, least: int = 1, most: int | None = None) -> list[int]:
        """Return different whole numbers, from 0 on and below a bound."""
        values = self._content.get(name)
        most = below if most is None else most
        if not isinstance(values, list) or not least <= len(values) <= most:
            raise BadRequestError(f"The field '{name}' must be a list of {least} to {most:,} whole numbers.")
        if any(type(value) is not int for value in values) or len(set(values)) < len(values):
            raise BadRequestError(f"The field '{name}' must be a list of different whole numbers.")
        if values and not 0 <= min(values) <= max(values) < below:
            raise BadRequestError(f"The field '{name}' must be of numbers from 0 to {below - 1:,}.")
        return values
