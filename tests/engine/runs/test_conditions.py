"""What the machine did to a run that was scored."""

from benchyard.engine.runs.conditions import Conditions


def test_a_load_far_above_the_cores_is_reported_once() -> None:
    loads = iter((7.9, 35.2, 35.4, 8.1))
    conditions = Conditions(lambda: next(loads), 2)
    conditions.look_at_load("when the work ended")
    assert conditions.lines == []
    conditions.look_at_load("the scorer's time ran out while")
    conditions.look_at_load("the scorer's time ran out while")
    conditions.look_at_load("while it was scored")
    assert conditions.lines == [
        "the scorer's time ran out while the machine's load was 35 on 2 cores",
        "while it was scored the machine's load was 8 on 2 cores",
    ]
