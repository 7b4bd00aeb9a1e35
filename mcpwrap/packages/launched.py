"""What a run needs besides its grant when a package launcher makes the server. Imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.packages.cached import cached_version
from mcpwrap.packages.registry import registries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.packages.launcher import Package

LOCKS: Final = {"uvx": ("uv/.lock",)}
"""Files of a cache that the launcher keeps open for writing as long as the server runs: uv's own lock, which
says nothing and is never executed. They are left out when the cache is frozen."""

OFFLINE: Final = {"npx": {"npm_config_prefer_offline": "true"}, "uvx": {"UV_OFFLINE": "1"}}
"""What makes a launcher use what is cached without asking. An index that may not be asked (start-up is over for
good when a server is started without a network) would be waited for: 11 s by uvx, 70 s by npx."""


class Launched(NamedTuple):
    """`hosts`: what stands for the variables of profiles. `environment`: what the launcher is told. `apart`:
    as in `sandbox.plan.Wanted`. `notes`: lines for the user. `cached`: the version that is there, or "".
    """

    hosts: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str]
    apart: tuple[str, ...]
    notes: tuple[str, ...]
    cached: str


def launched(
    package: Package,
    program: str,
    cache: str,
    environ: Mapping[str, str],
    home: str,
    given: Mapping[str, str],
) -> Launched:
    """Return it. `environ` is mcpwrap's own environment, `given` what of that the server gets anyhow."""
    found = registries(package, environ, home, program)
    version = cached_version(package, cache)
    told = {**found.environment, **(OFFLINE.get(package.profile, {}) if version else {})}
    return Launched(
        found.hosts,
        {name: value for name, value in told.items() if name not in given},
        LOCKS.get(package.profile, ()),
        found.notes,
        version,
    )
