"""Lifecycle of the server: opens all services, answers until it is told to stop, and closes them."""

import asyncio
import gc
import json
import os
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn

from benchyard import registry
from benchyard.api.app import build_app
from benchyard.api.connections import ConnectionLimits, most_connections, raise_descriptor_limit
from benchyard.api.deps import Services
from benchyard.api.job_reports import JobReports
from benchyard.api.log import log_to_stderr, logger
from benchyard.api.metrics import LeakCounts, ServerMetrics
from benchyard.api.problem_reports import TELL_SECONDS, ProblemReports
from benchyard.api.protocol import BoundedHttp, BoundedSocket
from benchyard.api.ssh.transport import SshBehindTls, SshServer
from benchyard.api.tls import Tls, open_tls
from benchyard.devboxes.base import Driver
from benchyard.engine.api_keys import ApiKeys
from benchyard.engine.background import BackgroundTasks
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.live import LiveDevboxes
from benchyard.engine.devboxes.log_file import DevboxLog
from benchyard.engine.engine import open_engine
from benchyard.engine.network.gateway_access import Grants
from benchyard.engine.network.gateway_doors import GrantedDoors
from benchyard.engine.objects import Objects
from benchyard.engine.secrets import Secrets
from benchyard.errors import Conflict, DiskFull, UsageError, is_disk_full, refused
from benchyard.hosts import leaks
from benchyard.hosts.build_cgroups import BuildCgroups
from benchyard.hosts.host import Host
from benchyard.hosts.output import OutputBudget
from benchyard.images.builders.base import Builder
from benchyard.images.builders.choice import BuilderChoice, open_builder
from benchyard.images.store import ImageStore
from benchyard.models.devboxes import Devbox
from benchyard.settings import Settings, default_data_folder
from benchyard.store.claims import claim_database, take_lock
from benchyard.store.contents import ObjectContents
from benchyard.store.database import Store
from benchyard.store.reserve import Reserve
from benchyard.store.vault import Vault, write_private
from benchyard.workers.workers import WorkerLimits, Workers

_GRACE_SECONDS = 3
_BACKLOG = 2048
_MOST_NAMES = 10
_DOCKERFILE_LIMITS = WorkerLimits(output_bytes=128 * 1024**2)
"""Of reading a Dockerfile; its here-documents are written too."""
_RINGS = (20_000, 20, 20)


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises before any change is made if it cannot start."""
    log_to_stderr()
    raise_descriptor_limit()
    try:
        with _claimed(settings) as bound:
            async with open_tls(settings) as tls, open_services(settings) as services:
                await _serve(services, _Listener(bound, tls))
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise DiskFull(f"the disk of {settings.data} is full; free space there and start again") from error


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open all services of a server, from the database up."""
    async with AsyncExitStack() as stack:
        key_file = settings.data / "secret-key"
        had_key = key_file.exists()
        vault = Vault(key_file)
        store = await stack.enter_async_context(_store(settings))
        keys = ApiKeys(store, vault)
        await keys.open(settings.data / "api-key")
        secrets = Secrets(store, vault)
        await _tell_of_lost_key(key_file, secrets, had_key=had_key)
        contents = ObjectContents(settings.data / "objects")
        objects = await stack.enter_async_context(Objects(store, contents, settings.max_upload_bytes))
        driver = await stack.enter_async_context(_driver(settings))
        images = ImageStore(settings.data / "images", driver.trees)
        await images.open()
        stack.push_async_callback(images.close)
        host = Host(settings.data / "host", driver, images, vault, OutputBudget(settings.outputs_max_bytes))
        await stack.enter_async_context(host)
        metrics = ServerMetrics()
        gateway = Grants(host, settings.data / "gateway", settings.devbox_lease_seconds)
        grants = await stack.enter_async_context(gateway)
        workers = await stack.enter_async_context(Workers())
        tools = EngineContext(
            settings=settings,
            host=host,
            images=images,
            live_devboxes=LiveDevboxes(store.live("devboxes", Devbox), metrics.saw),
            work=BackgroundTasks(),
            journal=DevboxLog(settings.data / "logs"),
            vault=vault,
            secrets=secrets,
            objects=objects,
            workers=workers,
            builder=await _builder(settings, images, driver, workers),
            trees=driver.trees,
            doors=GrantedDoors(grants, vault),
            egress=grants,
            reserve=Reserve(settings.data / "reserve"),
        )
        engine = await stack.enter_async_context(open_engine(tools, store, grants))
        request_workers = await stack.enter_async_context(Workers())
        problem_reports = ProblemReports(tools.workers)
        tell_new = partial(problem_reports.tell_new, engine)
        tools.work.repeat("problems/tell", tell_new, TELL_SECONDS, "telling webhooks of new problems")
        yield Services(
            settings=settings,
            store=store,
            vault=vault,
            keys=keys,
            secrets=tools.secrets,
            objects=objects,
            images=images,
            host=host,
            builder=tools.builder,
            live_devboxes=tools.live_devboxes,
            engine=engine,
            metrics=metrics,
            leakage=LeakCounts(partial(leaks.find, settings.data)),
            ssh=await stack.enter_async_context(SshServer(settings, engine, host)),
            workers=request_workers,
            job_reports=JobReports(request_workers),
            problem_reports=problem_reports,
        )


async def _tell_of_lost_key(file: Path, secrets: Secrets, *, had_key: bool) -> None:
    """Log at the start which secrets cannot be decrypted, and how to repair that."""
    lost = await secrets.unreadable()
    if not lost:
        return
    what = "is not the one" if had_key else "was missing, and a new one was made, which is not the one"
    logger.warning(
        "%s %s that %d secrets were sealed with (%s): stop the server and put the old file back from a "
        "backup, or set the secrets again with `benchyard secret update NAME`",
        file,
        what,
        len(lost),
        ", ".join(lost[:_MOST_NAMES]) + (", ..." if len(lost) > _MOST_NAMES else ""),
    )


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Store]:
    url = settings.database_url or f"sqlite:///{settings.data / 'benchyard.db'}"
    async with claim_database(url, settings.data, _give_way), Store(url) as store:
        yield store


async def _builder(settings: Settings, images: ImageStore, driver: Driver, workers: Workers) -> Builder:
    folder = settings.data / "images"
    groups = BuildCgroups(folder)
    groups.clear()
    # Build with the container engine that holds the devboxes, if the driver's options name one.
    socket = settings.driver_options.get("socket") if settings.driver == "container" else None
    url = f"unix://{socket.removeprefix('unix://')}" if socket else None
    wanted = BuilderChoice(settings.builder, url)
    call = partial(workers.call, limits=_DOCKERFILE_LIMITS)
    return await open_builder(images, folder, driver.trees, groups, wanted, call)


def _give_way(reason: str) -> None:
    """Stop as by a signal, because another server has taken the database."""
    logger.error("this server has to stop: %s", reason)
    os.kill(os.getpid(), signal.SIGTERM)


def _driver(settings: Settings) -> Driver:
    options = {"lease": str(settings.devbox_lease_seconds), **settings.driver_options}
    driver = registry.load("devboxes", settings.driver)(settings.data / "driver", options)
    if not isinstance(driver, Driver):
        raise UsageError(f"{settings.driver} is not a devbox driver; choose another --driver")
    return driver


@dataclass(frozen=True)
class _Listener:
    """Listening socket for clients, and its TLS."""

    bound: socket.socket
    tls: Tls | None

    @property
    def url(self) -> str:
        host, port = self.bound.getsockname()[:2]
        return f"{'https' if self.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


async def _serve(services: Services, door: _Listener) -> None:
    settings = services.settings
    crowd = ConnectionLimits(most_connections(settings.max_connections), settings.client_seconds)
    others = SshBehindTls(services.ssh, door.tls)
    # Objects of the start stay alive: searching them for cycles would delay listening.
    gc.disable()
    app = build_app(services)
    gc.freeze()
    # Objects of a request or trial are rarely in reference cycles, and searching for cycles costs time.
    gc.set_threshold(*_RINGS)
    gc.enable()
    config = uvicorn.Config(
        app,
        http=partial(BoundedHttp, crowd=crowd, others=others.take),  # type: ignore[arg-type]
        ws=BoundedSocket,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ws_max_size=1024**2,
    )
    config.load()
    config.ssl = door.tls.context if door.tls else None
    server = _Server(config, services)
    watching = asyncio.create_task(crowd.watch(server.server_state.connections))
    try:
        with _signals(server), _announce(services, door):
            await server.serve(sockets=[door.bound])
    finally:
        watching.cancel()
        await others.close()


class _Server(uvicorn.Server):
    """uvicorn's server, stopped by this module instead of its own signal handlers."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        """Begin to stop: streams and long-polls end, short requests finish; a second call does not wait."""
        if jobs := self._services.engine.jobs.unfinished():
            names = ", ".join(f"{job.name!r} ({job.id})" for job in jobs[:_MOST_NAMES])
            more = ", ..." if len(jobs) > _MOST_NAMES else ""
            logger.info("stopping; jobs that go on at the next start: %s%s", names, more)
        else:
            logger.info("stopping")
        self.force_exit = self.should_exit
        self.should_exit = True
        self._services.stopping.set()


@contextmanager
def _signals(server: _Server) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, server.stop)
    # The handlers stay: a second signal must not interrupt the closing of services.
    yield


@contextmanager
def _announce(services: Services, door: _Listener) -> Iterator[None]:
    note = services.settings.data / "server.json"
    told: dict[str, str | int] = {"url": door.url, "pid": os.getpid()}
    if door.tls:
        told["trusted"] = str(door.tls.certificate.trusted)
    if services.ssh.port:
        told["ssh_port"] = services.ssh.port
    write_private(note, json.dumps(told))
    print(f"benchyard: listening on {door.url}", flush=True)  # noqa: T201  (the line that callers wait for)
    data = services.settings.data
    print(  # noqa: T201  (for whoever started it)
        f"benchyard: its key is in {data / 'api-key'}\n"
        "benchyard: to use this server in another terminal, type\n"
        f'  eval "$(benchyard server env{_data_option(data)})"',
        flush=True,
    )
    if door.tls and door.tls.certificate.advice:
        print(door.tls.certificate.advice, flush=True)  # noqa: T201  (for whoever started it)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


@contextmanager
def _claimed(settings: Settings) -> Iterator[socket.socket]:
    """Hold the data folder and the port; a port that is taken leaves no new data folder behind."""
    with ExitStack() as stack:
        bound = None
        # No server has a folder without a lock. Of one that has, the holder is reported rather than the port.
        if not os.access(settings.data / "lock", os.F_OK):
            bound = stack.enter_context(_bound_socket(settings))
        _make_private(settings.data)
        stack.enter_context(_only_server(settings.data))
        yield bound or stack.enter_context(_bound_socket(settings))


@contextmanager
def _bound_socket(settings: Settings) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {refused(error)}; "
            "choose another --port or --host, or, if your own server has it (`benchyard server status`), "
            "stop that with `benchyard server stop`"
        ) from error
    with bound:
        yield bound


@contextmanager
def _only_server(data: Path) -> Iterator[None]:
    with (data / "lock").open("a") as lock:
        if not take_lock(lock.fileno()):
            raise Conflict(f"another server uses {data}{_holder_text(data)}")
        yield


def _holder_text(data: Path) -> str:
    """Describe the server that holds a data folder, as far as its note tells, and the way out."""
    try:
        note = json.loads((data / "server.json").read_text())
        which = f": it runs at {note['url']} (process {note['pid']})."
    except (OSError, ValueError, KeyError, TypeError):
        which = "."
    return (
        f"{which} `benchyard server stop{_data_option(data)}` stops it and leaves its devboxes running; then "
        "start this one again, or give this one a folder of its own with --data"
    )


def _data_option(data: Path) -> str:
    """Return the options by which `benchyard server` finds the server of this data folder."""
    return "" if data == default_data_folder().absolute() else f" --data {shlex.quote(str(data))}"


def _make_private(data: Path) -> None:
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        data.chmod(0o700)
    except OSError as error:
        raise UsageError(
            f"cannot use {data} as data folder: {error.strerror}; choose another with --data"
        ) from error
