"""The tamper report: what weighs most comes first, and what is cut or unknown is said."""

import pytest

from benchyard.engine.runs.tamper import MOST_PROCESSES, MOST_SHOWN, MOST_WATCHED, TamperFindings, WorkPaths
from benchyard.hosts.grading import DiskChange, DiskChanges
from benchyard.models.runs import LeftProcess, TamperReport

WORK = WorkPaths(("/home/user/work",))
PYTHON = "/usr/local/bin/python3"


def change(path: str, kind: str = "added", type: str = "file", mode: int = 0o644) -> DiskChange:
    return DiskChange(path, kind, type, mode, 1, kind == "deleted")


def changes(*found: DiskChange, total: int | None = None) -> DiskChanges:
    return DiskChanges(found, total or len(found), truncated=total is not None, exact=True)


def findings(*found: DiskChange, work: WorkPaths = WORK) -> TamperFindings:
    return TamperFindings(work, changes=changes(*found))


def flood(folder: str, count: int = 1200, **fields: int) -> list[DiskChange]:
    return [change(f"{folder}/{number:05}", **fields) for number in range(count)]  # type: ignore[arg-type]


def paths(report: TamperReport) -> list[str]:
    return [each.path for each in report.changed_outside or ()]


def test_gravest_changes_come_first() -> None:
    found = findings(
        change("/aaa/plain"),
        change("/aaa", type="folder"),
        change("/srv/gone", kind="deleted"),
        change("/usr/lib/gone", kind="deleted"),
        change("/opt/tool", mode=0o755),
        change("/opt/x.pth"),
        change("/etc/profile"),
        change("/srv/read"),
    )
    found.saw(["/srv/read"])
    report = found.report()
    assert paths(report) == [
        "/srv/read", "/usr/lib/gone", "/etc/profile", "/opt/tool", "/opt/x.pth", "/aaa/plain",
        "/aaa", "/srv/gone",
    ]  # fmt: skip
    assert [each.opened for each in report.changed_outside or ()] == [True] + [False] * 7
    assert (report.opened_outside_total, report.notes, report.unknown) == (1, [], [])


def test_floods_hide_nothing_and_every_cut_is_noted() -> None:
    inside = flood("/home/user/work")
    special = [change(f"/home/user/work/link-{number:05}", type="link") for number in range(1200)]
    found = findings(*flood("/aaa"), *inside, *special, change(PYTHON, mode=0o755))
    found.processes = [LeftProcess(pid=n, user="user", command="sleep") for n in range(MOST_PROCESSES + 50)]
    found.processes_total = MOST_PROCESSES + 50
    found.refused = [str(number) for number in range(1200)]
    found.saw([*(each.path for each in inside), PYTHON])
    report = found.report()
    assert (paths(report)[0], len(paths(report))) == (PYTHON, MOST_SHOWN)
    opened = report.opened_by_scorers or []
    assert (opened[0], len(opened)) == (PYTHON, MOST_SHOWN)
    assert len(report.processes or ()) == MOST_PROCESSES
    assert len(report.special_inside or ()) == len(report.refused) == MOST_SHOWN
    totals = {
        "changed_outside": report.changed_outside_total,
        "special_inside": report.special_inside_total,
        "opened_by_scorers": report.opened_by_scorers_total,
        "processes": report.processes_total,
        "refused": report.refused_total,
    }
    assert list(totals.values()) == [1201, 1200, 1201, MOST_PROCESSES + 50, 1200]
    for name, total in totals.items():
        (note,) = [each for each in report.notes if each.startswith(f"{name}: ")]
        assert f"of {total} are listed" in note


def test_files_outside_of_the_work_are_watched_first() -> None:
    many = flood("/home/user/work", MOST_WATCHED + 500)
    found = findings(*many, change("/zzz/last"), change(PYTHON, mode=0o755), change("/etc", type="folder"))
    watched = found.watched()
    assert (len(watched), watched[:2]) == (MOST_WATCHED, [PYTHON, "/zzz/last"])
    found.saw([PYTHON])
    report = found.report()
    assert (report.unwatched_outside, report.unwatched_outside_total) == ([], 0)


def test_unwatched_files_are_named() -> None:
    found = findings(*flood("/aaa", MOST_WATCHED + 5), change(PYTHON, mode=0o755))
    assert found.watched()[0] == PYTHON
    found.saw([], [PYTHON])
    report = found.report()
    assert (report.unwatched_outside[0], report.unwatched_outside_total) == (PYTHON, 7)
    found.saw([PYTHON])
    assert found.report().unwatched_outside_total == 6, "another scorer was seen to open it"


def test_unwatched_scorer_leaves_all_outside_files_in_doubt() -> None:
    found = findings(change(PYTHON), change("/home/user/work/x"), change("/etc/gone", kind="deleted"))
    found.saw([PYTHON])
    found.saw(None)
    report = found.report()
    assert (report.opened_by_scorers, report.unwatched_outside) == ([PYTHON], [])
    blind = findings(change(PYTHON), change("/home/user/work/x"))
    blind.saw(None)
    assert (blind.report().opened_by_scorers, blind.report().unwatched_outside) == (None, [PYTHON])
    assert any("not known" in each for each in blind.report().notes)


def test_a_list_of_changes_that_was_cut_is_unknown() -> None:
    found = findings(*flood("/home/user/work", 10))
    found.changes = changes(*flood("/home/user/work", 10), total=90_000)
    found.outside = changes(change(PYTHON))
    found.saw([])
    assert found.report().unknown == [], "only what is inside was too much"
    assert found.report().changed_inside_total == 89_999
    found.outside = changes(change(PYTHON), total=30_000)
    (line,) = found.report().unknown
    assert line.startswith("29999 more paths")


def test_only_what_is_taken_over_can_be_opened() -> None:
    answer = WorkPaths(("/home/user/work", "/srv/answer"), carried=("/srv/answer",))
    found = findings(change(PYTHON), change("/srv/answer/x"), change("/home/user/work/y"), work=answer)
    assert found.watched() == ["/srv/answer/x"]
    found.saw(["/srv/answer/x"])
    report = found.report()
    assert (paths(report), report.opened_outside_total) == ([PYTHON], 0)
    found.why_unknown.append("what was changed is not known")
    found.saw(None)
    assert (found.report().unknown, found.report().unwatched_outside) == ([], [])


@pytest.mark.parametrize(
    ("folder", "path", "is_work"),
    [
        ("/", "/answer", True),
        ("/", PYTHON, False),
        ("/", "/etc/profile", False),
        ("/usr/src/app", "/usr/src/app/x", True),
        ("/usr/src/app", "/usr/src/apps", False),
        ("/home/user", "/home/user", True),
    ],
)
def test_the_system_is_not_part_of_work_that_lies_above_it(folder: str, path: str, is_work: bool) -> None:
    assert WorkPaths((folder,)).has(path) == is_work


@pytest.mark.parametrize(
    ("inner", "is_work"),
    [
        (".git/hooks/post-checkout", False),
        ("sub/.git/hooks/pre-commit", False),
        (".git/modules/a/b/hooks/pre-commit", False),
        (".git/info/attributes", False),
        (".git/objects/info/alternates", False),
        (".git/hooks/pre-commit.sample", True),
        (".git/config", True),
        (".git/info/exclude", True),
        (".git/objects/ab/cdef", True),
        ("hooks/post-checkout", True),
    ],
)
def test_files_that_git_runs_are_not_work(inner: str, is_work: bool) -> None:
    assert WORK.has(f"/home/user/work/{inner}") == is_work
    assert WorkPaths(("/home/user/work/.git/hooks",)).has("/home/user/work/.git/hooks/post-checkout")
    assert not WorkPaths(("/home/user/work/.git",)).has("/home/user/work/.git/hooks/post-checkout")


def test_a_report_that_is_kept_can_be_gone_on_from() -> None:
    first = findings(change(PYTHON, type="link", mode=0o777), change("/home/user/work/x"))
    first.saw([])
    again = TamperFindings(WORK)
    again.recall(first.report())
    assert again.watched() == [PYTHON]
    again.saw([PYTHON])
    assert again.report().opened_outside_total == 1
    lost = TamperFindings(WORK)
    lost.recall(None)
    assert lost.report().unknown != []
