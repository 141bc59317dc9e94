"""Reports as text and pictures: every name escaped, every interval in its place."""

from xml.etree.ElementTree import fromstring

from benchyard.models.comparisons import EstimateView
from benchyard.models.jobs import AgentConfig, JobState
from benchyard.reports.markdown import plain
from benchyard.reports.report_pictures import intervals_svg, report_html
from benchyard.reports.report_texts import estimate_text, interval_bar, markdown, p_equation, p_text
from tests.reports.scenes import job, trial
from tests.reports.test_attempt_report import report

HOSTILE = 'a|b`*<img src=x onerror="alert(1)">\n[x](y)\u202e&'


def view(mean: float, low: float | None, high: float | None) -> EstimateView:
    """An estimate with this interval."""
    return EstimateView(mean=mean, low=low, high=high, n=3, n_clusters=3, n_effective=3, method="wilson")


def test_a_bar_has_the_interval_where_it_is() -> None:
    assert interval_bar(view(0.5, 0.25, 0.75), 9) == "--[=o=]--"
    assert interval_bar(view(0.0, 0.0, 1.0), 5) == "o===]"
    assert interval_bar(view(7.0, -3.0, 12.0), 5) == "[===o"
    assert interval_bar(None, 3) == interval_bar(view(7.0, None, None), 3) == "---"
    assert estimate_text(view(7.0, None, None)) == "7.000"


def test_a_chance_is_never_told_as_0() -> None:
    assert [p_text(p) for p in (0.5, 0.0004, 1e-300)] == ["0.500", "4.0e-04", "<1e-16"]
    assert [p_equation(p) for p in (0.5, 0.0)] == ["p = 0.500", "p < 1e-16"]


def test_names_are_text_in_markdown_and_html() -> None:
    made = job(agents=2, scenarios=2, attempts=2, state=JobState.COMPLETED)
    configs = [AgentConfig.model_construct(name=HOSTILE), AgentConfig(name="b")]
    spec = made.spec.model_copy(update={"agent_configs": configs})
    made = made.model_copy(update={"name": HOSTILE, "spec": spec})
    trials = [
        trial(float(attempt == 1), agent=agent, scenario=scenario, attempt=attempt).model_copy(
            update={"scenario_name": HOSTILE}
        )
        for agent in (0, 1)
        for scenario in (0, 1)
        for attempt in (1, 2)
    ]
    found = report(made, trials)
    assert found.scenarios.n_flaky == 4
    text = markdown(found)
    assert "<img" not in text
    assert "a\\|b\\`\\*&lt;img" in text
    assert "\u202e" not in text
    page = report_html(found)
    assert "<img" not in page
    assert "&lt;img src=x onerror=&quot;" in page
    fromstring(page)
    assert page.startswith('<div class="tex2jax_ignore mathjax_ignore">')


def test_a_name_in_markdown_calls_nobody_links_nowhere_and_is_no_formula() -> None:
    joiner = "\u2060"
    assert plain("(@team) see #12, GH-3") == f"(@{joiner}team) see #{joiner}12, GH{joiner}-3"
    assert plain("https://evil.example www.evil.example") == (
        f"https:{joiner}//evil.example www{joiner}.evil.example"
    )
    assert plain("agent@1.0:model C# a: b") == "agent@1.0:model C# a: b"
    assert plain("$a$") == "\\$a\\$"
    assert plain("x" * 200) == "x" * 200
    assert plain("x" * 201) == "x" * 199 + "…"


def test_amounts_of_dollars_are_no_formulas_in_markdown() -> None:
    made = job(agents=1, scenarios=3, state=JobState.COMPLETED)
    usage = {"usage": {"cost_usd": 0.5}}
    trials = [trial(1.0, scenario=index).model_copy(update=usage) for index in range(3)]
    text = markdown(report(made, trials))
    assert "\\$0.5000" in text
    assert "$" not in text.replace("\\$", "")


def test_a_picture_holds_every_interval() -> None:
    made = job(agents=3, scenarios=3, state=JobState.COMPLETED)
    scores = [(0, -1.0), (0, 2.0), (0, 5.0), (1, 1.0), (1, 1.0), (1, 0.0)]
    trials = [trial(score, agent=agent, scenario=index % 3) for index, (agent, score) in enumerate(scores)]
    agents = report(made, trials).agents
    picture = fromstring(intervals_svg(agents))
    width = float(picture.get("width", "0"))
    places = [
        float(place)
        for each in picture
        for name in ("x1", "x2", "cx")
        if (place := each.get(name)) is not None
    ]
    assert len([each for each in picture if each.tag.endswith("circle")]) == 2
    assert min(places) > 0
    assert max(places) <= width
