"""The keys of Harbor job files that are not run here, part by part, and what to do instead of each."""

from collections.abc import Mapping
from typing import Any

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
"""What to do about values that must not stand in a file."""
_CLIENT = "what a user says is part of a scenario here; remove it"

HARMLESS: Mapping[str, frozenset[str]] = {
    # Where Harbor writes and what it shows: results are the server's, and `job logs` fetches them.
    "": frozenset({"debug", "jobs_dir", "skip_credential_checks"}),
    "environment": frozenset({"suppress_override_warnings"}),
    "datasets": frozenset({"overwrite", "download_dir"}),
}
"""Keys that change nothing here, whatever they say."""

ALLOWED: Mapping[tuple[str, Any], tuple[Any, ...]] = {
    ("environment", "type"): ("docker", "runloop"),
    ("environment", "delete"): (True,),
    ("orchestrator", "type"): ("local",),
}
"""Values of refused keys that ask for what is done anyway."""

TRUE_UNLESS_SAID = frozenset({("environment", "delete")})
"""Keys whose `false` asks for something."""

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
"""Part -> key -> what to do instead."""
