"""Finding the daemon: the one that TUNEFARM_SERVER names, or the private one of the data directory, which is started on
demand. The same rules as those of the command line. Private."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import ssl
import stat
import subprocess
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

import grpc

from tunefarm import _files
from tunefarm.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, UnavailableError

_SOCKET_PATH_MAX = 107
_CREDENTIAL_BYTES_MAX = 1 << 20
_PATIENCE_SECONDS = 3
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


def _leads_elsewhere(link: str, directory: str) -> bool:
    try:
        target = os.readlink(link)
    except OSError:
        return False
    try:
        return target != directory and not os.path.samefile(target, directory)
    except OSError:  # what it names is gone or another user's, or this one is not made yet
        return True


def admin_socket(data_directory: str, environment: Mapping[str, str]) -> str:
    """Where the daemon of a data directory listens; nothing is created or asked."""
    try:
        standard: Optional[str] = default_data_directory(environment)
    except FailedPreconditionError:
        standard = None
    if data_directory == standard:
        base = _absolute(environment, "XDG_RUNTIME_DIR")
        directory = base + "/tunefarm" if base is not None else f"/tmp/tunefarm-{os.geteuid()}"
    if data_directory != standard or _leads_elsewhere(directory + "/data", data_directory):
        directory = data_directory + "/run"
    if len(os.fsencode(directory + "/client.sock")) > _SOCKET_PATH_MAX:
        raise FailedPreconditionError(
            f"the socket path '{directory}/client.sock' is longer than the {_SOCKET_PATH_MAX} bytes that a Unix socket "
            "may have; choose a shorter data directory")
    return directory + "/admin.sock"


def socket_error(path: str) -> int:
    """0: somebody listens on the socket; else the errno of connect(). The kernel answers, so that it never waits for the
    daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return 0  # its queue is full
        except OSError as error:
            return error.errno or errno.EINVAL
    return 0


def places_beside(*ways: Tuple[int, str]) -> List[Path]:
    """Paths above this package: in a build tree it lies in build/PRESET/python/tunefarm, installed in
    PREFIX/lib/python3/dist-packages/tunefarm, and in a bundle in BUNDLE/python/tunefarm."""
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


def named_address(server: Optional[str], data_directory: Optional[str]) -> str:
    """The address that names the daemon; empty where it is the private one of a data directory."""
    return server or ("" if data_directory else os.environ.get("TUNEFARM_SERVER", ""))


def find_server(server: Optional[str], data_directory: Optional[str], start: bool) -> str:
    """The address to connect to, as gRPC writes it. Starts the private daemon if it may and must."""
    address = named_address(server, data_directory)
    if not address:
        directory = chosen_data_directory(data_directory, os.environ)
        path = admin_socket(directory, os.environ)
        if socket_error(path) not in (0, errno.EACCES, errno.EPERM):
            if not start:
                raise UnavailableError(f"no daemon is running for {directory}")
            _start(directory)
            path = admin_socket(directory, os.environ)  # another directory's daemon may have taken the other place
        address = "unix:" + path
    check_address(address)
    # A socket that nobody may open or listens on is known at once; gRPC would go on trying.
    if address.startswith("unix:") and socket_error(address[len("unix:"):]) != 0:
        raise _unreachable_socket(address, socket_error(address[len("unix:"):]))
    return address


def check_address(address: str) -> None:
    """InvalidArgumentError for what is neither "unix:/path" nor "host:port"."""
    def bad(why: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{address!r} is not an address of a daemon: {why}; write unix:/path or host:port",
                                    reason="ADDRESS_INVALID")

    if address.startswith("unix:"):
        size = len(os.fsencode(address)) - len("unix:")
        if size == 0:
            raise bad("the path is missing")
        if size > _SOCKET_PATH_MAX:
            raise bad(f"the path has {size} bytes, a socket's at most {_SOCKET_PATH_MAX}")
        return
    if "/" in address:
        raise bad("the path of a socket begins with unix:" if address[0] in "/." else "it holds a '/', which no host name "
                  "does")
    host, colon, port = address.rpartition(":")
    if not colon:
        raise bad("the port is missing")
    if not host:
        raise bad("the host is missing")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise bad("an IPv6 address stands in brackets: [::1]:7070")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise bad(f"{port!r} is not a port from 1 to 65535")


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
        return _files.read(path, _CREDENTIAL_BYTES_MAX)
    except (InvalidArgumentError, NotFoundError) as error:
        raise InvalidArgumentError(f"{what} {error}") from None


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


_opened_by: Optional[int] = None  # pid of the first process that opened a channel: this one or one it was forked from


def may_use_grpc() -> bool:
    """False in a child of a process that had opened a channel: gRPC does not survive a fork, and its calls may hang."""
    return _opened_by in (None, os.getpid())


def _stays_here(address: str) -> bool:
    host = address.rpartition(":")[0]
    return address.startswith("unix:") or host in ("localhost", "[::1]") or host.startswith("127.")


def open_channel(address: str, options: List[Tuple[str, int]], *, tls_ca: Any, tls_certificate: Any, tls_key: Any,
                 token: Optional[str], token_file: Any) -> grpc.Channel:
    """A channel with TLS and whatever proves who calls; the same rules as those of the command line."""
    global _opened_by
    if _opened_by is None:
        _opened_by = os.getpid()

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
        if path and not secret:
            raise InvalidArgumentError(f"the token file {path} is empty; it holds one token, which begins with 'tft_'")
    if secret and not (secret.startswith("tft_") and secret.replace("_", "").isalnum() and secret.isascii()):
        raise InvalidArgumentError("what is given as a token is none: one begins with 'tft_'")
    if secret and not ca and not _stays_here(address):
        raise InvalidArgumentError(f"a token is not sent to {address} as plain text: give the CA of the daemon's "
                                   "certificate (tls_ca)")
    if ca:
        private = _read_secret(key, "the private key") if key else None
        _check_tls_files(ca, certificate, key)
        credentials = grpc.ssl_channel_credentials(
            _read(ca, "the CA"), private,
            _read(certificate, "the certificate") if certificate else None)
        channel = grpc.secure_channel(address, credentials, options=options)
    else:
        channel = grpc.insecure_channel(address, options=options)
    return grpc.intercept_channel(channel, _TokenSender(secret)) if secret else channel


def _check_tls_files(ca: str, certificate: str, key: str) -> None:
    """InvalidArgumentError for files that hold no certificate or key, or a key that is not the certificate's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _read(ca, "the CA")
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError:
        raise InvalidArgumentError(f"there is no certificate in {ca} (PEM is expected)") from None
    if not certificate:
        return
    _read(certificate, "the certificate")
    _read(key, "the key")
    try:
        # A key with a passphrase is refused instead of asking for it on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InvalidArgumentError(f"the key in {key} is not that of the certificate in {certificate}; give the pair "
                                       "that was issued together", reason="KEY_MISMATCH") from None
        raise InvalidArgumentError(f"{certificate} and {key} are not a certificate and its key (PEM without a passphrase "
                                   "is expected)") from None


def _no_daemon(address: str, why: str) -> UnavailableError:
    return UnavailableError(f"no daemon answers at {address}: {why}; start tunefarmd there, or correct the address",
                            reason="NO_DAEMON")


def _does_not_answer(address: str) -> UnavailableError:
    return UnavailableError(f"the daemon at {address} accepts connections but does not answer: it hangs, is stopped, or "
                            "its machine is overloaded; see its log, and restart it if that lasts",
                            reason="NOT_ANSWERING")


def _unreachable_socket(address: str, error: int) -> UnavailableError:
    path = address[len("unix:"):]
    if error in (errno.ENOENT, errno.ENOTDIR):
        return _no_daemon(address, "the socket does not exist")
    if error == errno.ECONNREFUSED:
        try:
            is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
        except OSError:
            is_socket = True
        return _no_daemon(address, "nobody listens on the socket" if is_socket else "that is not a socket")
    if error in (errno.EACCES, errno.EPERM):
        return UnavailableError(f"user id {os.geteuid()} has no permission to open the daemon's socket {path}; ask the "
                                "daemon's owner for membership in the group of its client.sock, or for a TCP address and "
                                "a token", reason="NO_PERMISSION")
    return _no_daemon(address, os.strerror(error))


def _connected(address: str) -> socket.socket:
    """A socket whose reads and writes give up after _PATIENCE_SECONDS; UnavailableError with the cause."""
    if address.startswith("unix:"):
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(_PATIENCE_SECONDS)
        try:
            plain.connect(address[len("unix:"):])
        except (BlockingIOError, socket.timeout):
            plain.close()
            raise _does_not_answer(address) from None
        except OSError as error:
            plain.close()
            raise _unreachable_socket(address, error.errno or errno.EINVAL) from None
        return plain
    host, _, port = address.rpartition(":")
    try:
        return socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_SECONDS)
    except socket.gaierror as error:
        raise UnavailableError(f"the host {host} of the address {address} is not known: {error.strerror}; correct the "
                               "address", reason="HOST_UNKNOWN") from None
    except socket.timeout:
        raise UnavailableError(f"{address} cannot be reached: nothing comes back within {_PATIENCE_SECONDS} s; see "
                               "whether the machine is up, and whether a firewall drops the port",
                               reason="HOST_UNREACHABLE") from None
    except ConnectionRefusedError:
        raise _no_daemon(address, "nobody listens on the port") from None
    except OSError as error:
        raise UnavailableError(f"{address} cannot be reached: {error.strerror}; see the network of this machine and the "
                               "address", reason="HOST_UNREACHABLE") from None


# The first bytes of an HTTP/2 connection, and empty settings.
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


def _asks_for_tls(address: str) -> bool:
    host, _, _ = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with _connected(address) as plain:
            context.wrap_socket(plain, server_hostname=host.strip("[]")).close()
    except (OSError, UnavailableError):
        return False
    return True


def why_unreachable(address: str, tls_ca: Any) -> UnavailableError:
    """Why no connection came about, as far as one more attempt of some seconds can tell; the same sentences as those of
    the command line."""
    ca = "" if address.startswith("unix:") else os.fspath(tls_ca) if tls_ca else os.environ.get("TUNEFARM_TLS_CA", "")
    host, _, _ = address.rpartition(":")
    too_slow = UnavailableError(f"the daemon at {address} answers too slowly; its machine may be overloaded: try again",
                                reason="NOT_ANSWERING")
    try:
        with _connected(address) as plain:
            if ca:
                context = ssl.create_default_context(cafile=ca)
                context.wrap_socket(plain, server_hostname=host.strip("[]")).close()
                return too_slow
            plain.sendall(_HTTP2_PREFACE)
            reply = plain.recv(9)
    except UnavailableError as error:
        return error
    except ssl.SSLCertVerificationError as error:
        return UnavailableError(f"the certificate of the daemon at {address} is refused: {error.verify_message}")
    except socket.timeout:
        return _does_not_answer(address)
    except ssl.SSLError:
        return UnavailableError(f"{address} does not speak TLS; leave tls_ca out, or give the daemon a certificate",
                                reason="TLS_NOT_SPOKEN")
    except OSError:
        if ca:
            return UnavailableError(f"{address} does not speak TLS; leave tls_ca out, or give the daemon a certificate",
                                    reason="TLS_NOT_SPOKEN")
        reply = b""
    if reply[:1] == b"\0" and reply[3:4] == b"\4":  # a frame's length and type: settings, which come first
        return too_slow
    if not address.startswith("unix:") and _asks_for_tls(address):
        return UnavailableError(f"{address} expects TLS; give the CA of its certificate (tls_ca, TUNEFARM_TLS_CA), and a "
                                "certificate or a token", reason="TLS_EXPECTED")
    return UnavailableError(f"what listens at {address} is not a tunefarm daemon; correct the address",
                            reason="NOT_A_DAEMON")
