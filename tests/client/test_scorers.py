"""Custom scorers by our own client, as nouns and as objects, against a real server."""

import pytest

from benchyard import Benchyard
from benchyard.errors import NotFound, UsageError
from tests.client.scenes import unique


def test_a_scorer_is_made_found_changed_and_listed(yard: Benchyard) -> None:
    scorers = yard.api.scenarios.scorers
    made = scorers.create(type=unique("noun"), bash_script="echo 1")
    assert scorers.retrieve(made.id) == scorers.get(made.id) == made
    changed = scorers.update(made.id, type=made.type, bash_script="echo 0.5")
    assert (changed.bash_script, changed.revision) == ("echo 0.5", 2)
    page = scorers.list(search=made.type)
    assert (page.scorers[0].id, len(page)) == (made.id, 1)
    with pytest.raises(UsageError, match="is there already"):
        scorers.create(type=made.type, bash_script="echo 1")
    with pytest.raises(NotFound):
        scorers.get("scs_none")


def test_a_scorer_is_tried(yard: Benchyard) -> None:
    script = 'case $RL_SCORER_CONTEXT in *blue*) echo 1;; *) echo 0.5;; esac; [ "$PWD" = /srv/t ] || echo x'
    made = yard.scorer.create(type=unique("tried"), bash_script=script)
    place = {"working_directory": "/srv/t"}
    tried = made.validate({"colour": "blue"}, place)
    assert (tried.scoring_result.score, tried.scoring_result.state) == (1.0, "complete")
    other = yard.api.scenarios.scorers.validate(made.id, {"colour": "red"}, environment_parameters=place)
    assert other.scoring_result.score == 0.5
    assert made.validate({}).scoring_result.state == "error"


def test_a_scorer_as_an_object(yard: Benchyard) -> None:
    type = unique("object")
    made = yard.scorer.create(type=type, bash_script="echo 1")
    assert yard.scorer.from_id(made.id).get_info().type == type
    assert made.update(type=type, bash_script="echo 0").bash_script == "echo 0"
    assert [each.id for each in yard.scorer.list(search=type)] == [made.id]
