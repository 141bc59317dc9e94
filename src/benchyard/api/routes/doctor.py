"""What works on the server's machine (an extension)."""

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.routing import LateRoute
from benchyard.models.doctor import DoctorView, FailedMode, MissingCapability

router = APIRouter(prefix="/v1/doctor", tags=["doctor"], route_class=LateRoute)


@router.get("")
async def doctor(services: ServicesDep) -> DoctorView:
    """Tell what devboxes can do here, and what to do about the rest."""
    capabilities, report = services.host.report()
    return DoctorView(
        driver=services.settings.driver,
        mode=report.mode,
        capabilities=sorted(capabilities),
        missing=[MissingCapability(capability=name, remedy=text) for name, text in report.missing.items()],
        tried=[FailedMode(mode=name, reason=text) for name, text in report.tried.items()],
        builder=services.builder.about,
        builder_remedy=services.builder.remedy,
        stand_ins=[each.stands_for for each in await services.engine.library.list() if each.stands_for],
    )
