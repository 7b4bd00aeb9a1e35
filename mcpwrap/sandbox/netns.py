"""The server's network: a namespace of its own that holds a loopback interface and nothing else."""

from __future__ import annotations

from mcpwrap.kernel.network import bring_loopback_up


def furnish() -> None:
    """Make 127.0.0.1 and ::1 work inside; nothing leads out. Raises OSError."""
    bring_loopback_up()
