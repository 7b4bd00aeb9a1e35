"""What the stem tells the relay: one JSON object a line on the status pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from mcpwrap.errors import EXIT_FAILED, Error, Lacking


def started(fd: int, pid: int, protections: Mapping[str, str]) -> None:
    """The server is confined and about to be executed."""
    _tell(fd, {"started": {"pid": pid, "protections": dict(protections)}})


def failed(fd: int, error: BaseException) -> None:
    """Nothing was executed."""
    _tell(fd, {"failed": _error(error)})


def ended(fd: int, reason: str) -> None:
    """The stem itself ended the tree."""
    _tell(fd, {"ended": {"reason": reason}})


def frozen(fd: int, error: str) -> None:
    """`$CACHE` is read-only from now on; or it could not be made so, for the reason named by an errno."""
    _tell(fd, {"frozen": {"error": error}})


def exited(fd: int, wait_status: int) -> None:
    """The server is gone; the last line. A signal N is told as 128+N."""
    code = os.waitstatus_to_exitcode(wait_status)
    _tell(fd, {"exit": {"status": code if code >= 0 else 128 - code}})


def encode(error: BaseException) -> bytes:
    """Return `error` as bytes for a pipe between processes of the sandbox."""
    return json.dumps(_error(error)).encode()


def decode(data: bytes) -> Error:
    """Return the error `encode` was given."""
    told = json.loads(data)
    what, way_out, layer = told["what"], told["way_out"], told.get("lacking", "")
    error = Lacking(layer, what, way_out) if layer else Error(what, way_out)
    error.exit_status = told["exit_status"]
    return error


def lacking(line: bytes) -> Lacking | None:
    """Return what a line on the status pipe says is lacking here, None if it says something else."""
    told = json.loads(line).get("failed", {})
    return Lacking(told["lacking"], told["what"], told["way_out"]) if told.get("lacking") else None


def _error(error: BaseException) -> dict[str, object]:
    if isinstance(error, Error):
        told = {"what": error.what, "way_out": error.way_out, "exit_status": error.exit_status}
        return told | {"lacking": error.layer} if isinstance(error, Lacking) else told
    what = f"a fault while the sandbox was made: {type(error).__name__}: {error}"
    return {"what": what, "way_out": "", "exit_status": EXIT_FAILED}


def _tell(fd: int, message: object) -> None:
    try:
        os.write(fd, json.dumps(message).encode() + b"\n")
    except BrokenPipeError:
        pass  # the relay is gone; the life pipe says so too
