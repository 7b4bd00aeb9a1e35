"""What is written in the audit of a run as a whole, and said of it: how it begins, how it is held, how it ends."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from mcpwrap import __version__
from mcpwrap.audit.reader import previous_run, previous_version
from mcpwrap.audit.redact import mask_command
from mcpwrap.audit.wider import rules_of, wider
from mcpwrap.errors import Error
from mcpwrap.grant.render import printable
from mcpwrap.sandbox.tiers import said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.audit.writer import AuditWriter
    from mcpwrap.prepare import Prepared
    from mcpwrap.relay.status import Told
    from mcpwrap.relay.stderr import ErrorOutput

WIDER_SHOWN: Final = 10
"""Rules named in the line that says what is wider than in the last run."""


class Account:
    """The account of one run; `tier` is how its server is held, `why` why not at the best."""

    def __init__(
        self, prepared: Prepared, audit: AuditWriter, output: ErrorOutput, tier: str, why: str
    ) -> None:
        self._prepared = prepared
        self._audit = audit
        self._output = output
        self._tier = tier
        self._why = why
        self._began = time.monotonic()
        self._version = ""

    def begin(self) -> None:
        """Write the head to the disk, and say what the user should know. Raises Error if it cannot be written."""
        prepared = self._prepared
        for line in prepared.warnings:
            self._output.say(line)
        if prepared.withheld:
            count = len(prepared.withheld)
            self._output.say(
                f"{count} variable{'s' if count > 1 else ''} withheld from the server "
                "(`mcpwrap show` lists them; --env NAME passes one)"
            )
        self._audit.head(self._head())
        try:
            self._audit.flush()
        except OSError as error:
            raise Error(
                f"the audit cannot be written: {error.strerror}", f"make room for {self._audit.path}"
            ) from None
        self._audit.start_syncing()
        self._say_wider()
        if prepared.installation.package is not None:
            self._version = previous_version(prepared.places.audit, self._audit.path)
        self._audit.prune()

    def started(self, told: Told) -> None:
        """Write down what holds the server, and say what is weaker than it might be."""
        self._audit.write(
            {
                "kind": "protections",
                "tier": self._tier,
                "why": self._why,
                "server": told.pid,
                "protections": dict(told.protections),
            }
        )
        degraded = [f"{name}: {state}" for name, state in told.protections.items() if state != "active"]
        if self._tier != "B":
            self._output.say(f"{said(self._tier)}; because {self._why}")
        elif degraded:
            self._output.say(f"held at tier B; {'; '.join(degraded)}")

    def settled(self) -> None:
        """Write down which version of a package runs, and say so if it is another one than in the last run."""
        package = self._prepared.installation.package
        if package is None:
            return
        from mcpwrap.packages.cached import installed_version

        version = installed_version(package, self._prepared.places.cache)
        if not version:
            return
        record: dict[str, object] = {"kind": "package", "package": package.name, "version": version}
        if self._version not in ("", version):
            record["was"] = self._version
            self._output.say(
                f"{package.name} is version {version} now; in the last run it was {self._version}"
            )
        self._audit.write(record)

    def _head(self) -> dict[str, object]:
        prepared = self._prepared
        return {
            "kind": "run",
            "mcpwrap": __version__,
            "pid": os.getpid(),
            "name": prepared.name,
            "command": list(mask_command(prepared.command)),
            "program": prepared.installation.program,
            "cwd": prepared.facts.cwd,
            "grant": prepared.grant_file,
            "looked_for": prepared.grant_path,
            "keeps": prepared.keeps,
            "digest": prepared.grant.digest,
            "overlap": prepared.policy.overlap,
            "rules": rules_of(prepared.grant),
            "environment": sorted(prepared.environment),
            "withheld": list(prepared.withheld),
        }

    def _say_wider(self) -> None:
        last = previous_run(self._prepared.places.audit, self._audit.path)
        # The very first grant is wider than none, and new to nobody.
        added = wider(last, rules_of(self._prepared.grant)) if last and last.get("grant") else []
        if added:
            more = f" and {len(added) - WIDER_SHOWN} more" if len(added) > WIDER_SHOWN else ""
            self._output.say(
                "the grant is wider than in the last run (if you did not edit it, look): "
                f"{'; '.join(map(printable, added[:WIDER_SHOWN]))}{more}"
            )

    def end(
        self, status: int, reason: str, not_written: Mapping[str, int], *, failed: Mapping[str, object] | None
    ) -> None:
        """Write down how it ended, and close the audit. `failed`: of an error before the start."""
        record: dict[str, object] = {
            "kind": "exit",
            "status": status,
            "reason": failed["what"] if failed is not None else reason,
            "seconds": round(time.monotonic() - self._began, 1),
        }
        if not_written:
            record["not_written"] = not_written
        if status and (tail := self._output.tail.lines()):
            record["stderr"] = tail
        if self._output.dropped:
            record["stderr_dropped"] = self._output.dropped
        self._audit.write(record)
        self._audit.close()
        self._output.finish()
