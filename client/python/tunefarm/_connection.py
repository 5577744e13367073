"""Finding the daemon: the one that TUNEFARM_SERVER names, or the private one of the data directory, which is started on
demand. The same rules as those of the command line. Private."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
import subprocess
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

import grpc

from tunefarm.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError

_SOCKET_PATH_MAX = 107
_START_SECONDS = 90  # more than the program itself waits


def _absolute(environment: Mapping[str, str], name: str) -> Optional[str]:
    """The variable if it is an absolute path; the XDG rules tell to ignore any other."""
    value = environment.get(name, "")
    if not value.startswith("/"):
        return None
    return value.rstrip("/") or "/"


def default_data_directory(environment: Mapping[str, str]) -> str:
    base = _absolute(environment, "XDG_DATA_HOME")
    if base is not None:
        return base + "/tunefarm"
    home = _absolute(environment, "HOME")
    if home is None:
        raise FailedPreconditionError("neither XDG_DATA_HOME nor HOME is an absolute path; set one of them")
    return home + "/.local/share/tunefarm"


def chosen_data_directory(chosen: Optional[str], environment: Mapping[str, str]) -> str:
    text = chosen or environment.get("TUNEFARM_DATA_DIR") or default_data_directory(environment)
    path = os.path.abspath(text)
    return path[1:] if path.startswith("//") else path


def admin_socket(data_directory: str, environment: Mapping[str, str]) -> str:
    """Where the daemon of a data directory listens; nothing is created or asked."""
    try:
        standard: Optional[str] = default_data_directory(environment)
    except FailedPreconditionError:
        standard = None
    if data_directory == standard:
        base = _absolute(environment, "XDG_RUNTIME_DIR")
        directory = base + "/tunefarm" if base is not None else f"/tmp/tunefarm-{os.geteuid()}"
    else:
        directory = data_directory + "/run"
    if len(os.fsencode(directory + "/client.sock")) > _SOCKET_PATH_MAX:
        raise FailedPreconditionError(
            f"the socket path '{directory}/client.sock' is longer than the {_SOCKET_PATH_MAX} bytes that a Unix socket "
            "may have; choose a shorter data directory")
    return directory + "/admin.sock"


def accepts(path: str) -> bool:
    """Whether somebody listens on the socket. The kernel answers, so that it never waits for the daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # its queue is full
        except OSError:
            return False
    return True


def places_beside(*ways: Tuple[int, str]) -> List[Path]:
    """Paths above this package: in a build tree it lies in build/PRESET/python/tunefarm, installed in
    PREFIX/lib/python3/dist-packages/tunefarm."""
    parents = Path(__file__).resolve().parents
    return [parents[up] / path for up, path in ways if up < len(parents)]


def _program() -> str:
    for candidate in places_beside((2, "bin/tunefarm"), (4, "bin/tunefarm")):
        # Only beside the daemon's program can it start one.
        if os.access(candidate, os.X_OK) and candidate.with_name("tunefarmd").exists():
            return str(candidate)
    found = shutil.which("tunefarm")
    if found:
        return found
    raise UnavailableError("no daemon is running and the program tunefarm, which starts one, is not on PATH; install it, "
                           "start tunefarmd, or set TUNEFARM_SERVER")


def _start(data_directory: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TUNEFARM_SERVER"}
    command = [_program(), "--data-dir", data_directory, "--output", "json", "devices"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=_START_SECONDS, env=environment, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(
            f"the daemon did not start within {_START_SECONDS} s; see {data_directory}/log") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise UnavailableError(f"the daemon could not be started: {said}")


def find_server(server: Optional[str], data_directory: Optional[str], start: bool) -> str:
    """The address to connect to, as gRPC writes it. Starts the private daemon if it may and must."""
    address = server or ("" if data_directory else os.environ.get("TUNEFARM_SERVER", ""))
    if not address:
        directory = chosen_data_directory(data_directory, os.environ)
        path = admin_socket(directory, os.environ)
        if not accepts(path):
            if not start:
                raise UnavailableError(f"no daemon is running for {directory}")
            _start(directory)
        address = "unix:" + path
    # A socket that nobody listens on is known at once; gRPC would go on trying.
    if address.startswith("unix:") and not accepts(address[len("unix:"):]):
        raise nobody_at(address)
    return address


class _TokenSender(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
                   grpc.StreamUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Sends the token with every call, over whatever channel: gRPC's own way would not over a Unix socket."""

    def __init__(self, token: str) -> None:
        self._header = ("authorization", "Bearer " + token)

    def _send(self, continuation: Any, details: Any, request: Any) -> Any:
        metadata = list(details.metadata or ()) + [self._header]
        return continuation(_CallDetails(details.method, details.timeout, metadata, details.credentials,
                                         details.wait_for_ready, getattr(details, "compression", None)), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_unary = intercept_stream_stream = _send


class _CallDetails(NamedTuple):
    method: Any
    timeout: Any
    metadata: Any
    credentials: Any
    wait_for_ready: Any
    compression: Any


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"{what} {path}: {error.strerror}") from None


def _read_secret(path: str, what: str) -> bytes:
    """Of a file that no other user may read: mode 0600, or 0640 where it is root's."""
    try:
        info = os.stat(path)
    except OSError as error:
        raise InvalidArgumentError(f"{what} {path}: {error.strerror}") from None
    forbidden = 0o037 if info.st_uid == 0 else 0o077
    if stat.S_ISREG(info.st_mode) and info.st_mode & forbidden:
        raise InvalidArgumentError(f"other users may read or change {what} {path} (mode "
                                   f"{stat.S_IMODE(info.st_mode):04o}); run: chmod 600 {path}")
    return _read(path, what)


def _stays_here(address: str) -> bool:
    host = address.rpartition(":")[0]
    return address.startswith("unix:") or host in ("localhost", "[::1]") or host.startswith("127.")


def open_channel(address: str, options: List[Tuple[str, int]], *, tls_ca: Any, tls_certificate: Any, tls_key: Any,
                 token: Optional[str], token_file: Any) -> grpc.Channel:
    """A channel with TLS and whatever proves who calls; the same rules as those of the command line."""
    def given(value: Any, name: str) -> str:
        return os.fspath(value) if value else os.environ.get(name, "")

    is_unix = address.startswith("unix:")
    ca = "" if is_unix else given(tls_ca, "TUNEFARM_TLS_CA")
    certificate, key = os.fspath(tls_certificate or ""), os.fspath(tls_key or "")
    if not certificate and not key:
        certificate, key = given(None, "TUNEFARM_CLIENT_CERTIFICATE"), given(None, "TUNEFARM_CLIENT_KEY")
    if bool(certificate) != bool(key):
        raise InvalidArgumentError("a certificate and its key belong together: give both (tls_certificate, tls_key)")
    if certificate and not ca and not is_unix:
        raise InvalidArgumentError("a certificate is shown in TLS only: also give the CA of the daemon's (tls_ca)")
    path = os.fspath(token_file or "")
    secret = token or ("" if path else os.environ.get("TUNEFARM_TOKEN", ""))
    if not secret:
        path = path or os.environ.get("TUNEFARM_TOKEN_FILE", "")
        secret = _read_secret(path, "the token's file").decode("ascii", "replace").strip() if path else ""
    if secret and not (secret.startswith("tft_") and secret.replace("_", "").isalnum() and secret.isascii()):
        raise InvalidArgumentError("what is given as a token is none: one begins with 'tft_'")
    if secret and not ca and not _stays_here(address):
        raise InvalidArgumentError(f"a token is not sent to {address} as plain text: give the CA of the daemon's "
                                   "certificate (tls_ca)")
    if ca:
        credentials = grpc.ssl_channel_credentials(
            _read(ca, "the CA"), _read_secret(key, "the private key") if key else None,
            _read(certificate, "the certificate") if certificate else None)
        channel = grpc.secure_channel(address, credentials, options=options)
    else:
        channel = grpc.insecure_channel(address, options=options)
    return grpc.intercept_channel(channel, _TokenSender(secret)) if secret else channel


def why_nobody(address: str, tls_ca: Any) -> UnavailableError:
    """nobody_at, or what one more attempt says is wrong with the daemon's certificate."""
    ca = os.fspath(tls_ca) if tls_ca else os.environ.get("TUNEFARM_TLS_CA", "")
    host, _, port = address.rpartition(":")
    if ca and not address.startswith("unix:"):
        try:
            context = ssl.create_default_context(cafile=ca)
            with socket.create_connection((host.strip("[]"), int(port)), timeout=3) as plain:
                context.wrap_socket(plain, server_hostname=host.strip("[]")).close()
        except ssl.SSLCertVerificationError as error:
            return UnavailableError(f"the certificate of the daemon at {address} is refused: {error.verify_message}")
        except ssl.SSLError:
            return UnavailableError(f"{address} does not speak TLS; leave tls_ca out, or give the daemon a certificate")
        except (OSError, ValueError):
            pass
    return nobody_at(address)


def nobody_at(address: str) -> UnavailableError:
    return UnavailableError(f"no daemon answers at {address}; start one with tunefarmd, or unset TUNEFARM_SERVER to use "
                            "a private one")
