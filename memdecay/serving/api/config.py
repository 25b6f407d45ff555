"""The settings of the HTTP server."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from memdecay.classifier.errors import ConfigError

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")
"""The hosts that a server without keys answers to."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What the server takes in, and how long it waits.

    Attributes:
        max_body_bytes: Largest body of a request.
        max_requests: Most requests that may wait or run at one time, of all tenants together.
        max_tenant_requests: The same for each tenant; None for no limit but the one for all.
        body_timeout_s: Seconds within which a request's body must have come.
        send_timeout_s: Seconds after which a client that does not read is given up.
        ping_s: Seconds without news after which a stream carries a comment, so that nobody on the
            way takes it for dead.
        shutdown_timeout_s: Seconds that running requests have to end once the server is to stop.
        compress_tools: Characters above which a tool's result is compressed before the model
            reads it; None never compresses.
        aliases: Names that clients may use for the model beside its own.
    """

    max_body_bytes: int = 8 * 1024 * 1024
    max_requests: int = 64
    max_tenant_requests: int | None = None
    body_timeout_s: float = 30.0
    send_timeout_s: float = 30.0
    ping_s: float = 10.0
    shutdown_timeout_s: float = 30.0
    compress_tools: int | None = None
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ValueError: A value is out of its range.
        """
        for name in ("max_body_bytes", "max_requests", "max_tenant_requests", "compress_tools"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")
        for name in ("body_timeout_s", "send_timeout_s", "ping_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.shutdown_timeout_s < 0:
            raise ValueError(f"shutdown_timeout_s must be 0 or more, got {self.shutdown_timeout_s}")


def check_host(host: str, *, has_keys: bool) -> None:
    """Refuse to serve a network without keys.

    Args:
        host: The address to listen on.
        has_keys: Whether clients must give an API key.

    Raises:
        ConfigError: The address can be reached from other machines and there are no keys.
    """
    if not has_keys and not _is_loopback(host):
        raise ConfigError(
            f"--host {host} lets other machines in, but there are no API keys; give --api-keys "
            "FILE (see --new-key) or stay on 127.0.0.1"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
