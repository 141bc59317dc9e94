"""Harbor job files: the supported part is run; every other key is refused by its name."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from benchyard.benchmarks.files.located_values import FilePart, KeyPath, LocatedData, read_yaml, unknown_key
from benchyard.errors import UsageError
from benchyard.models.base import Model, WireBool, WireFloat, WireInt
from benchyard.workers.workers import WorkerCall, WorkerLimits

_OWN_AGENT = "register the agent with `benchyard agent register`, and name it"
_OWN_SCORER = "what grades a scenario is its scoring contract; change it there"
_SERVER = "devboxes are this server's; remove it"
_IMAGE = "make it part of the blueprint that the scenarios start from"
_SIZE = "the size of a devbox is in the scenario's launch parameters"
_KNOWN_NAME = "push the tasks with `benchyard benchmark push`, and give the benchmark's name"
SECRETS = (
    "keep it with `benchyard secret set`, and ask for the job with `benchyard job run --benchmark NAME "
    "--secrets VARIABLE=SECRET`"
)
"""Advice for secret values, which do not belong in a file."""
_CLIENT = "what a user says is part of a scenario here; remove it"

HARMLESS: Mapping[str, frozenset[str]] = {
    # Harbor's output folder and display: results stay on the server, and `job logs` fetches them.
    "": frozenset({"debug", "jobs_dir", "skip_credential_checks"}),
    "environment": frozenset({"suppress_override_warnings"}),
    "datasets": frozenset({"overwrite", "download_dir"}),
}
"""Keys without effect here, whatever their values."""

ALLOWED: Mapping[tuple[str, Any], tuple[Any, ...]] = {
    ("environment", "type"): ("docker", "runloop"),
    ("environment", "delete"): (True,),
    ("orchestrator", "type"): ("local",),
}
"""Values of refused keys that are accepted, since they ask for the behaviour here."""

TRUE_UNLESS_SAID = frozenset({("environment", "delete")})
"""Keys that are true by default, so that `false` asks for something."""

REFUSED: Mapping[str, Mapping[Any, str]] = {
    "": {
        "install_only": "there is nothing to install without running it; remove it",
        "metrics": "means, confidence and pass@k are in `benchyard job summary`; remove it",
        "user_agent": _CLIENT,
        "tasks": f"{_KNOWN_NAME} under datasets; or ask for a job over scenarios (`job run --scenarios`)",
        "artifacts": "`benchyard job logs` brings what agents and scorers left; remove it",
        "extra_instructions": "write it into the scenarios' problem statements",
        "extra_instruction_paths": "write it into the scenarios' problem statements",
        "source_jobs": "`benchyard job rescore` and `retry` do that with a job that is here",
        "compose": _IMAGE,
        "plugins": "nothing of a job file is loaded as code here; remove it",
        "search": "remove it",
    },
    "agents": {
        "import_path": _OWN_AGENT,
        "override_setup_timeout_sec": "agents are installed once, before any trial; remove it",
        "base_url": "give it to the agent in env",
        "model_api_key_name": SECRETS,
        "model_api_format": "give it to the agent in kwargs",
        "n_concurrent": "set n_concurrent_trials, or run this agent in a job of its own",
        "concurrency_group": "set n_concurrent_trials, or run this agent in a job of its own",
        "skills": _OWN_AGENT,
        "resume_trajectory": "every trial begins anew; remove it",
        "load_trajectory": "every trial begins anew; remove it",
        "mcp_servers": _OWN_AGENT,
        "extra_allowed_hosts": "a scenario says in metadata `benchyard.network` what can be reached",
    },
    "datasets": {
        "path": _KNOWN_NAME,
        "repo": _KNOWN_NAME,
        "registry": _KNOWN_NAME,
        "registry_url": _KNOWN_NAME,
        "registry_path": _KNOWN_NAME,
    },
    "environment": {
        "type": _SERVER,
        "import_path": _SERVER,
        "force_build": "blueprints are built when they change; remove it",
        "delete": "devboxes of trials end with them; remove it",
        "stream": _SERVER,
        "cpu_enforcement_policy": _SIZE,
        "memory_enforcement_policy": _SIZE,
        "override_cpus": _SIZE,
        "override_memory": _SIZE,
        "override_memory_mb": _SIZE,
        "override_storage": _SIZE,
        "override_storage_mb": _SIZE,
        "override_gpus": _SIZE,
        "override_tpu": _SIZE,
        "mounts": _IMAGE,
        "mounts_json": _IMAGE,
        "extra_docker_compose": _IMAGE,
        "env": "give it to the agents in agents[].env",
        "kwargs": _SERVER,
        "extra_allowed_hosts": "a scenario says in metadata `benchyard.network` what can be reached",
    },
    "verifier": {
        "override_timeout_sec": "a scenario says its scorers' time in scorer_timeout_sec",
        "max_timeout_sec": "a scenario says its scorers' time in scorer_timeout_sec",
        "env": "a scenario gives its scorers secrets in scoring_secrets",
        "import_path": _OWN_SCORER,
        "kwargs": _OWN_SCORER,
        "disable": "every trial is scored; remove it",
        "include_logs": _OWN_SCORER,
        "exclude_logs": _OWN_SCORER,
        "extra_allowed_hosts": "a scenario gives its scorers a network in scoring_network",
    },
    "retry": {
        "include_exceptions": "what the infrastructure failed is tried again here, and nothing else",
        "exclude_exceptions": "what the infrastructure failed is tried again here, and nothing else",
        "include": "what the infrastructure failed is tried again here, and nothing else",
        "exclude": "what the infrastructure failed is tried again here, and nothing else",
    },
    "orchestrator": {
        "type": "jobs are carried out by this server; remove it",
        "kwargs": "jobs are carried out by this server; remove it",
        "plugins": "nothing of a job file is loaded as code here; remove it",
    },
}
"""Part -> key -> advice on what to do instead."""


MOST_BYTES = 256 * 1024
_MOST_SECONDS = 30 * 24 * 3600
_MOST_PROBLEMS = 10
_FILE = Path("inline_yaml")
_READ = "benchyard.engine.jobs.harbor_file:read_job"
_LIMITS = WorkerLimits(seconds=30, output_bytes=1024**2)
_FIELD = "spec.inline_yaml"
_SAYS_NOTHING: tuple[Any, ...] = (None, False, "", [], {})
CONCURRENT_DEFAULT = 4

_Problem = tuple[KeyPath, str]


class HarborDataset(Model):
    """Scenarios of a benchmark with this name on this server."""

    benchmark: str
    version: str | None = None
    include: list[str] = Field(default_factory=list)
    """Names of scenarios, with * and ?; empty means all."""
    exclude: list[str] = Field(default_factory=list)
    n_tasks: int | None = None
    """Most scenarios, of those that are left."""


class HarborAgent(Model):
    """Agent of the job."""

    name: str
    model_name: str | None = None
    timeout_seconds: float | None = None
    kwargs: dict[str, str] = Field(default_factory=dict)
    environment_variables: dict[str, str] = Field(default_factory=dict)


class HarborJob(Model):
    """Content of a Harbor job file."""

    name: str | None = None
    datasets: list[HarborDataset]
    agents: list[HarborAgent]
    n_attempts: int = 1
    n_concurrent_trials: int = CONCURRENT_DEFAULT
    timeout_multiplier: float = 1.0
    max_retries: int | None = None
    """None if the file does not say: then the default of all jobs."""


def _check_name_characters(value: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValueError("a name has no control characters")
    return value


def _check_text(value: str) -> str:
    if "\0" in value or any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise ValueError("this text cannot be passed to a program")
    return value


def _check_no_acp(value: str) -> str:
    if value.startswith("acp:"):
        raise ValueError("agents over ACP cannot be run here; register yours with `benchyard agent register`")
    return value


def _check_no_variable(value: str) -> str:
    """Return a value; raises ValueError if it refers to an environment variable."""
    begin = value.find("${")
    if begin >= 0 and (end := value.find("}", begin)) >= 0:
        raise ValueError(
            f"{value[begin : end + 1][:100]} would be read from the environment of whoever runs Harbor, and "
            f"there is none here; {SECRETS}"
        )
    return value


def _text_from_integer(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_text(value: Any) -> Any:
    """Return a value for an agent as text: a string as it is, other values as JSON."""
    if isinstance(value, str):
        return value
    if not _is_json(value):
        raise ValueError("put it in quotes")
    return json.dumps(value, ensure_ascii=False)


def _is_json(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(inner) for key, inner in value.items())
    return value is None or isinstance(value, str | bool | int | float)


_Name = Annotated[
    str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_check_name_characters)
]
_Text = Annotated[str, StringConstraints(max_length=128 * 1024), AfterValidator(_check_text)]
_Globs = Annotated[list[_Name], Field(max_length=1000)]
_Seconds = Annotated[WireFloat, Field(gt=0, le=_MOST_SECONDS)]
_Multiplier = Annotated[WireFloat, Field(gt=0, le=1000)]
_Wait = Annotated[WireFloat, Field(ge=0, le=_MOST_SECONDS)]
_Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,255}$")]
_Value = Annotated[_Text, AfterValidator(_check_no_variable), BeforeValidator(_text_from_integer)]


class _Dataset(FilePart):
    name: _Name
    version: _Name | None = None
    ref: _Name | None = None
    task_names: _Globs | None = None
    exclude_task_names: _Globs | None = None
    n_tasks: Annotated[WireInt, Field(ge=1)] | None = None


class _Agent(FilePart):
    name: Annotated[_Name, AfterValidator(_check_no_acp)]
    model_name: _Name | None = None
    override_timeout_sec: _Seconds | None = None
    max_timeout_sec: _Seconds | None = None
    kwargs: dict[_Name, Annotated[_Text, BeforeValidator(_as_text)]] | None = None
    env: dict[_Variable, _Value] | None = None


class _Retry(FilePart):
    max_retries: Annotated[WireInt, Field(ge=0, le=20)] | None = None
    wait_multiplier: _Wait | None = None
    min_wait_sec: _Wait | None = None
    max_wait_sec: _Wait | None = None


class _Orchestrator(FilePart):
    """Part of older files with settings that newer ones have elsewhere."""

    n_concurrent_trials: Annotated[WireInt, Field(ge=1, le=10_000)] | None = None
    quiet: WireBool | None = None
    retry: _Retry | None = None


class _Nothing(FilePart):
    """Part of a file without supported keys."""


class _Job(_Orchestrator):
    job_name: _Name | None = None
    n_attempts: Annotated[WireInt, Field(ge=1, le=1000)] | None = None
    timeout_multiplier: _Multiplier | None = None
    agent_timeout_multiplier: _Multiplier | None = None
    verifier_timeout_multiplier: _Multiplier | None = None
    agent_setup_timeout_multiplier: _Multiplier | None = None
    environment_build_timeout_multiplier: _Multiplier | None = None
    orchestrator: _Orchestrator | None = None
    environment: _Nothing | None = None
    verifier: _Nothing | None = None
    agents: Annotated[list[_Agent], Field(min_length=1, max_length=100)]
    datasets: Annotated[list[_Dataset], Field(min_length=1, max_length=100)]


_PARTS: dict[str, type[FilePart]] = {
    "": _Job,
    "agents": _Agent,
    "datasets": _Dataset,
    "environment": _Nothing,
    "orchestrator": _Orchestrator,
    "retry": _Retry,
    "verifier": _Nothing,
}


async def job_from_text(text: str, call: WorkerCall) -> HarborJob:
    """Return the job in a file, parsed in a worker; raises as `parse_job` does."""
    if len(text) > MOST_BYTES:
        raise _too_long()
    found = json.loads(await call(_READ, text.encode(errors="surrogatepass"), limits=_LIMITS))
    if "job" in found:
        return HarborJob.model_validate(found["job"])
    raise UsageError(found["message"], **found["details"])


def read_job(content: BinaryIO) -> bytes:
    """Return the result of `parse_job` as JSON, for workers."""
    try:
        job = parse_job(content.read().decode(errors="surrogatepass"))
    except UsageError as error:
        return json.dumps({"message": error.message, "details": error.details}).encode()
    return json.dumps({"job": job.model_dump()}).encode()


def _too_long() -> UsageError:
    return UsageError(f"a Harbor job file has at most {MOST_BYTES} bytes", field=_FIELD)


def parse_job(text: str) -> HarborJob:
    """Return the job in a file; raises UsageError that names each unsupported key, with advice."""
    if len(text) > MOST_BYTES or len(text.encode(errors="replace")) > MOST_BYTES:
        raise _too_long()
    marked = read_yaml(_FILE, text)
    if not isinstance(marked.data, dict):
        raise marked.refuse((), "a list of `key: value` is expected here")
    problems: list[_Problem] = []
    data = _sift(marked.data, "", (), problems)
    try:
        wanted = _Job.model_validate(data)
    except ValidationError as error:
        problems += [_problem(each) for each in error.errors(include_url=False, include_input=False)]
    else:
        problems += [*_strange_multipliers(wanted), *_double_versions(wanted)]
    if problems:
        raise _refusal(marked, problems)
    return _job(wanted)


def _sift(data: dict[Any, Any], part: str, place: KeyPath, problems: list[_Problem]) -> dict[Any, Any]:
    """Return a part of a file without harmless keys; add refused ones to the problems."""
    kept: dict[Any, Any] = {}
    for key, value in data.items():
        here = (*place, key)
        if key in HARMLESS.get(part, ()) or value in ALLOWED.get((part, key), ()):
            continue
        remedy = REFUSED.get(part, {}).get(key)
        if remedy is None:
            kept[key] = _deeper(value, str(key), here, problems)
        elif value not in _SAYS_NOTHING or ((part, key) in TRUE_UNLESS_SAID and value is not None):
            problems.append((here, f"this is not run here; {remedy}"))
    return kept


def _deeper(value: Any, part: str, place: KeyPath, problems: list[_Problem]) -> Any:
    if part not in _PARTS:
        return value
    if isinstance(value, dict):
        return _sift(value, part, place, problems)
    if isinstance(value, list):
        return [_deeper(each, part, (*place, index), problems) for index, each in enumerate(value)]
    return value


def _problem(error: ErrorDetails) -> _Problem:
    place = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        part = next((str(each) for each in reversed(place[:-1]) if isinstance(each, str)), "")
        return place, unknown_key(str(place[-1]), [*_PARTS[part].model_fields, *REFUSED.get(part, ())])
    if error["type"] == "missing":
        return place, "this is missing"
    hint = " (put it in quotes)" if error["type"] == "string_type" else ""
    return place, error["msg"].removeprefix("Value error, ") + hint


def _strange_multipliers(wanted: _Job) -> Iterator[_Problem]:
    """Yield problems of multipliers that differ by stage: a job here has a single one."""
    general = wanted.timeout_multiplier or 1.0
    for stage in ("agent", "verifier", "agent_setup", "environment_build"):
        name = f"{stage}_timeout_multiplier"
        if (own := getattr(wanted, name)) is not None and own != general:
            yield (
                (name,),
                f"one multiplier counts for every stage here, and it is {general:g}: set timeout_multiplier",
            )


def _double_versions(wanted: _Job) -> Iterator[_Problem]:
    for index, each in enumerate(wanted.datasets):
        said = [given for given in (each.version, each.ref, each.name.partition("@")[2]) if given]
        if len(said) > 1:
            yield ("datasets", index, "version"), f"its version is said {len(said)} times; say it once"
        if not each.name.partition("@")[0]:
            yield ("datasets", index, "name"), "there is no name before the @"


def _refusal(marked: LocatedData, problems: list[_Problem]) -> UsageError:
    shown = [f"line {marked.line(place)}: {_path(place)}: {why}" for place, why in problems[:_MOST_PROBLEMS]]
    left = len(problems) - len(shown)
    more = [f"... and {left} more"] if left else []
    return UsageError("\n".join(["the Harbor job cannot be run:", *shown, *more]), field=_FIELD)


def _path(place: KeyPath) -> str:
    """Return a key's path as people write it: `agents[0].import_path`."""
    parts = (f"[{each}]" if isinstance(each, int) else f".{str(each)[:100]}" for each in place)
    return "".join(parts).lstrip(".") or "the file"


def _job(wanted: _Job) -> HarborJob:
    older = wanted.orchestrator or _Orchestrator()
    retry = wanted.retry or older.retry or _Retry()
    datasets = []
    for dataset in wanted.datasets:
        name, _, version = dataset.name.partition("@")
        datasets.append(
            HarborDataset(
                benchmark=name,
                version=version or dataset.version or dataset.ref,
                include=dataset.task_names or [],
                exclude=dataset.exclude_task_names or [],
                n_tasks=dataset.n_tasks,
            )
        )
    agents = []
    for agent in wanted.agents:
        limits = [seconds for seconds in (agent.override_timeout_sec, agent.max_timeout_sec) if seconds]
        agents.append(
            HarborAgent(
                name=agent.name,
                model_name=agent.model_name,
                timeout_seconds=min(limits, default=None),
                kwargs=agent.kwargs or {},
                environment_variables=agent.env or {},
            )
        )
    return HarborJob(
        name=wanted.job_name,
        datasets=datasets,
        agents=agents,
        n_attempts=wanted.n_attempts or 1,
        n_concurrent_trials=wanted.n_concurrent_trials or older.n_concurrent_trials or CONCURRENT_DEFAULT,
        timeout_multiplier=wanted.timeout_multiplier or 1.0,
        max_retries=retry.max_retries,
    )
