"""Aliases of commands: plurals, and names that users of `rli` type; the help shows none of them."""

from collections.abc import Collection

NOUNS = {
    "agt": "agent",
    "benchmark-job": "job",
    "bm": "benchmark",
    "bmj": "job",
    "bp": "blueprint",
    "d": "devbox",
    "gwc": "gateway-config",
    "img": "image",
    "np": "network-policy",
    "obj": "object",
    "s": "secret",
    "scn": "scenario",
    "snap": "snapshot",
}
"""Nouns by short name; `s` is a secret, as in rli."""

VERBS = {
    "get": "show",
    "info": "show",
    "ls": "list",
    "remove": "delete",
    "rm": "delete",
}
"""Verbs by alias, for every noun that has the verb."""

VERBS_OF = {
    "devbox": {
        "delete": "shutdown",
        "pty": "shell",
        "remove": "shutdown",
        "rm": "shutdown",
        "scp": "cp",
        "stop": "shutdown",
    },
    "job": {"get": "summary", "info": "summary", "show": "summary"},
    "key": {"delete": "revoke", "remove": "revoke", "rm": "revoke"},
    "secret": {"create": "set", "update": "set"},
    "snapshot": {"status": "show"},
}
"""Verbs by alias, by noun."""

_UPLOAD = "copy with `benchyard devbox cp FILE DEVBOX:PATH`"
_DOWNLOAD = "copy with `benchyard devbox cp DEVBOX:PATH FILE`"
_ASYNC = "`benchyard devbox exec --shell NAME` keeps a shell, and the SDK has `cmd.exec_async`"
_PRUNE = "`benchyard {} list` shows them, and `benchyard {} delete ID...` takes several"

ELSEWHERE = {
    ("agent", "create"): "register one with `benchyard agent register NAME --npm|--pip|--git|--object ...`",
    ("blueprint", "create"): "build one with `benchyard blueprint build [FOLDER] --name NAME [--run ...]`",
    ("blueprint", "from-dockerfile"): "build one with `benchyard blueprint build FOLDER --name NAME`",
    ("blueprint", "prune"): _PRUNE.format("blueprint", "blueprint"),
    ("devbox", "download"): _DOWNLOAD,
    ("devbox", "exec-async"): _ASYNC,
    ("devbox", "get-async"): _ASYNC,
    ("devbox", "read"): _DOWNLOAD,
    ("devbox", "rsync"): "`benchyard devbox ssh-config DEVBOX` writes what rsync and ssh need",
    ("devbox", "send-stdin"): "`benchyard devbox exec -i DEVBOX -- COMMAND` reads its input from here",
    ("devbox", "upload"): _UPLOAD,
    ("devbox", "write"): _UPLOAD,
    ("snapshot", "prune"): _PRUNE.format("snapshot", "snapshot"),
}
"""Commands to type instead, by noun and verb of rli whose equal takes other arguments."""

ABSENT = {
    "axon": "axons are not supported; docs/guides/coming-from-rli.md lists what is",
    "mcp": "there is no MCP server; docs/guides/coming-from-rli.md lists what is there",
    "mcp-config": "MCP configs are not supported; a gateway config gives devboxes an HTTP API, not its key",
    "mcpc": "MCP configs are not supported; a gateway config gives devboxes an HTTP API, not its key",
}
"""Replacements for nouns of rli that have no equal."""


def noun_of(given: str, known: Collection[str]) -> str | None:
    """Return the noun that a short name or a plural stands for; None for an unknown one."""
    if given in NOUNS:
        return NOUNS[given]
    return next((noun for noun in known if given == _plural(noun)), _singular_alias(given))


def verb_of(noun: str, given: str) -> str | None:
    """Return the verb that an alias stands for."""
    return VERBS_OF.get(noun, {}).get(given) or VERBS.get(given)


def _singular_alias(given: str) -> str | None:
    return next((noun for alias, noun in NOUNS.items() if "-" in alias and given == _plural(alias)), None)


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("x", "s", "ch", "sh")) else f"{noun}s"
