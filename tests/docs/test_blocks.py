"""The reader of pages itself."""

import subprocess
from pathlib import Path

from tests.docs.blocks import script

PAGE = """
# A page

```bash run
name=world
```

Some words.

```text
exit 1
```

```python run
print("from python")
```

```bash run
echo "hello $name"
```
"""


def test_blocks_run_in_order_and_share_variables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    ended = subprocess.run(
        ["bash", "-c", script(page, tmp_path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ended.stdout == "from python\nhello world\n"
    assert ended.stderr.splitlines() == ["--- page.md:5", "--- page.md:15", "--- page.md:19"]


def test_a_block_that_fails_ends_the_page_at_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash run\nfalse\n```\n\n```bash run\necho never\n```\n")
    ended = subprocess.run(
        ["bash", "-c", script(page, tmp_path)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "--- page.md:2\n")


def test_a_page_without_blocks_has_no_script(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```text\nexit 1\n```\n")
    assert script(page, tmp_path) == ""
