"""Runs an unmodified MCP server so that every tool call is held to that call's own grant, by the kernel."""

from __future__ import annotations

__version__ = "0.1.0"
