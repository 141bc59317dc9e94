"""Pages that stay true: links resolve, code blocks say whether they run, the changelog keeps its format."""

import re
from pathlib import Path

from tests.house.tree import ROOT, tracked_files

PAGES = [path for path in tracked_files() if path.suffix == ".md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
KINDS = {"bash run", "python run", "text"}
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """The links of a page that lead to no file or heading of ours."""
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    return broken


def test_links_resolve() -> None:
    assert [link for page in PAGES for link in broken_links(page)] == []


def test_code_blocks_say_whether_they_run() -> None:
    fences = {page.relative_to(ROOT): re.findall(r"^```(.*)$", page.read_text(), re.M) for page in PAGES}
    assert [page for page, found in fences.items() if len(found) % 2] == [], "a code block is not closed"
    assert [page for page, found in fences.items() if not set(found[::2]) <= KINDS] == []


def test_every_decision_has_context_choice_and_price() -> None:
    records = sorted((ROOT / "docs/adr").glob("0*.md"))
    numbers = [int(record.name[:4]) for record in records]
    assert numbers == list(range(1, len(records) + 1))
    for record in records:
        headings = re.findall(r"^## (.+)$", record.read_text(), re.M)
        assert headings == ["Context", "Decision", "What we gave up"], record.name


def test_the_changelog_keeps_its_format() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (.+)$", text, re.M)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", release) for release in releases[1:])
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= SECTIONS
