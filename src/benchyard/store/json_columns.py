"""Access to records' JSON bodies in SQL, for both kinds of database."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, String, TableValuedAlias, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from benchyard.store.body_values import BodyPath


class _ParsedBody(FunctionElement[str]):
    """A body, parsed where the database would otherwise parse it again for every value."""

    name = "parsed_body"
    type = String()
    inherit_cache = True


class _BodyRows(FunctionElement[str]):
    """Some values of each body, as the text of a JSON array of arrays."""

    name = "body_rows"
    type = String()
    inherit_cache = False

    def __init__(self, body: ColumnElement[str], paths: Sequence[BodyPath]) -> None:
        self.paths = paths
        super().__init__(body)


def parsed_body(body: ColumnElement[str]) -> ColumnElement[str]:
    """Return a body in the form that `body_rows` takes."""
    return _ParsedBody(body)


def body_rows(body: ColumnElement[str], paths: Sequence[BodyPath]) -> ColumnElement[str]:
    """Return the values at at least two paths of all parsed bodies, as the text of a JSON array of arrays.

    A value that a body does not have is null.
    """
    return _BodyRows(body, paths)


@compiles(_ParsedBody, "sqlite")
def _parsed_body_sqlite(element: _ParsedBody, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(next(iter(element.clauses)), **options)


@compiles(_ParsedBody, "postgresql")
def _parsed_body_postgres(element: _ParsedBody, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST({_as_json(compiler.process(next(iter(element.clauses)), **options))} AS jsonb)"


@compiles(_BodyRows, "sqlite")
def _body_rows_sqlite(element: _BodyRows, compiler: SQLCompiler, **options: Any) -> str:
    (body,) = (compiler.process(clause, **options) for clause in element.clauses)
    paths = ", ".join(f"'${''.join(map(_step_sqlite, path))}'" for path in element.paths)
    # One call for all paths takes half of the time of a call for each.
    return f"json_group_array(json_extract({body}, {paths}))"


def _step_sqlite(key: str | int) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}"


@compiles(_BodyRows, "postgresql")
def _body_rows_postgres(element: _BodyRows, compiler: SQLCompiler, **options: Any) -> str:
    (body,) = (compiler.process(clause, **options) for clause in element.clauses)
    values = ", ".join(f"{body} #> '{{{','.join(map(str, path))}}}'" for path in element.paths)
    return f"CAST(coalesce(json_agg(json_build_array({values})), '[]') AS text)"


class _MetadataValue(FunctionElement[str]):
    """The metadata value of a key, or NULL."""

    name = "metadata_value"
    type = String()
    inherit_cache = True


class _BodyField(FunctionElement[str]):
    """A top-level field as text, or NULL."""

    name = "body_field"
    type = String()
    inherit_cache = True


class _MetadataItems(FunctionElement[Any]):
    """The metadata as rows of key and value."""

    name = "metadata_items"
    inherit_cache = True


def metadata_value(body: ColumnElement[str], key: str) -> ColumnElement[str]:
    """Return the metadata value of a key in the body."""
    return _MetadataValue(body, literal(key, String))


def body_field(body: ColumnElement[str], field: str) -> ColumnElement[str]:
    """Return one field of the body, as text."""
    return _BodyField(body, literal(field, String))


def metadata_items(body: ColumnElement[str]) -> TableValuedAlias:
    """Return the body's metadata as a table to join, with columns `key` and `value`."""
    return _MetadataItems(body).table_valued("key", "value", name="metadata_items")


@compiles(_MetadataValue, "sqlite")
def _metadata_value_sqlite(element: _MetadataValue, compiler: SQLCompiler, **options: Any) -> str:
    body, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(SELECT m.value FROM json_each({body}, '$.metadata') AS m WHERE m.key = {key})"  # noqa: S608  (compiled clauses)


@compiles(_MetadataValue, "postgresql")
def _metadata_value_postgres(element: _MetadataValue, compiler: SQLCompiler, **options: Any) -> str:
    body, key = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({_as_json(body)} -> 'metadata' ->> {key})"


@compiles(_BodyField, "sqlite")
def _body_field_sqlite(element: _BodyField, compiler: SQLCompiler, **options: Any) -> str:
    body, field = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(SELECT CAST(f.value AS TEXT) FROM json_each({body}) AS f WHERE f.key = {field})"  # noqa: S608  (compiled clauses)


@compiles(_BodyField, "postgresql")
def _body_field_postgres(element: _BodyField, compiler: SQLCompiler, **options: Any) -> str:
    body, field = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({_as_json(body)} ->> {field})"


@compiles(_MetadataItems, "sqlite")
def _metadata_items_sqlite(element: _MetadataItems, compiler: SQLCompiler, **options: Any) -> str:
    (body,) = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_each({body}, '$.metadata')"


@compiles(_MetadataItems, "postgresql")
def _metadata_items_postgres(element: _MetadataItems, compiler: SQLCompiler, **options: Any) -> str:
    (body,) = (compiler.process(clause, **options) for clause in element.clauses)
    # NULL, when there is no metadata, gives no rows.
    return f"json_each_text({_as_json(body)} -> 'metadata')"


def _as_json(body: str) -> str:
    r"""Cast a body to JSON in Postgres, without `\u0000`, which in any record would fail the whole query."""
    seen = rf"regexp_replace({body}, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')"
    return rf"CAST(CASE WHEN strpos({body}, '\u0000') > 0 THEN {seen} ELSE {body} END AS json)"
