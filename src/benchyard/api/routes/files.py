"""Files of a devbox: text and bytes, in and out."""

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.responses import DevboxFileResponse
from benchyard.api.uploads import receive_upload
from benchyard.models.devboxes import DownloadRequest, ReadRequest, WriteRequest
from benchyard.models.executions import ExecutionResultView

router = APIRouter(prefix="/v1/devboxes/{devbox_id}", tags=["files"], route_class=LazyRoute)

_UPLOAD_SCHEMA = {
    "type": "object",
    "required": ["path", "file"],
    "properties": {"path": {"type": "string"}, "file": {"type": "string", "format": "binary"}},
}


@router.post("/read_file_contents", response_class=PlainTextResponse)
@router.post("/read_file", response_class=PlainTextResponse, include_in_schema=False)
async def read_file_contents(devbox_id: str, services: ServicesDep, body: ReadRequest) -> PlainTextResponse:
    """Read a file as text; one that is not UTF-8 is refused."""
    return PlainTextResponse(await services.engine.files.read_text(devbox_id, body.file_path))


@router.post("/write_file_contents")
@router.post("/write_file", include_in_schema=False)
async def write_file_contents(
    devbox_id: str, services: ServicesDep, body: WriteRequest
) -> ExecutionResultView:
    """Write text to a file, making its directories."""
    return await services.engine.files.write_text(devbox_id, body.file_path, body.contents)


@router.post(
    "/upload_file",
    openapi_extra={"requestBody": {"content": {"multipart/form-data": {"schema": _UPLOAD_SCHEMA}}}},
)
async def upload_file(devbox_id: str, request: Request, services: ServicesDep) -> dict[str, str]:
    """Write an uploaded file; the devbox's file changes only once all of it has arrived."""
    await services.engine.devboxes.running(devbox_id)
    async with receive_upload(request, services.settings.data / "uploads") as upload:
        await services.engine.files.upload(devbox_id, upload.path, upload.file)
    return {}


@router.post("/download_file", response_class=DevboxFileResponse, status_code=200)
async def download_file(devbox_id: str, services: ServicesDep, body: DownloadRequest) -> DevboxFileResponse:
    """Send a file's bytes."""
    return DevboxFileResponse(await services.engine.files.open(devbox_id, body.path))
