"""Blueprints for the API: check, create, build in the background, read, delete."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import get_args

from benchyard.engine.background import blueprint_key, devbox_key, retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes import services
from benchyard.engine.devboxes.request_checks import check_code, check_launch, check_variables
from benchyard.engine.devboxes.sizes import resources
from benchyard.engine.devboxes.start_image import check_is_built, newest_build, require_image_support
from benchyard.engine.images.build import (
    Build,
    build_devbox_id,
    dockerfile_preview,
    erase_devbox,
    foundation_id,
    has_steps,
    keep_unchanged,
    make_foundation,
    run_steps,
)
from benchyard.engine.images.build_log import BuildLogs
from benchyard.engine.images.library import ImageUpkeep
from benchyard.engine.network.egress import check_plan
from benchyard.engine.network.policies import NetworkPolicies, plan_of
from benchyard.errors import (
    BenchyardError,
    BuildFailed,
    DiskFull,
    NotFound,
    NotSupported,
    UsageError,
    from_os,
)
from benchyard.hosts.cancellation import run_to_end
from benchyard.models.blueprints import (
    UNFINISHED,
    Blueprint,
    BlueprintRequest,
    BlueprintStatus,
    BuildFailure,
    BuildLogLine,
    BuildLogUpdate,
    Service,
)
from benchyard.models.launch import LaunchParameters
from benchyard.models.network_policies import Egress
from benchyard.models.objects import ObjectState
from benchyard.store.collection import Collection

MAX_FILE_BYTES = 98_250
MAX_FILES_BYTES = 7_860_000
MAX_COMMAND_CHARACTERS = 128 * 1024
_MAX_PATH = 4096
_MOST_OPTIONS = 32 * 1024
_HIGHEST_PORT = 65_535


def check_blueprint(request: BlueprintRequest) -> None:
    """Refuse requests that no server could build; raises UsageError, or NotYet."""
    if request.base_blueprint_id is not None and request.base_blueprint_name is not None:
        raise UsageError("give at most one of base_blueprint_id and base_blueprint_name")
    _check_texts(request)
    _check_files(request.file_mounts or {})
    for mount in request.code_mounts or []:
        check_code(mount)
    check_variables(request.secrets or {})
    check_variables(request.build_args or {})
    if sum(len(service.options or "") for service in request.services or []) > _MOST_OPTIONS:
        raise UsageError(
            f"the options of all services have more than {_MOST_OPTIONS} characters", field="services"
        )
    for service in request.services or []:
        _check_service(service)
    _check_launch(request)


def _check_texts(request: BlueprintRequest) -> None:
    commands = request.system_setup_commands or []
    if any("\0" in text for text in [request.dockerfile or "", *commands]):
        raise UsageError("neither a command nor a Dockerfile can hold a NUL character")
    for number, command in enumerate(commands, start=1):
        if not command.strip():
            raise UsageError(
                f"system_setup_commands: command {number} is empty", field="system_setup_commands"
            )
        if len(command) > MAX_COMMAND_CHARACTERS:
            raise UsageError(
                f"system_setup_commands: command {number} has over {MAX_COMMAND_CHARACTERS} characters; "
                "mount a script and run that",
                field="system_setup_commands",
            )


def _check_files(files: dict[str, str]) -> None:
    total = 0
    for path, text in files.items():
        if not path or len(path) > _MAX_PATH or "\0" in path:
            raise UsageError(f"file_mounts: not a path: {path[:200]!r}", field="file_mounts")
        size = len(text.encode(errors="surrogatepass"))
        total += size
        if size > MAX_FILE_BYTES:
            raise UsageError(
                f"file_mounts: {path[:200]} has {size} bytes, over {MAX_FILE_BYTES}; "
                "send it in a build context, or fetch it in a setup command",
                field="file_mounts",
            )
    if total > MAX_FILES_BYTES:
        raise UsageError(
            f"file_mounts have {total} bytes together, over {MAX_FILES_BYTES}; send a build context instead",
            field="file_mounts",
        )


def _check_service(service: Service) -> None:
    check_variables(service.env or {})
    if any("\0" in text for text in (service.image, service.options or "")):
        raise UsageError(f"service {service.name} holds a NUL character", field="services")
    for mapping in service.port_mappings or []:
        if not all(0 < int(port) <= _HIGHEST_PORT for port in mapping.split(":")):
            raise UsageError(f"service {service.name}: not two ports: {mapping}", field="services")
        outside, _, inside = mapping.partition(":")
        if int(outside) != int(inside):
            raise UsageError(
                f"service {service.name}: it shares the devbox's network, so a port is the same on "
                f"both sides, not {mapping}",
                field="services",
            )
    services.parse_options(service.options or "", service.name)


def _check_launch(request: BlueprintRequest) -> None:
    launch = request.launch_parameters or LaunchParameters()
    resources(launch)
    check_launch(launch)
    names = [service.name for service in request.services or []]
    if len(set(names)) < len(names):
        raise UsageError("two services have the same name", field="services")
    for name in launch.required_services or []:
        if name not in names:
            raise UsageError(
                f"required_services names {name[:100]!r}, which is not one of the blueprint's services",
                field="launch_parameters.required_services",
            )


@dataclass(frozen=True)
class BlueprintPlans:
    """Finds the base, the secrets and the network of builds."""

    tools: EngineContext
    records: Collection[Blueprint]
    policies: NetworkPolicies

    async def plan(self, caller: Caller, request: BlueprintRequest) -> Blueprint:
        """Return the record of a new blueprint; raises UsageError for mistakes that show before the build."""
        check_blueprint(request)
        require_image_support(self.tools)
        base = await self.base(request)
        await self.secrets(request)
        egress = await self._egress(request)
        status = await self._first_status(request)
        return Blueprint(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            name=request.name,
            status=status,
            parameters=self._seal(request),
            metadata=request.metadata or {},
            base_blueprint_id=base.id if base else None,
            build_egress=egress,
        )

    async def base(self, request: BlueprintRequest, made: Blueprint | None = None) -> Blueprint | None:
        """Return a request's base blueprint, or the one recorded in `made`; raises NotFound."""
        if made is not None:
            # The base may have been deleted meanwhile: its layers are kept for this build.
            return await self.records.get(made.base_blueprint_id) if made.base_blueprint_id else None
        named = request.base_blueprint_id or request.base_blueprint_name
        if named is None:
            return None
        if request.base_blueprint_id is not None:
            base = await self.records.find(named)
        else:
            base = await newest_build(self.records, named)
        if base is None:
            raise NotFound(f"no base blueprint {named[:200]!r}; see `benchyard blueprint list`")
        check_is_built(base)
        return base

    async def secrets(self, request: BlueprintRequest) -> dict[str, str]:
        """Return the build's variables with their values; raises UsageError if a secret is missing."""
        found = {}
        for variable, secret in (request.secrets or {}).items():
            try:
                found[variable] = await self.tools.secrets.value(secret)
            except NotFound as error:
                raise UsageError(error.message, field="secrets") from error
        return found

    def hidden(self, blueprint: Blueprint, secrets: Mapping[str, str]) -> list[str]:
        """Return all values that must not appear in a build's log."""
        mounts = blueprint.parameters.code_mounts or []
        tokens = [self.tools.vault.open(mount.token) for mount in mounts if mount.token]
        return [*secrets.values(), *tokens]

    async def _egress(self, request: BlueprintRequest) -> Egress | None:
        """Return the egress that the build's policy allows; raises NotSupported if it cannot be enforced."""
        egress = await self.policies.egress(request.network_policy_id, "network_policy_id")
        if egress is None:
            return None
        plan = plan_of(egress)
        check_plan(self.tools, plan)
        has_dockerfile = bool(request.dockerfile or request.build_context)
        if plan.egress is not None and has_dockerfile and not self.tools.builder.has_doors:
            raise NotSupported(
                "this server's builder cannot keep a Dockerfile's build to a list of hosts; install buildah "
                "on the server, or take a policy that allows everything or nothing"
            )
        return egress

    async def _first_status(self, request: BlueprintRequest) -> BlueprintStatus:
        if request.build_context is None:
            return BlueprintStatus.QUEUED
        stored = await self.tools.objects.get(request.build_context.object_id)
        if stored.state is ObjectState.UPLOADING:
            return BlueprintStatus.AWAITING_UPLOAD
        if stored.state is not ObjectState.READ_ONLY:
            raise NotFound(f"object {stored.id} is {stored.state}; upload the build context again")
        return BlueprintStatus.QUEUED

    def _seal(self, request: BlueprintRequest) -> BlueprintRequest:
        seal = self.tools.vault.seal
        mounts = [
            mount.model_copy(update={"token": seal(mount.token)}) if mount.token else mount
            for mount in request.code_mounts or []
        ]
        services = [self._seal_service(service) for service in request.services or []]
        return request.model_copy(update={"code_mounts": mounts or None, "services": services or None})

    def _seal_service(self, service: Service) -> Service:
        if service.credentials is None:
            return service
        password = self.tools.vault.seal(service.credentials.password)
        credentials = service.credentials.model_copy(update={"password": password})
        return service.model_copy(update={"credentials": credentials})


MOST_ATTEMPTS = 2
"""Most attempts at a build that ends with its server: the build itself may be the cause."""
UPLOAD_SECONDS = 24 * 3600
FIRST_LOOK_SECONDS = 0.2
LATER_LOOKS_SECONDS = 10.0
COLLECT_SECONDS = 60.0
AGAIN_SECONDS = 600.0
"""Seconds after which a failed build that is needed again is retried: its sources may be reachable again.

It is retried at once if an image or an alias has been added since, which the build may have lacked.
"""

_MOST_WAITS = 3
"""Most builds that a request waits for: it may join a build that is just being given up."""
_S = BlueprintStatus
_log = logging.getLogger(__name__)


class Blueprints:
    """All blueprints; each is an image of the same id on the host once it is built."""

    def __init__(
        self,
        tools: EngineContext,
        records: Collection[Blueprint],
        upkeep: ImageUpkeep,
        policies: NetworkPolicies,
    ) -> None:
        self.records = records
        self._tools = tools
        self._upkeep = upkeep
        self._plans = BlueprintPlans(tools, records, policies)
        self._logs = BuildLogs(tools.settings.data / "builds")
        self._turns = asyncio.Semaphore(tools.settings.builds_at_once)
        self._ended: dict[str, asyncio.Event] = {}
        self._waiting: Counter[str] = Counter()

    async def open(self) -> None:
        """Resume interrupted builds, and start the removal of deleted blueprints."""
        self._logs.open()
        here = {image.id for image in await self._tools.images.list()}
        for blueprint in await self.records.all({"image_state": "present"}):
            if blueprint.id not in here:
                # A backup contains no images.
                await self._set(blueprint.id, status=_S.QUEUED, image_state="none", attempts=0)
        unfinished = await self.records.all({"status": UNFINISHED})
        for blueprint in sorted(unfinished, key=lambda each: each.create_time_ms):
            if blueprint.parameters.on_demand:
                await self._release(blueprint)
                continue
            if blueprint.status is not _S.AWAITING_UPLOAD:
                await self._set(blueprint.id, status=_S.QUEUED)
            self._start(blueprint.id)
        self._tools.work.repeat(
            "blueprints/collect", self.collect, COLLECT_SECONDS, "removing deleted blueprints"
        )

    async def _release(self, blueprint: Blueprint) -> None:
        """Reset an on-demand build as if it had not begun: the next request for it starts it again."""
        if blueprint.status in (_S.PROVISIONING, _S.BUILDING):
            await self._clear_attempts(blueprint, blueprint.attempts)
            await self._set(blueprint.id, status=_S.QUEUED)

    async def create(self, caller: Caller, request: BlueprintRequest) -> Blueprint:
        """Record a blueprint and build it in the background; the same request again returns the same one."""
        try:
            blueprint = await self._plans.plan(caller, request)
        except UsageError:
            # Its base or secrets may be gone when the same request comes again.
            existing = await self.records.find(caller.id)
            if existing is None or existing.request_hash != caller.request_hash:
                raise
            return existing
        blueprint, is_new = await run_to_end(self.records.insert_once(blueprint))
        if is_new and not blueprint.parameters.on_demand:
            self._start(blueprint.id)
        return blueprint

    async def ready(self, blueprint_id: str) -> None:
        """Build a blueprint that is built on demand, if necessary; raises BuildFailed with advice."""
        blueprint = await retry_store(self.records.find, blueprint_id)
        if blueprint is None or not blueprint.parameters.on_demand or blueprint.status is _S.BUILD_COMPLETE:
            return
        since = max(self._upkeep.changed_ms, now_ms() - round(AGAIN_SECONDS * 1000))
        if _has_failed_before(blueprint, since):
            anew = partial(_to_queued_again, since=since)
            blueprint = await retry_store(self.records.change, blueprint_id, anew)
        again = f"; tried again {AGAIN_SECONDS / 60:.0f} minutes after that, or with a new image or alias"
        if blueprint.status is not _S.FAILED:
            again = ""
            for _ in range(_MOST_WAITS):
                await self._wait(blueprint_id)
                blueprint = await retry_store(self.records.get, blueprint_id)
                if blueprint.status not in UNFINISHED:
                    break
        if blueprint.status is not _S.BUILD_COMPLETE:
            raise BuildFailed(
                f"the environment could not be built: {blueprint.error_message or 'its build was ended'}; "
                f"see `benchyard blueprint logs {blueprint_id}`{again}"
            )

    async def unbuilt(self, blueprint_id: str) -> str | None:
        """Describe the build that an on-demand blueprint still needs; None if its image is there."""
        blueprint = await retry_store(self.records.find, blueprint_id)
        if blueprint is None or not blueprint.parameters.on_demand or blueprint.status is _S.BUILD_COMPLETE:
            return None
        if reference := blueprint.parameters.prebuilt_image:
            return f"pulling {reference}"
        base = blueprint.parameters.base_reference
        return f"building {blueprint.name} from {base}" if base else f"building {blueprint.name}"

    async def _wait(self, blueprint_id: str) -> None:
        """Wait for the end of a build, starting it if necessary; the last caller to give up ends it."""
        if blueprint_id not in self._ended:
            self._start(blueprint_id)
        self._waiting[blueprint_id] += 1
        try:
            await self._ended[blueprint_id].wait()
        except asyncio.CancelledError:
            if self._waiting[blueprint_id] == 1:
                key = f"unwanted/{blueprint_id}"
                self._tools.work.start(key, partial(self._give_up, blueprint_id), finish=True)
            raise
        finally:
            self._waiting[blueprint_id] -= 1

    async def _give_up(self, blueprint_id: str) -> None:
        """End an on-demand build that has no waiting callers; a later request starts it again."""
        if self._waiting[blueprint_id] > 0:
            return
        del self._waiting[blueprint_id]
        await self._tools.work.cancel(blueprint_key(blueprint_id))
        blueprint = await self.records.find(blueprint_id)
        if blueprint is not None and blueprint_id not in self._ended:
            await self._release(blueprint)

    async def preview(self, request: BlueprintRequest) -> str:
        """Return a Dockerfile that describes the build, without building."""
        check_blueprint(request)
        return dockerfile_preview(request, await self._plans.base(request))

    async def delete(self, blueprint_id: str) -> Blueprint:
        """Delete a blueprint and end its build; devboxes and blueprints based on it keep its layers."""
        await self.records.get(blueprint_id)
        await self._tools.work.cancel(blueprint_key(blueprint_id))
        self._end(blueprint_id)
        blueprint = await self.records.change(blueprint_id, _to_deleted)
        await self.collect()
        return blueprint

    async def logs(self, blueprint_id: str) -> list[BuildLogLine]:
        """Return the log of a build so far, oldest line first."""
        await self.records.get(blueprint_id)
        return await asyncio.to_thread(self._logs.lines, blueprint_id)

    async def follow(self, blueprint_id: str, offset: int) -> AsyncIterator[BuildLogUpdate]:
        """Yield the log of a build from a byte offset on, until the build has ended."""
        await self.records.get(blueprint_id)
        ended = self._ended.get(blueprint_id)
        if ended is None:
            ended = asyncio.Event()
            ended.set()
        return self._logs.follow(blueprint_id, offset, ended)

    async def collect(self) -> None:
        """Remove images and logs of deleted blueprints that no devbox or other image is based on any more."""
        used = {devbox.image for devbox in self._tools.live_devboxes.live()}
        unfinished = await self.records.all({"status": UNFINISHED})
        used |= {each.base_blueprint_id for each in unfinished if each.base_blueprint_id}
        for blueprint in await self.records.all({"image_state": "unwanted"}):
            if blueprint.id not in used:
                await self._clear_attempts(blueprint, blueprint.attempts)
                await self._remove_image(blueprint.id)
                self._logs.forget(blueprint.id)
                await self._set(blueprint.id, image_state="none")

    def _start(self, blueprint_id: str) -> None:
        self._ended[blueprint_id] = asyncio.Event()
        self._tools.work.start(blueprint_key(blueprint_id), partial(self._run, blueprint_id))

    async def _run(self, blueprint_id: str) -> None:
        """Run a build; the boundary of builds: each failure is recorded here, once."""
        try:
            await self._wait_for_upload(blueprint_id)
            blueprint = await retry_store(self.records.get, blueprint_id)
            if base := blueprint.base_blueprint_id:
                # Before its turn, since a base that is built on demand needs a turn too.
                await self.ready(base)
                # Other bases are complete already, unless they are being rebuilt.
                if under_way := self._ended.get(base):
                    await under_way.wait()
            async with self._turns:
                await self._attempt(blueprint_id)
        except (BenchyardError, OSError) as error:
            await self._fail(blueprint_id, from_os(error))
        finally:
            self._end(blueprint_id)

    def _end(self, blueprint_id: str) -> None:
        """Notify the followers of a build's log that it has ended."""
        if ended := self._ended.pop(blueprint_id, None):
            ended.set()

    async def _wait_for_upload(self, blueprint_id: str) -> None:
        """Wait until the object with the build context has been uploaded."""
        blueprint = await retry_store(self.records.get, blueprint_id)
        context = blueprint.parameters.build_context
        if blueprint.status is not _S.AWAITING_UPLOAD or context is None:
            return
        delay = FIRST_LOOK_SECONDS
        while True:
            stored = await retry_store(self._tools.objects.get, context.object_id)
            if stored.state is ObjectState.READ_ONLY:
                break
            if stored.state is not ObjectState.UPLOADING:
                raise BuildFailed(f"the context, object {stored.id}, is {stored.state}; upload another")
            if now_ms() - blueprint.create_time_ms > UPLOAD_SECONDS * 1000:
                raise BuildFailed(f"the context, object {stored.id}, was not uploaded within a day")
            await asyncio.sleep(delay)
            delay = min(delay * 1.5, LATER_LOOKS_SECONDS)
        await self._change(blueprint_id, status=_S.QUEUED)

    async def _attempt(self, blueprint_id: str) -> None:

        def begin(record: Blueprint) -> Blueprint:
            if record.status not in UNFINISHED:
                return record
            return record.model_copy(update={"status": _S.PROVISIONING, "attempts": record.attempts + 1})

        blueprint = await retry_store(self.records.change, blueprint_id, begin)
        if blueprint.status is not _S.PROVISIONING:
            # The build is already complete or deleted; the caller had not seen that.
            return
        try:
            await self._make(blueprint)
        except asyncio.CancelledError:
            # Cancelled by the server, which is no fault of this build and does not count as an attempt.
            attempts = blueprint.attempts - 1
            try:
                await run_to_end(self._set(blueprint_id, attempts=attempts))
            except BenchyardError as error:
                _log.warning("blueprint %s counts one attempt too many: %s", blueprint_id, error.message)
            raise
        done = {"status": _S.BUILD_COMPLETE, "image_state": "present", "build_finish_time_ms": now_ms()}
        await self._change(blueprint_id, **done)
        try:
            await self._upkeep.keep_within_limit()
        except (BenchyardError, OSError) as error:
            # The build itself is complete; the next one collects again.
            _log.warning("images could not be kept within their limit: %s", error)

    async def _make(self, blueprint: Blueprint) -> None:
        """Make the blueprint's image, whatever earlier attempts left."""
        blueprint_id = blueprint.id
        await self._clear_attempts(blueprint, blueprint.attempts - 1)
        if blueprint.attempts > MOST_ATTEMPTS:
            raise BuildFailed(f"the server stopped {MOST_ATTEMPTS} times in the middle of this build")
        if not await self._has_image(blueprint_id):
            secrets = await retry_store(self._plans.secrets, blueprint.parameters)
            with self._logs.writer(blueprint_id, self._plans.hidden(blueprint, secrets)) as log:
                base = await retry_store(self._plans.base, blueprint.parameters, blueprint)
                begin = partial(self._change, blueprint_id, status=_S.BUILDING)
                below = base.substituted_bases if base else {}
                note = partial(self._note_substitutes, blueprint_id)
                await note(below)
                await self._build(Build(self._tools, blueprint, base, log, begin, note, secrets))

    async def _note_substitutes(self, blueprint_id: str, bases: Mapping[str, str]) -> None:
        if bases:
            known = (await self.records.get(blueprint_id)).substituted_bases
            await self._change(blueprint_id, substituted_bases={**known, **bases})

    async def _clear_attempts(self, blueprint: Blueprint, until: int) -> None:
        """Remove the remains of the first attempts, up to this number."""
        for number in range(1, until + 1):
            earlier = build_devbox_id(blueprint.model_copy(update={"attempts": number}))
            await self._tools.work.settle(devbox_key(earlier))
            await erase_devbox(self._tools, earlier)
        await self._remove_image(foundation_id(blueprint))

    async def _build(self, build: Build) -> None:
        log, blueprint = build.log, build.blueprint
        if blueprint.attempts > 1:
            log.note("the server stopped in the middle of this build; it begins again", "warning")
        try:
            image = await make_foundation(build)
            if has_steps(blueprint.parameters):
                await run_steps(build, image)
            else:
                await keep_unchanged(build, image)
        except (BenchyardError, OSError) as error:
            failure = from_os(error)
            # Secrets are masked.
            raise BuildFailed(log.mask.hide(failure.message), _reason(failure)) from error
        finally:
            await run_to_end(self._remove_image(foundation_id(blueprint)))
        log.note("build complete")

    async def _fail(self, blueprint_id: str, error: BenchyardError) -> None:
        try:
            await self._remove_image(blueprint_id)
            with self._logs.writer(blueprint_id) as log:
                log.note(f"build failed: {error.message.partition(chr(10))[0]}", "error")
        except (BenchyardError, OSError) as another:
            # The failure is recorded all the same.
            _log.warning("the failed build of %s was not cleared away: %s", blueprint_id, another)
        failed = {"status": _S.FAILED, "failure_reason": _reason(error), "error_message": error.message}
        await self._change(blueprint_id, **failed, build_finish_time_ms=now_ms())

    async def _has_image(self, image_id: str) -> bool:
        return any(image.id == image_id for image in await self._tools.images.list())

    async def _remove_image(self, image_id: str) -> None:
        if await self._has_image(image_id):
            await self._tools.images.remove(image_id)

    async def _change(self, blueprint_id: str, **fields: object) -> None:
        await retry_store(self._set, blueprint_id, **fields)

    async def _set(self, blueprint_id: str, **fields: object) -> None:
        await self.records.change(blueprint_id, lambda record: record.model_copy(update=fields))


def _to_queued_again(blueprint: Blueprint, since: int) -> Blueprint:
    """Queue a blueprint again if its build failed before that time."""
    fields = {"status": _S.QUEUED, "attempts": 0, "failure_reason": None, "error_message": None}
    return blueprint.model_copy(update=fields) if _has_failed_before(blueprint, since) else blueprint


def _has_failed_before(blueprint: Blueprint, since: int) -> bool:
    is_old = (blueprint.build_finish_time_ms or 0) < since
    return blueprint.status is _S.FAILED and is_old and blueprint.state != "deleted"


def _to_deleted(blueprint: Blueprint) -> Blueprint:
    if blueprint.state == "deleted":
        return blueprint
    fields: dict[str, object] = {"state": "deleted", "image_state": "unwanted"}
    if blueprint.status in UNFINISHED:
        fields |= {"status": _S.FAILED, "failure_reason": "build_failed", "build_finish_time_ms": now_ms()}
        fields["error_message"] = "it was deleted before its build was complete"
    return blueprint.model_copy(update=fields)


def _reason(error: BenchyardError) -> BuildFailure:
    if isinstance(error, DiskFull):
        return "out_of_disk"
    known: tuple[BuildFailure, ...] = get_args(BuildFailure)
    reason = error.reason if isinstance(error, BuildFailed) else ""
    return next((each for each in known if each == reason), "build_failed")
