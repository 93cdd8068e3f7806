"""The bases of typed documents, YAML and JSON, and their check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError

from flatfed.config import messages
from flatfed.errors import ConfigError, DataError, FlatFedError


def optional(meaning: str, default: Any = None) -> Any:
    """Return the field of a key that may be absent."""
    return Field(default, description=meaning)


def required(meaning: str) -> Any:
    """Return the field of a key that each document has."""
    return Field(description=meaning)


class Document(BaseModel):
    """A mapping of a YAML file: fields are its keys, descriptions explain them. Absent keys are not in fields_set."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)

    def as_written(self) -> dict[str, Any]:
        """Return the keys that the file has, and their values."""
        return self.model_dump(exclude_unset=True)


def require(document: Document, keys: Iterable[str], at: Sequence[str | int] = ()) -> None:
    """Refuse a document, ``at`` these keys of the validated value, without one of the ``keys``."""
    if absent := [key for key in keys if key not in document.model_fields_set]:
        errors = [{"type": "missing", "loc": (*at, key), "input": None} for key in absent]
        raise ValidationError.from_exception_data("", errors)


def mistake(at: Sequence[str | int], meaning: str) -> ValidationError:
    """Return the error for the value at the keys ``at`` of a document; ``meaning``: what is allowed."""
    return mistakes({tuple(at): meaning})


def mistakes(meanings: Mapping[tuple[str | int, ...], str]) -> ValidationError:
    """Return the error for the values at several keys of a document, as :func:`mistake`."""
    errors = [
        {"type": PydanticCustomError(messages.MISTAKE, "", {"meaning": meaning}), "loc": at, "input": None}
        for at, meaning in meanings.items()
    ]
    return ValidationError.from_exception_data("", errors)


class _WithoutNull(GenerateJsonSchema):
    """Leaves out the default of absent keys, which null does not replace."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        json_schema = super().default_schema(schema)
        return {key: value for key, value in json_schema.items() if (key, value) != ("default", None)}


class Content:
    """The type of a file's content, or of a part of it."""

    def __init__(self, kind: Any, error: type[FlatFedError] = ConfigError):
        self.kind, self.error = kind, error

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        """Built when it is first used: a call reads few of the types."""
        return TypeAdapter(self.kind)

    def check(self, value: Any, where: str) -> Any:
        """Return ``value``, the content of the file ``where``, as documents.

        :raises FlatFedError: a line for each mistake; a ConfigError by default.
        """
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            lines = (messages.message(error, self.json_schema, value, where) for error in errors)
            raise self.error("\n".join(lines)) from None

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema for editors; it lacks the rules between keys."""
        return self._adapter.json_schema(schema_generator=_WithoutNull)


class JsonDocument(BaseModel):
    """The content of a JSON file, such as the record of a run: its fields are the keys.

    Unknown keys are ignored. Values that equal a default are absent.
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)

    @classmethod
    def of_json(cls, value: Any, where: str) -> Self:
        """Return the JSON ``value`` as a document; its DataError begins with ``where``."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first, *_ = error.errors(include_url=False)
            raise DataError(messages.message(first, cls.model_json_schema(), value, where)) from None

    def as_json(self) -> dict[str, Any]:
        """Return the document as JSON for :meth:`of_json`."""
        return self.model_dump(exclude_defaults=True, by_alias=True)
