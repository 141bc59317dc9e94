"""The API's reference as one page without scripts, fonts or anything of another server. Pure."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content security policy of the page, which loads nothing."""
_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_DEEPEST = 4
_REF = "#/components/schemas/"
_LIMITS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "like {}",
}
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8882; --link: light-dark(#0550ae, #79b8ff); }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 15rem 1fr; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; box-sizing: border-box;
  border-right: 1px solid var(--line); font-size: 14px; }
nav a { display: block; }
main { padding: 1rem 2rem 6rem; max-width: 62rem; min-width: 0; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
details > :not(summary) { margin: .5rem 1rem; }
summary { padding: .4rem .8rem; cursor: pointer; }
summary span { color: GrayText; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .7rem; border-radius: 6px; overflow: auto; }
table { border-collapse: collapse; width: calc(100% - 2rem); font-size: 14px; }
td { vertical-align: top; padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line); }
td:last-child { overflow-wrap: anywhere; }
.verb { display: inline-block; width: 4.2em; font-weight: 600; text-transform: uppercase; font-size: 12px; }
@media (max-width: 50rem) {
  body { display: block; } nav { position: static; height: auto; } main { padding: 1rem; }
}
"""

Schema = Mapping[str, Any]


def reference_page(schema: Schema) -> str:
    """Return a page about every route and model of an OpenAPI schema."""
    info, models = schema["info"], schema.get("components", {}).get("schemas", {})
    groups = _groups(schema["paths"])
    links = "".join(f'<a href="#{_place(name)}">{escape(name)}</a>' for name in (*groups, "models"))
    parts = [
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        "<p>Every request but those to <code>/healthz</code>, this page and signed links needs a key: "
        "<code>Authorization: Bearer KEY</code>. The same as JSON: "
        '<a href="/openapi.json">/openapi.json</a>.</p>',
        "<pre>export BENCHYARD_URL=http://127.0.0.1:7411 BENCHYARD_API_KEY=...</pre>",
    ]
    for name, operations in groups.items():
        parts.append(f'<h2 id="{_place(name)}">{escape(name)}</h2>')
        parts += [_operation(path, verb, operation, models) for path, verb, operation in operations]
    parts.append('<h2 id="models">models</h2>')
    parts += [_model(name, models[name]) for name in sorted(models)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head>"
        f"<body><nav><b>{escape(info['title'])}</b>{links}</nav><main>{''.join(parts)}</main></body></html>"
    )


def _place(name: str) -> str:
    """Return the id of a group, without blanks."""
    return escape(name.replace(" ", "-"))


def _groups(paths: Schema) -> dict[str, list[tuple[str, str, Schema]]]:
    groups: dict[str, list[tuple[str, str, Schema]]] = {}
    for path in sorted(paths):
        for verb in _METHODS:
            if operation := paths[path].get(verb):
                groups.setdefault((operation.get("tags") or ["other"])[0], []).append((path, verb, operation))
    return dict(sorted(groups.items()))


def _operation(path: str, verb: str, told: Schema, models: Schema) -> str:
    words = str(told.get("description") or told.get("summary") or "")
    parts = [
        f'<details id="{escape(verb + path)}"><summary><span class="verb">{verb}</span> '
        f"<code>{escape(path)}</code> <span>{escape(words)}</span></summary>"
    ]
    if parameters := told.get("parameters"):
        rows = (
            (parameter["name"], parameter.get("schema", {}), bool(parameter.get("required")), parameter["in"])
            for parameter in parameters
            if parameter["in"] != "header"
        )
        parts.append(_table("Parameters", rows))
    kind, body = _content(told.get("requestBody", {}))
    if body is not None:
        parts.append(f"<p>Body: {_type(body)}{_kind(kind)}</p>")
    parts.append(f"<pre>{escape(_curl(path, verb, kind, body, models))}</pre>")
    for status, answer in sorted(told.get("responses", {}).items()):
        answered, given = _content(answer)
        shown = f": {_type(given)}{_kind(answered)}" if given is not None else ""
        parts.append(f"<p><b>{escape(status)}</b> {escape(str(answer.get('description', '')))}{shown}</p>")
    return "".join([*parts, "</details>"])


def _content(holder: Schema) -> tuple[str, Schema | None]:
    """Return the content type of a body and its schema; JSON is preferred."""
    content = holder.get("content") or {}
    for kind in sorted(content, key=lambda each: each != "application/json"):
        return kind, content[kind].get("schema") or {}
    return "", None


def _kind(kind: str) -> str:
    return "" if kind in ("", "application/json") else f" ({escape(kind)})"


def _model(name: str, model: Schema) -> str:
    needed = set(model.get("required", ()))
    words = escape(str(model.get("description", "")))
    head = f'<details id="{escape(name)}"><summary><code>{escape(name)}</code> <span>{words}</span></summary>'
    rows = [(field, each, field in needed, "") for field, each in model.get("properties", {}).items()]
    body = _table("", iter(rows)) if rows else f"<p>{_type(model)}</p>"
    return f"{head}{body}</details>"


def _table(title: str, rows: Iterator[tuple[str, Schema, bool, str]]) -> str:
    lines = []
    for name, schema, is_needed, place in rows:
        notes = [note for note in (place, "required" if is_needed else "", *_notes(schema)) if note]
        words = escape(str(schema.get("description", "")))
        lines.append(
            f"<tr><td><code>{escape(name)}</code></td><td>{_type(schema)}</td>"
            f"<td>{' '.join(filter(None, (words, escape('; '.join(notes)))))}</td></tr>"
        )
    heading = f"<p><b>{title}</b></p>" if title and lines else ""
    return f"{heading}<table>{''.join(lines)}</table>" if lines else ""


def _notes(schema: Schema) -> Iterator[str]:
    inner = [schema, *(each for each in schema.get("anyOf", ()) if isinstance(each, dict))]
    for choice in inner:
        for key, words in _LIMITS.items():
            if key in choice:
                yield words.format(choice[key])
    if schema.get("default") is not None:
        yield f"default {json.dumps(schema['default'], ensure_ascii=False)}"


def _type(schema: Schema, depth: int = 0) -> str:
    """Return a type in words, with links to models."""
    if ref := schema.get("$ref"):
        name = str(ref).removeprefix(_REF)
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    if depth > _DEEPEST:
        return "..."
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := schema.get(key):
            kinds = [_type(choice, depth + 1) for choice in choices if choice.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds)) or "null"
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if values := schema.get("enum"):
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema.get('items') or {}, depth + 1)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'], depth + 1)}"
    return escape(str(kind or "anything"))


def _curl(path: str, verb: str, kind: str, body: Schema | None, models: Schema) -> str:
    lines = ["curl" + ("" if verb == "get" else f" -X {verb.upper()}") + f' "$BENCHYARD_URL{path}"']
    lines.append('  -H "Authorization: Bearer $BENCHYARD_API_KEY"')
    if kind == "application/json":
        example = json.dumps(_example(body or {}, models, 0)).replace("'", "'\\''")
        lines += ["  -H 'Content-Type: application/json'", f"  -d '{example}'"]
    elif kind:
        lines.append("  -F file=@FILE" if "multipart" in kind else "  --data-binary @FILE")
    return " \\\n".join(lines)


def _example(schema: Schema, models: Schema, depth: int) -> Any:
    """Return a minimal example for a schema."""
    if ref := schema.get("$ref"):
        return _example(models.get(str(ref).removeprefix(_REF), {}), models, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := schema.get(key):
            return _example(choices[0], models, depth + 1)
    if "const" in schema:
        return schema["const"]
    if values := schema.get("enum"):
        return values[0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties", {})
        needed = schema.get("required", ()) if depth <= _DEEPEST else ()
        return {name: _example(fields.get(name, {}), models, depth + 1) for name in needed}
    return {"array": [], "integer": 1, "number": 1.0, "boolean": True, "null": None}.get(str(kind), "...")
