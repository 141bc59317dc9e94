"""What works on the server's machine (an extension)."""

import asyncio

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.routing import LateRoute
from benchyard.hosts import dependencies
from benchyard.models.doctor import DependencyView, DoctorView, FailedMode, MissingCapability

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
        dependencies=await asyncio.to_thread(_dependencies),
        stand_ins=[each.stands_for for each in await services.engine.library.list() if each.stands_for],
    )


def _dependencies() -> list[DependencyView]:
    return [
        DependencyView(name=each.name, needed_for=each.needed_for, is_here=each.is_here, remedy=each.remedy)
        for each in dependencies.ALL
    ]
