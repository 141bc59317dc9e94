"""The tables: one per noun, all of one shape."""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text

ONE = "one"
"""Key in a table's info for the name of one of its records in messages."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows automatically only in a column whose type is exactly INTEGER.
_SEQUENCE = BigInteger().with_variant(Integer, "sqlite")


def _noun(name: str, *, one: str | None = None, unique_name: bool = False) -> Table:
    table = Table(
        name,
        metadata,
        Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
        Column("id", String(128), nullable=False, unique=True),
        Column("create_time_ms", BigInteger, nullable=False),
        Column("name", Text),
        Column("status", String(64)),
        Column("parent", Text),
        Column("request_hash", String(64)),
        Column("body", Text, nullable=False),
        info={ONE: one or name.removesuffix("s").replace("_", " ")},
    )
    Index(None, table.c.name, unique=unique_name)
    Index(None, table.c.status)
    Index(None, table.c.parent)
    return table


TABLES = {
    table.name: table
    for table in (
        _noun("devboxes", one="devbox"),
        _noun("snapshots"),
        _noun("objects"),
        _noun("secrets", unique_name=True),
        _noun("api_keys", one="key"),
        _noun("blueprints"),
        _noun("scenarios"),
        _noun("scenario_revisions"),
        _noun("custom_scorers", unique_name=True),
        _noun("benchmarks", unique_name=True),
        _noun("scenario_runs"),
        _noun("benchmark_runs"),
        _noun("benchmark_jobs", one="job"),
        _noun("trials"),
        _noun("agents"),
        _noun("gateway_configs", unique_name=True),
        _noun("network_policies", one="network policy", unique_name=True),
        _noun("reference_reports"),
        _noun("removals"),
        _noun("baselines"),
        _noun("webhooks"),
        _noun("webhook_deliveries", one="webhook delivery"),
        _noun("trial_annotations", one="annotation"),
        _noun("judge_runs"),
        _noun("judgements"),
    )
}

EVENTS = Table(
    "events",
    metadata,
    Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("parent", String(128), nullable=False),
    Column("body", Text, nullable=False),
    # A new event must not reuse the number of a removed one, or followers would miss it.
    sqlite_autoincrement=True,
)
Index(None, EVENTS.c.parent, EVENTS.c.seq)

TRIAL_FACTS = Table(
    "trial_facts",
    metadata,
    Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("id", String(128), nullable=False, unique=True),
    Column("job_id", String(128), nullable=False),
    Column("scenario_id", String(128), nullable=False),
    Column("agent_name", Text),
    Column("agent_label", Text),
    Column("benchmark_id", String(128)),
    Column("state", String(64), nullable=False),
    Column("outcome", String(64)),
    Column("failure_kind", String(64)),
)
"""Facts by which trials of all jobs are chosen, in narrow rows, since bodies are long."""
_CHOSEN_BY = ("job_id", "scenario_id", "agent_name", "agent_label", "benchmark_id", "outcome", "failure_kind")
for _name in _CHOSEN_BY:
    Index(None, TRIAL_FACTS.c[_name])

TAGS = Table(
    "tags",
    metadata,
    Column("subject", String(128), primary_key=True),
    Column("tag", String(64), primary_key=True),
    Column("parent", String(128), nullable=False),
)
"""Tags of jobs and trials; the parent is the job of either."""
Index(None, TAGS.c.tag)
Index(None, TAGS.c.parent)
