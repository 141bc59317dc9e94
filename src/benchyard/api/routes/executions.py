"""Executions: commands started, awaited, fed, killed and streamed."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi import Query as Parameter
from fastapi.responses import StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.responses import bytes_stream, event_stream, wait_for_answer
from benchyard.models.executions import (
    ExecuteRequest,
    ExecuteWithIdRequest,
    ExecutionResultView,
    ExecutionView,
    ExecutionWaitRequest,
    KillRequest,
    StdInRequest,
    StdInResult,
    StreamName,
)

router = APIRouter(prefix="/v1/devboxes/{devbox_id}", tags=["executions"], route_class=LazyRoute)

EXECUTION_PREFIX = "exec_"

LastLines = Annotated[str | None, Parameter(description="how many lines of output to show; 100 by default")]
Offset = Annotated[str | None, Parameter(description="the byte to start at")]


@dataclass(frozen=True)
class OutputPart:
    """Requested part of an output."""

    offset: str | None
    follow: bool


async def _part(offset: Offset = None, *, follow: bool = False) -> OutputPart:
    return OutputPart(offset, follow)


@router.post("/execute_async")
async def execute_async(
    devbox_id: str, services: ServicesDep, identity: RequestIdentity, body: ExecuteRequest
) -> ExecutionView:
    """Start a command and answer at once."""
    return await services.engine.executions.start(devbox_id, identity.caller(EXECUTION_PREFIX), body)


@router.post("/execute_sync", deprecated=True)
async def execute_sync(
    devbox_id: str, services: ServicesDep, identity: RequestIdentity, body: ExecuteRequest
) -> ExecutionResultView:
    """Run a command and answer when it has ended."""
    return await wait_for_answer(
        services, services.engine.executions.run(devbox_id, identity.caller(EXECUTION_PREFIX), body)
    )


@router.post("/execute")
async def execute(
    devbox_id: str, services: ServicesDep, body: ExecuteWithIdRequest, last_n: LastLines = None
) -> ExecutionView:
    """Run a command under the caller's id; answer when it has ended, or as it is after a while."""
    return await wait_for_answer(services, services.engine.executions.run_with_id(devbox_id, body, last_n))


@router.get("/executions/{execution_id}")
async def retrieve(
    devbox_id: str, execution_id: str, services: ServicesDep, last_n: LastLines = None
) -> ExecutionView:
    """Look an execution up."""
    return await services.engine.executions.get(devbox_id, execution_id, last_n)


@router.post("/executions/{execution_id}/wait_for_status")
async def wait_for_status(
    devbox_id: str,
    execution_id: str,
    services: ServicesDep,
    body: ExecutionWaitRequest,
    last_n: LastLines = None,
) -> ExecutionView:
    """Answer once the execution has one of the statuses; 408 after at most 25 seconds."""
    return await wait_for_answer(
        services, services.engine.executions.wait(devbox_id, execution_id, body, last_n)
    )


@router.post("/executions/{execution_id}/kill")
async def kill(
    devbox_id: str, execution_id: str, services: ServicesDep, body: KillRequest | None = None
) -> ExecutionView:
    """Kill a command."""
    group = bool(body and body.kill_process_group)
    return await services.engine.executions.kill(devbox_id, execution_id, group=group)


@router.post("/executions/{execution_id}/send_std_in")
async def send_std_in(
    devbox_id: str, execution_id: str, services: ServicesDep, body: StdInRequest
) -> StdInResult:
    """Send text or a signal to a command."""
    return await services.engine.executions.send(devbox_id, execution_id, body)


@router.get("/executions/{execution_id}/stream_stdout_updates", response_class=StreamingResponse)
async def stream_stdout_updates(
    devbox_id: str, execution_id: str, services: ServicesDep, offset: Offset = None
) -> StreamingResponse:
    """Stream standard output as server-sent events, from a byte offset to the end."""
    return event_stream(
        services, await services.engine.executions.stream(devbox_id, execution_id, "stdout", offset)
    )


@router.get("/executions/{execution_id}/stream_stderr_updates", response_class=StreamingResponse)
async def stream_stderr_updates(
    devbox_id: str, execution_id: str, services: ServicesDep, offset: Offset = None
) -> StreamingResponse:
    """Stream standard error as server-sent events, from a byte offset to the end."""
    return event_stream(
        services, await services.engine.executions.stream(devbox_id, execution_id, "stderr", offset)
    )


@router.get("/executions/{execution_id}/output/{stream}", response_class=StreamingResponse)
async def output(
    devbox_id: str,
    execution_id: str,
    stream: StreamName,
    services: ServicesDep,
    part: Annotated[OutputPart, Depends(_part)],
) -> StreamingResponse:
    """Send raw bytes of an output (an extension); with `follow`, until the execution has completed."""
    content = await services.engine.executions.raw(
        devbox_id, execution_id, stream, part.offset, follow=part.follow
    )
    return bytes_stream(services, content)
