"""TLS: with a certificate that is given, and with one that the server makes and keeps."""

import asyncio
import json
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from runloop_api_client import AsyncRunloop, DefaultAsyncHttpxClient, DefaultHttpxClient, Runloop, RunloopSDK

from benchyard.api.tls import GivenCertificate, OwnCertificate, certificate_now, open_tls
from benchyard.client import AsyncClient, Client
from benchyard.client.operations import Server
from benchyard.client.servers import running_server
from benchyard.client.sockets import open_terminal
from benchyard.errors import ServerUnreachable, UsageError
from benchyard.settings import Settings
from benchyard.testing.server import RunningServer

FAKE = ("--driver", "fake")
DOMAIN = "api.yard.test"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a certificate of its own making."""
    options = (*FAKE, "--tls-self-signed", "--domain", DOMAIN)
    with RunningServer(tmp_path_factory.mktemp("tls") / "data", options) as running:
        yield running


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for another name, as somebody else made it, and its key."""
    return made_elsewhere(tmp_path / "elsewhere")


def made_elsewhere(folder: Path) -> tuple[Path, Path]:
    folder.mkdir()
    key, chain = folder / "key.pem", folder / "chain.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    name = ["-subj", "/CN=given.yard.test", "-addext", "subjectAltName=DNS:given.yard.test"]
    subprocess.run([*command, *name, "-keyout", key, "-out", chain], check=True, capture_output=True)
    return chain, key


def authority(server: RunningServer) -> ssl.SSLContext:
    """What a client has that was given the authority's file, and nothing else."""
    return ssl.create_default_context(cafile=server.data / "tls" / "ca.pem")


def as_domain(server: RunningServer) -> httpx.HTTPTransport:
    """Connects as a client does for which the domain leads to this machine."""
    return _Renamed(verify=authority(server))


class _Renamed(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["sni_hostname"] = request.url.host
        request.url = request.url.copy_with(host="127.0.0.1")
        return super().handle_request(request)


def domain_url(server: RunningServer) -> str:
    return server.url.replace("127.0.0.1", DOMAIN)


def first_certificate(server: RunningServer) -> x509.Certificate:
    """What the server shows now."""
    port = int(server.url.rpartition(":")[2])
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode())


def test_a_client_that_trusts_the_authority_is_served(secure: RunningServer) -> None:
    assert secure.url.startswith("https://127.0.0.1:")
    assert httpx.get(f"{secure.url}/healthz", verify=authority(secure)).status_code == 200
    local = secure.url.replace("127.0.0.1", "localhost")
    assert httpx.get(f"{local}/healthz", verify=authority(secure)).status_code == 200


def test_a_client_that_does_not_trust_it_leaves(secure: RunningServer) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{secure.url}/healthz")


def test_plain_http_gets_no_answer(secure: RunningServer) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{secure.url.replace('https', 'http', 1)}/healthz")


def test_old_versions_of_the_protocol_are_refused(secure: RunningServer) -> None:
    context = authority(secure)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert httpx.get(f"{secure.url}/healthz", verify=context).status_code == 200
    command = ["openssl", "s_client", "-tls1_1", "-connect", secure.url.removeprefix("https://")]
    old = subprocess.run(
        [*command, "-cipher", "ALL:@SECLEVEL=0"], capture_output=True, input=b"", check=False
    )
    assert old.returncode != 0


def test_the_official_client_reaches_the_server_by_its_domain(secure: RunningServer) -> None:
    http = DefaultHttpxClient(transport=as_domain(secure))
    with Runloop(base_url=domain_url(secure), bearer_token=secure.key, http_client=http) as client:
        devbox = client.devboxes.create_and_await_running(name="over tls")
        result = client.devboxes.execute_and_await_completion(devbox.id, command="echo encrypted")
        assert result.stdout == "encrypted\n"
        stream = client.devboxes.executions.stream_stdout_updates(result.execution_id, devbox_id=devbox.id)
        assert "".join(chunk.output for chunk in stream) == "encrypted\n"
        made = client.objects.create(name="o", content_type="text")
        assert made.upload_url
        assert made.upload_url.startswith(f"{domain_url(secure)}/objects/upload/")
        client.devboxes.shutdown(devbox.id)


def test_the_official_asynchronous_client_with_the_authority_is_served(secure: RunningServer) -> None:
    async def listed() -> int:
        http = DefaultAsyncHttpxClient(verify=authority(secure))
        async with AsyncRunloop(base_url=secure.url, bearer_token=secure.key, http_client=http) as client:
            return len((await client.secrets.list()).secrets)

    assert asyncio.run(listed()) == 0


def test_the_address_of_a_tunnel_that_the_official_client_computes_is_served(secure: RunningServer) -> None:
    with RunloopSDK(
        base_url=domain_url(secure),
        bearer_token=secure.key,
        http_client=DefaultHttpxClient(transport=as_domain(secure)),
    ) as sdk:
        devbox = sdk.devbox.create(tunnel={"auth_mode": "open"})
        tunnel = devbox.get_tunnel()
        assert tunnel is not None
        port = int(secure.url.rpartition(":")[2])
        url = devbox.get_tunnel_url(9)
        assert url == f"https://9-{tunnel.tunnel_key}.tunnel.yard.test"
        with httpx.Client(transport=as_domain(secure), timeout=30) as client:
            answer = client.get(f"{url}:{port}/")
        assert (answer.status_code, answer.json()["details"]) == (502, {"port": 9})
        devbox.shutdown()


def test_our_client_trusts_the_local_server_by_itself(secure: RunningServer) -> None:
    found = running_server(secure.data)
    assert found is not None
    assert found.trusted == secure.data / "tls" / "ca.pem"
    with Client.find({"BENCHYARD_DATA": str(secure.data)}) as client:
        assert client.doctor().driver == "fake"
    with Client.find({"BENCHYARD_DATA": str(secure.data), "BENCHYARD_URL": secure.url}) as client:
        assert client.doctor().driver == "fake"


def test_our_client_elsewhere_says_what_to_do_about_a_certificate_it_does_not_know(
    secure: RunningServer,
) -> None:
    with (
        Client(Server(secure.url, secure.key)) as client,
        pytest.raises(ServerUnreachable, match="set SSL_CERT_FILE"),
    ):
        client.doctor()


def test_the_command_line_uploads_over_tls(secure: RunningServer, tmp_path: Path) -> None:
    unset = ("BENCHYARD_URL", "RUNLOOP_BASE_URL")
    environ = {name: value for name, value in os.environ.items() if name not in unset}
    environ["BENCHYARD_DATA"] = str(secure.data)
    (tmp_path / "file").write_text("content")
    command = [sys.executable, "-m", "benchyard.cli.main", "object", "upload", str(tmp_path / "file")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_terminal_goes_over_tls(secure: RunningServer) -> None:
    async def typed() -> bytes:
        async with AsyncClient.find({"BENCHYARD_DATA": str(secure.data)}) as client:
            devbox = await client.devboxes.create_and_await_running()
            async with open_terminal(client, devbox.id, "one", 80, 24) as terminal:
                await terminal.type(b"echo $((20 + 22)); exit\n")
                printed = [each async for each in terminal.printed()]
            await client.devboxes.shutdown(devbox.id)
            return b"".join(printed)

    assert b"42" in asyncio.run(typed())


def test_the_files_are_private_and_survive_a_restart(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", (*FAKE, "--tls-self-signed")) as server:
        folder = server.data / "tls"
        assert {each.name for each in folder.iterdir()} == {"ca.pem", "ca-key.pem", "server.pem"}
        assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
        before = {each.name: each.read_bytes() for each in folder.iterdir()}
        server.restart()
        assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
        assert json.loads((server.data / "server.json").read_text())["trusted"] == str(folder / "ca.pem")


def test_a_given_certificate_is_shown_and_trusted_locally_by_itself(
    given: tuple[Path, Path], tmp_path: Path
) -> None:
    options = (*FAKE, "--tls-cert", str(given[0]), "--tls-key", str(given[1]))
    with RunningServer(tmp_path / "data", options) as server:
        assert first_certificate(server) == x509.load_pem_x509_certificate(given[0].read_bytes())
        with Client.find({"BENCHYARD_DATA": str(server.data)}) as client:
            assert client.doctor().driver == "fake"
        with pytest.raises(httpx.ConnectError, match="IP address mismatch"):
            httpx.get(f"{server.url}/healthz", verify=ssl.create_default_context(cafile=given[0]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tls-cert", "CHAIN"], "--tls-key"),
        (["--tls-cert", "CHAIN", "--tls-key", "CHAIN"], "not a certificate and its key"),
        (["--tls-cert", "KEY", "--tls-key", "KEY"], "certificate"),
        (["--tls-cert", "CHAIN", "--tls-key", "KEY", "--tls-self-signed"], "either"),
        (["--domain", DOMAIN], "--tls-self-signed"),
        (["--tls-self-signed", "--domain", "not a domain"], "not a domain"),
        (["--tls-self-signed", "--domain", "*.yard.test"], "not a domain"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_tls_options_are_refused_at_the_start(
    options: list[str], said: str, given: tuple[Path, Path], tmp_path: Path
) -> None:
    files = {"CHAIN": str(given[0]), "KEY": str(given[1])}
    options = [files.get(each, each) for each in options]
    with pytest.raises(ServerUnreachable, match=said):
        RunningServer(tmp_path / "data", [*FAKE, *options]).start()


def test_beyond_this_machine_tls_silences_the_warning(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", [*FAKE, "--host", "0.0.0.0", "--tls-self-signed"]) as server:
        assert "unencrypted" not in server.log


def test_a_certificate_is_renewed_before_it_ends_by_the_same_authority(tmp_path: Path) -> None:
    own = OwnCertificate(tmp_path / "tls", DOMAIN)
    start = certificate_now()
    assert own.refresh(start)
    authority, first = own.trusted.read_bytes(), own.chain.read_bytes()
    assert not own.refresh(start + timedelta(days=360))
    assert own.refresh(start + timedelta(days=370))
    assert own.trusted.read_bytes() == authority
    assert own.chain.read_bytes() != first
    assert own.refresh(start + timedelta(days=3400))
    assert own.trusted.read_bytes() != authority


def test_another_domain_and_damaged_files_get_a_new_certificate(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    OwnCertificate(folder, DOMAIN).refresh(certificate_now())
    other = OwnCertificate(folder, "api.other.test")
    assert other.refresh(certificate_now())
    for file in (other.chain, other.trusted, folder / "ca-key.pem"):
        file.write_text("damaged")
        assert other.refresh(certificate_now()), file
        assert not other.refresh(certificate_now()), file


def test_the_authority_can_sign_for_its_own_names_only(tmp_path: Path) -> None:
    own, other = OwnCertificate(tmp_path / "own", DOMAIN), OwnCertificate(tmp_path / "other", "bank.test")
    own.refresh(certificate_now())
    kept = own._kept_authority(certificate_now())
    assert kept
    other.chain.parent.mkdir()
    other._sign(*kept, certificate_now())
    assert b"permitted subtree violation" in verified(own.trusted, other.chain)
    assert b": OK" in verified(own.trusted, own.chain)


def verified(authority: Path, chain: Path) -> bytes:
    """What openssl says about a certificate."""
    done = subprocess.run(
        ["openssl", "verify", "-CAfile", authority, chain], capture_output=True, check=False
    )
    return done.stdout + done.stderr


def test_a_given_certificate_that_changes_is_shown_without_a_restart(tmp_path: Path) -> None:
    chain, key = made_elsewhere(tmp_path / "first")
    second = made_elsewhere(tmp_path / "second")
    settings = Settings(tmp_path, tls_cert=chain, tls_key=key)

    async def replaced() -> None:
        async with open_tls(settings, look_seconds=0.01) as tls:
            assert tls is not None
            before = tls.certificate.trusted.read_bytes()
            second[1].rename(key)
            second[0].rename(chain)
            deadline = asyncio.get_running_loop().time() + 30
            while tls.certificate.trusted.read_bytes() == before:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.01)
            server = await asyncio.start_server(
                lambda _, writer: writer.close(), "127.0.0.1", ssl=tls.context
            )
            async with server:
                port = server.sockets[0].getsockname()[1]
                shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
            assert x509.load_pem_x509_certificate(shown.encode()) == x509.load_pem_x509_certificate(
                chain.read_bytes()
            )

    asyncio.run(replaced())


def test_a_pair_that_does_not_fit_leaves_the_old_one_in_place(tmp_path: Path) -> None:
    chain, key = made_elsewhere(tmp_path / "first")
    other, _ = made_elsewhere(tmp_path / "second")
    shown, context = chain.read_bytes(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    good = GivenCertificate(chain, key, tmp_path / "tls" / "given.pem")
    good.refresh(certificate_now())
    good.load(context)
    other.rename(chain)
    assert good.refresh(certificate_now())
    with pytest.raises(UsageError, match="not a certificate and its key"):
        good.load(context)
    assert good.trusted.read_bytes() == shown


def test_a_server_says_how_clients_come_to_trust_it(tmp_path: Path) -> None:
    own = OwnCertificate(tmp_path / "tls", DOMAIN)
    assert DOMAIN in own.advice
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"):
        assert f"{name}={own.trusted}" in own.advice
