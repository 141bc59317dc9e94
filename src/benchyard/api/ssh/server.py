"""The ssh server: admits clients with a devbox's key, to that devbox only."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncssh

from benchyard.api.log import logger
from benchyard.api.ssh.sessions import FAILED, SshProcess, SshSession, SshTarget
from benchyard.api.ssh.sftp import SftpFiles
from benchyard.api.tunnels.streams import ByteStream, IdleClock, carry
from benchyard.api.tunnels.streams import open_stream as opened_stream
from benchyard.engine.engine import Engine
from benchyard.errors import BenchyardError, UsageError, refused
from benchyard.hosts.host import Host
from benchyard.settings import Settings

MOST_CONNECTIONS = 512
MOST_SESSIONS = 32
"""Sessions of one connection: commands, terminals, file transfers and forwarded ports together."""
_LOGIN_SECONDS = 30
_ALIVE_SECONDS = 30
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_VERSION = "Benchyard"


@asynccontextmanager
async def open_connections(
    settings: Settings, engine: Engine, host: Host, key: str
) -> AsyncIterator["SshConnections"]:
    """Open the server with this host key; its connections end with it."""
    asyncssh.set_log_level(logging.ERROR)
    server = SshConnections(settings, engine, host, asyncssh.import_private_key(key))
    try:
        await server.open()
        yield server
    finally:
        await server.close()


class SshConnections:
    """Serves connections of any origin, and keeps track of the open ones."""

    def __init__(self, settings: Settings, engine: Engine, host: Host, key: asyncssh.SSHKey) -> None:
        self.engine = engine
        self.host = host
        self._settings = settings
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._listener: asyncssh.SSHAcceptor | None = None
        self._key = key

    async def open(self) -> None:
        """Listen on the port of the settings, if they name one; raises UsageError if it is taken."""
        settings = self._settings
        if settings.ssh_port is None:
            return
        try:
            self._listener = await asyncssh.listen(
                settings.host, settings.ssh_port, options=await self._options()
            )
        except OSError as error:
            raise UsageError(
                f"cannot listen on {settings.host} port {settings.ssh_port}: {refused(error)}; "
                "choose another --ssh-port"
            ) from error

    @property
    def port(self) -> int | None:
        """Port of the server's own listener; None without one."""
        return self._listener.get_port() if self._listener else None

    async def close(self) -> None:
        """End all connections; processes in devboxes get a hangup."""
        if self._listener is not None:
            self._listener.close()
        connections = list(self._connections)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*(each.wait_closed() for each in connections), return_exceptions=True)

    async def serve(self, connected: socket.socket) -> None:
        """Speak ssh on a connected socket until its end."""
        try:
            connection = await asyncssh.run_server(connected, options=await self._options())
            await connection.wait_closed()
        except (OSError, asyncssh.Error) as error:
            logger.debug("an ssh connection ended early: %s", error)
        finally:
            connected.close()

    def enter(self, connection: asyncssh.SSHServerConnection) -> bool:
        """Register a connection; return False if there are too many."""
        if len(self._connections) >= MOST_CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

    def leave(self, connection: asyncssh.SSHServerConnection) -> None:
        """Forget a connection that has ended."""
        self._connections.discard(connection)

    def files(self, channel: "asyncssh.SSHServerChannel[bytes]") -> SftpFiles:
        """Return the server of files for a client's devbox."""
        guest: SshClient = channel.get_connection().get_extra_info("guest")
        return SftpFiles(channel, guest.place(), self._settings.max_upload_bytes)

    async def _options(self) -> asyncssh.SSHServerConnectionOptions:
        options: asyncssh.SSHServerConnectionOptions = await asyncssh.SSHServerConnectionOptions.construct(
            server_factory=lambda: SshClient(self),
            server_host_keys=[self._key],
            server_version=_VERSION,
            process_factory=_run,
            sftp_factory=self.files,
            sftp_version=3,
            allow_scp=True,
            encoding=None,
            line_editor=False,
            agent_forwarding=False,
            x11_forwarding=False,
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            gss_host=None,
            login_timeout=_LOGIN_SECONDS,
            keepalive_interval=_ALIVE_SECONDS,
        )
        return options


class SshClient(asyncssh.SSHServer):
    """A client, without any rights until its key determines the devbox that it may enter."""

    def __init__(self, server: SshConnections) -> None:
        self._server = server
        self._connection: asyncssh.SSHServerConnection | None = None
        self._devbox_id = ""
        self.sessions = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        conn.set_extra_info(guest=self)
        if not self._server.enter(conn):
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._server.leave(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        public = " ".join(key.export_public_key("openssh").decode().split()[:2])
        devbox = self._server.engine.ssh_keys.find_by_key(public)
        if devbox is None or devbox.launch_parameters.username != username:
            return False
        self._devbox_id = devbox.id
        return True

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> "asyncssh.SSHTCPSession[bytes]":
        if dest_host.lower() not in _LOOPBACK:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "only the devbox's own ports, by `localhost`"
            )
        return self._forwarded(dest_port)  # type: ignore[return-value]

    async def _forwarded(self, port: int) -> "asyncssh.SSHTCPSession[bytes]":
        place = self.place()
        if self.sessions >= MOST_SESSIONS:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, "too many sessions")
        try:
            await place.engine.devboxes.running(place.devbox_id)
            descriptor = await place.host.connect(place.devbox_id, port)
        except BenchyardError as error:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, error.message) from error
        self.sessions += 1
        idling = IdleClock(lambda: place.engine.devboxes.touch(place.devbox_id))

        async def pass_on(reader: "asyncssh.SSHReader[bytes]", writer: "asyncssh.SSHWriter[bytes]") -> None:
            try:
                async with opened_stream(descriptor) as inside:
                    # Both kinds of streams have the few methods that are needed.
                    await carry(ByteStream(reader, writer), inside, idling)  # type: ignore[arg-type]
            finally:
                self.sessions -= 1
                writer.close()

        return asyncssh.stream.SSHTCPStreamSession(pass_on)

    def place(self) -> SshTarget:
        """Return the place where the client's sessions run."""
        return SshTarget(self._server.engine, self._server.host, self._devbox_id)


async def _run(process: SshProcess) -> None:
    guest: SshClient = process.get_extra_info("guest")
    if process.subsystem or guest.sessions >= MOST_SESSIONS:
        process.stderr.write(b"benchyard: too many sessions, or one of a kind that is not served\n")
        process.exit(FAILED)
        return
    guest.sessions += 1
    try:
        await SshSession(process, guest.place()).run()
    finally:
        guest.sessions -= 1
