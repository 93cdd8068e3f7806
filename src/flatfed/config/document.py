"""The bases of typed documents, YAML and JSON, and their check."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
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
    """A mapping of a YAML file: fields are its keys, descriptions explain them. Absent keys are not in fields_set.

    ``removed``: key of an earlier version -> its default then, which is ignored, and what to write instead of others.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
    removed: ClassVar[Mapping[str, tuple[Any, str]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _has_no_removed_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict) or cls.removed.keys().isdisjoint(value):
            return value
        for key in cls.removed.keys() & value.keys():
            default, instead = cls.removed[key]
            if value[key] != default:
                raise mistake([key], f"the key does not exist any more: {instead}")
            _say_ignored(key)
        return {key: entry for key, entry in value.items() if key not in cls.removed}

    def as_written(self) -> dict[str, Any]:
        """Return the keys that the file has, and their values."""
        return self.model_dump(exclude_unset=True)


class OfKind(Document):
    """A document whose key ``selects`` decides which other keys it has.

    ``only``: key -> the kinds that have it. ``needed``: kind -> the keys that it needs.
    """

    selects: ClassVar[str]
    only: ClassVar[Mapping[str, tuple[str, ...]]]
    needed: ClassVar[Mapping[str, tuple[str, ...]]]

    @model_validator(mode="wrap")
    @classmethod
    def _names_all_missing_keys(cls, value: Any, validate: Any) -> Self:
        """Report the keys that its kind needs together with the others that are missing."""
        given = value if isinstance(value, dict) else {}
        needed = next((keys for kind, keys in cls.needed.items() if kind == given.get(cls.selects)), ())
        absent = [key for key in needed if key not in given]
        errors = [{"type": _absent(absent), "input": value}] if absent else []
        try:
            document = validate(value)
        except ValidationError as error:
            for line in error.errors():
                kind = PydanticCustomError(line["type"], "", line.get("ctx"))
                errors.append({"type": kind, "loc": line["loc"], "input": line["input"]})
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return document

    @model_validator(mode="after")
    def _has_no_keys_of_another_kind(self) -> Self:
        kind = getattr(self, self.selects)
        for key, kinds in self.only.items():
            if key in self.model_fields_set and kind not in kinds:
                *others, last = kinds
                raise mistake([key], f"it is for {self.selects} {', '.join(others)}{' or ' if others else ''}{last}")
        return self


@cache
def _say_ignored(key: str) -> None:
    print(f"flatfed: the key `{key}` does not exist any more; remove it", file=sys.stderr)


def require(document: Document, keys: Iterable[str], at: Sequence[str | int] = ()) -> None:
    """Refuse a document, ``at`` these keys of the validated value, without one of the ``keys``."""
    if absent := [key for key in keys if key not in document.model_fields_set]:
        raise _absent(absent, at)


def _absent(keys: list[str], at: Sequence[str | int] = ()) -> PydanticCustomError:
    return PydanticCustomError(messages.ABSENT, "", {"keys": keys, "at": list(at)})


def mistake(at: Sequence[str | int], meaning: str) -> PydanticCustomError:
    """Return the error for the value at the keys ``at`` of a document; ``meaning``: what is allowed."""
    return PydanticCustomError(messages.MISTAKE, "", {"at": list(at), "meaning": meaning})


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

    def check(self, value: Any, where: str, under: Sequence[str] = ()) -> Any:
        """Return ``value``, the content of the file ``where`` at the keys ``under``, as documents.

        :raises FlatFedError: the most relevant mistake, or all missing keys; a ConfigError by default.
        """
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            raise self.error(messages.message(errors, self.kind, where, under)) from None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema for editors; it lacks the rules between keys."""
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
            raise DataError(messages.message(error.errors(include_url=False), cls, where, ())) from None

    def as_json(self) -> dict[str, Any]:
        """Return the document as JSON for :meth:`of_json`."""
        return self.model_dump(exclude_defaults=True, by_alias=True)
