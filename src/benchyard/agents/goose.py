"""Goose, which speaks with every provider."""

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from benchyard.agents import output_events, packages
from benchyard.agents.base import AgentEnd, Launch, ModelAccess, Task
from benchyard.agents.output_events import Event
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent, TurnLimitConfig
from benchyard.errors import NotSupported

_VARIABLES = {
    "anthropic": ("ANTHROPIC_HOST", "ANTHROPIC_API_KEY"),
    "openai": ("OPENAI_HOST", "OPENAI_API_KEY"),
    "google": ("GOOGLE_HOST", "GOOGLE_API_KEY"),
}
_MADE_FOR = "x64"
_FAILED = "Ran into this error"
_NO_MONEY = "creditsExhausted"
_LIMIT = "reached the maximum number of actions"
_CERTIFICATES = "certificates.pem"
_SET_UP = f'bin/node -p \'require("tls").rootCertificates.join("\\n")\' > {_CERTIFICATES}'
_COMMAND = """\
for file in "${{SSL_CERT_FILE:-}}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
/etc/ssl/ca-bundle.pem /etc/ssl/cert.pem {certificates}; do
    [ -s "$file" ] && break
done
[ "$file" != {certificates} ] || export SSL_CERT_FILE="$file"
GOOSE_PATH_ROOT={native} {program} run --quiet --output-format stream-json --no-profile \
--with-builtin developer{turns}{again} -i {prompt} < /dev/null
"""
"""Names a file of certificates: goose does not start without any, although it needs none here."""


class GooseAgent(PublicAgent[TurnLimitConfig]):
    """Speaks the dialect of its model's provider. Its exit status is always 0."""

    name = "goose"
    Config = TurnLimitConfig
    default_version = "1.52.0"
    can_continue = True
    keys: ClassVar = {
        "anthropic": ("ANTHROPIC_API_KEY",),
        "openai": ("OPENAI_API_KEY",),
        "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    }

    @classmethod
    def package(cls, version: str) -> Package:
        if packages.machine() != _MADE_FOR:
            raise NotSupported("agent 'goose' is published for x86-64 only; run it on such a machine")
        name = "@aaif/goose-binary-linux-x64"
        programs = (f"{packages.MODULES}/{name}/bin/goose",)
        return Package("npm", name, version, setup=(_SET_UP,), programs=programs)

    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        turns = self.config.max_turns
        command = _COMMAND.format(
            native=self.native(task),
            certificates=self.at(_CERTIFICATES),
            program=self.at(f"{packages.MODULES}/@aaif/goose-binary-linux-x64/bin/goose"),
            turns=f" --max-turns {turns}" if turns else "",
            again=" --resume" if task.continues else "",
            prompt=shlex.quote(task.prompt_file),
        )
        provider = access.provider if access.provider in _VARIABLES else "openai"
        host, key = _VARIABLES[provider]
        env = {
            "GOOSE_PROVIDER": provider,
            "GOOSE_MODEL": access.model,
            host: access.url,
            key: access.token,
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            # This variable accepts `true`, not `1`.
            "GOOSE_DISABLE_SESSION_NAMING": "true",
            "GOOSE_TELEMETRY_OFF": "1",
        }
        return Launch(command, env=env)

    def reached_limit(self, ended: AgentEnd, found: Sequence[Event]) -> bool:
        return ended.exit_status == 0 and _LIMIT in _own_words(found)

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        if error := output_events.last(found, "error"):
            return (
                output_events.error_line(error.get("error") or error)
                or "it ended with an error without a message"
            )
        words = _own_words(found)
        if words.startswith(_FAILED):
            return output_events.error_line(words.partition("\n")[0])
        for part in _own_message(found):
            if part.get("notificationType") == _NO_MONEY:
                return output_events.error_line(part.get("msg")) or _NO_MONEY
        return f"its last call failed: {ended.last_error}" if ended.last_error else None

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        outputs = {}
        for event in output_events.events(stdout_tail):
            for part in output_events.parts(event, "message", "content"):
                id = part.get("id")
                if part.get("type") == "toolResponse" and isinstance(id, str):
                    outputs[id] = output_events.text_of(
                        output_events.dig(part, "toolResult", "value", "content")
                    )
        return outputs


def _own_message(found: Sequence[Event]) -> list[Event]:
    """Return the parts of its last own message: messages of its model have inference metadata."""
    message = output_events.dig(output_events.last(found, "message"), "message")
    if output_events.dig(message, "role") != "assistant" or output_events.dig(
        message, "metadata", "inference"
    ):
        return []
    return output_events.parts(message, "content")


def _own_words(found: Sequence[Event]) -> str:
    return output_events.text_of(_own_message(found))
