"""What a blueprint's build refers to on this server: its base, its secrets, its context."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchyard.engine.blueprint_checks import check_blueprint
from benchyard.engine.devboxes import Asked
from benchyard.engine.egress import check_kept
from benchyard.engine.journal import now_ms
from benchyard.engine.network_plans import plan_of
from benchyard.engine.network_policies import NetworkPolicies
from benchyard.engine.origins import check_built, newest_built, require_images
from benchyard.engine.tools import Tools
from benchyard.errors import NotFound, NotSupported, UsageError
from benchyard.models.blueprints import Blueprint, BlueprintRequest, BlueprintStatus, Service
from benchyard.models.mounts import CodeMount
from benchyard.models.network_policies import Egress
from benchyard.models.objects import ObjectState
from benchyard.store.collection import Collection


@dataclass(frozen=True)
class Plans:
    """Looks up what builds need."""

    tools: Tools
    records: Collection[Blueprint]
    policies: NetworkPolicies

    async def planned(self, asked: Asked, request: BlueprintRequest) -> Blueprint:
        """The record of a new blueprint; raises UsageError for all that can be known to be wrong."""
        check_blueprint(request)
        require_images(self.tools)
        base = await self.base(request)
        await self.secrets(request)
        egress = await self._egress(request)
        status = await self._first_status(request)
        return Blueprint(
            id=asked.id,
            create_time_ms=now_ms(),
            request_hash=asked.request_hash,
            name=request.name,
            status=status,
            parameters=self._sealed(request),
            metadata=request.metadata or {},
            base_blueprint_id=base.id if base else None,
            build_egress=egress,
        )

    async def base(self, request: BlueprintRequest, made: Blueprint | None = None) -> Blueprint | None:
        """The base blueprint of a request, or the one found when a blueprint was made; raises NotFound."""
        if made is not None:
            # It may have been deleted meanwhile: its layers are kept for this build.
            return await self.records.get(made.base_blueprint_id) if made.base_blueprint_id else None
        named = request.base_blueprint_id or request.base_blueprint_name
        if named is None:
            return None
        if request.base_blueprint_id is not None:
            base = await self.records.find(named)
        else:
            base = await newest_built(self.records, named)
        if base is None:
            raise NotFound(f"no base blueprint {named[:200]!r}; see `benchyard blueprint list`")
        check_built(base)
        return base

    async def secrets(self, request: BlueprintRequest) -> dict[str, str]:
        """Environment variable -> value; raises UsageError if a secret is not there."""
        found = {}
        for variable, secret in (request.secrets or {}).items():
            try:
                found[variable] = await self.tools.secrets.value(secret)
            except NotFound as error:
                raise UsageError(error.message, field="secrets") from error
        return found

    def hidden(self, blueprint: Blueprint, secrets: Mapping[str, str]) -> list[str]:
        """All values that must not be in a build's log."""
        mounts = blueprint.parameters.code_mounts or []
        tokens = [self.tools.vault.open(mount.token) for mount in mounts if mount.token]
        return [*secrets.values(), *tokens]

    async def _egress(self, request: BlueprintRequest) -> Egress | None:
        """What the build may reach by its policy; raises NotSupported where that cannot be kept."""
        egress = await self.policies.egress(request.network_policy_id, "network_policy_id")
        if egress is None:
            return None
        plan = plan_of(egress)
        check_kept(self.tools, plan)
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

    def _sealed(self, request: BlueprintRequest) -> BlueprintRequest:
        mounts = [self._sealed_mount(mount) for mount in request.code_mounts or []]
        services = [self._sealed_service(service) for service in request.services or []]
        return request.model_copy(update={"code_mounts": mounts or None, "services": services or None})

    def _sealed_mount(self, mount: CodeMount) -> CodeMount:
        if not mount.token:
            return mount
        return mount.model_copy(update={"token": self.tools.vault.seal(mount.token)})

    def _sealed_service(self, service: Service) -> Service:
        if service.credentials is None:
            return service
        password = self.tools.vault.seal(service.credentials.password)
        credentials = service.credentials.model_copy(update={"password": password})
        return service.model_copy(update={"credentials": credentials})
