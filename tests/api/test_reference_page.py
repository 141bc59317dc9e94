"""The reference at /docs: whole, usable offline, and not to be broken by what a schema says."""

import re
from html.parser import HTMLParser

import httpx

from benchyard.api.reference_page import reference_page


class Page(HTMLParser):
    """What a page loads, links to, and has to link to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.loaded += [given["src"] or ""] if "src" in given else []
        self.links |= {given["href"] or ""} if "href" in given else set()
        self.ids |= {given["id"] or ""} if "id" in given else set()


def test_it_shows_every_route_and_loads_nothing(stranger: httpx.Client) -> None:
    answer = stranger.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    page = Page(answer.text)
    assert page.loaded == []
    assert not {"script", "link", "iframe", "img", "form"} & set(page.tags)
    assert not re.search(r"@import|url\(", answer.text)
    # Nothing leads anywhere but into the page, and to the schema.
    assert {link for link in page.links if not link.startswith("#")} == {"/openapi.json"}
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.ids
    schema = stranger.get("/openapi.json").json()
    routes = {verb + path for path, verbs in schema["paths"].items() for verb in verbs}
    assert routes <= page.ids
    assert set(schema["components"]["schemas"]) <= page.ids
    assert "curl -X POST &quot;$BENCHYARD_URL/v1/devboxes&quot;" in answer.text
    assert stranger.get("/docs/oauth2-redirect").status_code == 401


def test_text_of_a_schema_is_escaped() -> None:
    evil = "</code><script>alert(1)</script>"
    field = {"type": "string", "description": evil, "enum": [evil], "default": evil}
    of_model = {"$ref": f"#/components/schemas/{evil}"}
    operation = {
        "tags": [evil],
        "description": evil,
        "parameters": [{"name": evil, "in": "query", "schema": field}],
        "requestBody": {"content": {"application/json": {"schema": of_model}}},
        "responses": {"200": {"description": evil, "content": {evil: {"schema": field}}}},
    }
    model = {"properties": {evil: field}, "required": [evil], "description": evil}
    text = reference_page(
        {
            "info": {"title": evil, "version": evil},
            "paths": {f"/{evil}": {"post": operation}},
            "components": {"schemas": {evil: model}},
        }
    )
    assert "script" not in Page(text).tags
