"""The decisions themselves, one function for each need, on a well-formed path that no `fs_deny` meets.

Order: the server's own ground; its installation; private places; system files; write-protected
places; then grants. `owner` is the ground's, or "none" where the user's own object is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.policy.ground import Ground
    from mcpwrap.policy.inforce import InForce

NO_PATH: Final = Decision(False, "no-path")
NO_NETWORK: Final = Decision(False, "no-network")
OWN: Final = frozenset(("home", "temporary", "state", "cache", "copy", "device"))

_READS: Final = {name: Decision(True, name, routine=True) for name in OWN}
_UNTOLD: Final = ("device", "cache")
"""A package launcher writes thousands of files to its cache: told one by one they would bury what matters."""
_WRITES: Final = {name: Decision(True, name, routine=name in _UNTOLD) for name in OWN}
_SOCKETS: Final = ("home", "temporary", "state")
_INSTALLATION: Final = Decision(True, "installation", routine=True)
_SYSTEM: Final = Decision(True, "system", routine=True)
_VIEW: Final = Decision(True, "view", routine=True)
_COMMAND: Final = Decision(True, "command")
_LOADER: Final = Decision(False, "loader")
_WRITABLE: Final = Decision(False, "writable")


def read(force: InForce, path: str, ground: Ground, owner: str, *, creating: bool, regular: bool) -> Decision:
    """Decide on reading: a file's content, a directory's names."""
    if owner in OWN:
        return _READS[owner]
    if ground.installation and (ground.private is None or force.startup):
        return _INSTALLATION
    if ground.private and force.withheld(ground.private, path, Need.READ, regular=regular):
        return force.refused(Need.READ, path, ground.private.id)
    if ground.system:
        return _SYSTEM
    rule = force.read_rule(path)
    if rule is None and not regular:
        rule = force.parents.get(path)
    if rule is None and not creating and path in force.born:
        rule = next(iter(force.beside(path).values()), None)
    if rule is not None:
        return Decision(True, rule)
    return _VIEW if owner == "view" else force.refused(Need.READ, path)


def write(
    force: InForce, path: str, ground: Ground, owner: str, *, creating: bool, regular: bool
) -> Decision:
    """Decide on any change of the object or of its name."""
    if owner == "cache" and not force.startup:
        return force.refused(Need.WRITE, path, "cache")
    loaded = force.policy.loaded
    # On the way to what is run a directory may be made; what counts as a file may be a symlink, and lead elsewhere.
    in_call = owner == "home" and not force.startup
    if in_call and (loaded.holds(path) or (regular and loaded.leads(path))):
        return force.refused(Need.WRITE, path, "loaded")
    if owner == "state" and loaded.is_kept(path):
        return force.refused(Need.WRITE, path, "kept-home")
    if owner == "home" and not force.policy.facts.is_dotfile(path):
        # A document made in the private HOME would be where its user never finds it.
        return force.refused(Need.WRITE, path)
    if owner in OWN:
        return _WRITES[owner]
    if ground.private and force.withheld(ground.private, path, Need.WRITE, regular=regular):
        return force.refused(Need.WRITE, path, ground.private.id)
    if ground.protected and force.guarded(ground.protected, path, regular=regular):
        return force.refused(Need.WRITE, path, ground.protected.id)
    rule = force.write_rule(path, regular=regular)
    if rule is None and creating and not regular:
        rule = force.made_parents.get(path)
    if rule is None and regular and (creating or path in force.born):
        rule = next(iter(force.beside(path).values()), None)
    return Decision(True, rule) if rule is not None else force.refused(Need.WRITE, path)


def execute(force: InForce, path: str, ground: Ground) -> Decision:
    """Decide on running a program."""
    grounds, rules = force.policy.grounds, force.rules
    if grounds.is_loader(path):
        return _LOADER
    if grounds.is_command(path):
        return _COMMAND
    if ground.private and force.withheld(ground.private, path, Need.EXEC, regular=True):
        return force.refused(Need.EXEC, path, ground.private.id)
    if rules.any_writable:
        return Decision(True, rules.any_writable)
    rule = exec_rule(force, path)
    if is_writable(ground) and not (rule and is_frozen(force, ground)):
        return force.refused(Need.EXEC, path, _WRITABLE.rule)
    return Decision(True, rule) if rule is not None else force.refused(Need.EXEC, path)


def exec_rule(force: InForce, path: str) -> str | None:
    """Return the rule that grants running the real file `path`, by its name."""
    rules = force.rules
    rule = rules.execs.get(path)
    if rule is None:
        rule = next((each for regex, each in rules.exec_globs if regex.match(path)), None)
    return rule


def interpret(force: InForce, interpreter: str, script: Decision) -> Decision:
    """Decide on the interpreter of an allowed script, by the script's own decision."""
    ground = force.policy.grounds.of(interpreter)
    if not ground.well_formed:
        return NO_PATH
    if force.policy.grounds.is_loader(interpreter):
        return _LOADER
    fixed = not is_writable(ground) or (is_frozen(force, ground) and exec_rule(force, interpreter))
    if not (fixed or force.rules.any_writable):
        return _WRITABLE
    forbidden = force.rules.denied(interpreter) or (ground.private.id if ground.private else None)
    return Decision(False, forbidden) if forbidden else script


def connect(force: InForce, path: str, ground: Ground, owner: str) -> Decision:
    """Decide on a path socket: those on the server's own ground; no noun grants one of the host's yet."""
    if owner in _SOCKETS:
        return _WRITES[owner]
    return force.refused(Need.CONNECT, path, ground.private.id if ground.private else "no-grant")


def is_frozen(force: InForce, ground: Ground) -> bool:
    """Whether a rule that names programs there has them made read-only: `$CACHE`, when start-up ends.

    Until then the package launcher both writes and executes there, which is what start-up is for. Without mounts
    nothing can be frozen, and what was open for writing stays so: then start-up is all there is.
    """
    bare = force.policy.facts.bare and not force.startup
    return ground.owner == "cache" and not ground.writable and not bare


def is_writable(ground: Ground) -> bool:
    return ground.writable or ground.owner in ("home", "temporary", "state", "cache", "copy")
