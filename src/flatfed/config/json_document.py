"""The base of typed JSON files: records of runs, analyses and datasets."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from flatfed.config import messages
from flatfed.errors import DataError


class JsonDocument(BaseModel):
    """The content of a JSON file: its fields are the keys.

    Unknown keys are ignored. Values that equal a default are absent.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)

    @classmethod
    def of_json(cls, value: Any, where: str) -> Self:
        """Return the JSON ``value`` as a document; its DataError begins with ``where``."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise DataError(messages.message(error.errors(include_url=False), cls, where, ())) from None

    def as_json(self) -> dict[str, Any]:
        """Return the document as JSON for :meth:`of_json`."""
        return self.model_dump(exclude_defaults=True, by_alias=True)
