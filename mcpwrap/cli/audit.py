"""`mcpwrap audit`: what happened in the last run, for people or as it was written."""

from __future__ import annotations

import os
import sys

from mcpwrap.audit.fields import is_whole
from mcpwrap.audit.reader import audit_root, last_run, names, records
from mcpwrap.audit.text import render
from mcpwrap.cli.arguments import UsageError
from mcpwrap.errors import Error
from mcpwrap.grant.lookup import instance_name

USAGE = """\
usage: mcpwrap audit [--name NAME] [--last] [--json] [--list]

Prints the last run: each call, what it did, what it was refused and the line that would allow it.
  --name NAME   of this server (default: of whichever ran last)
  --last        only the last call that was refused something
  --json        the records as they were written, one JSON object a line
  --list        the names of the servers that have an audit
"""


def run(argv: list[str]) -> int:
    """Print the audit `argv` asks for; return 0, or 1 if there is none."""
    name, flags = _read(argv)
    if "--help" in flags or "-h" in flags:
        print(USAGE, end="")
        return 0
    home = os.environ.get("HOME") or os.path.expanduser("~")
    root = audit_root(os.environ, home)
    if "--list" in flags:
        print("".join(f"{each}\n" for each in names(root)), end="")
        return 0
    chosen = [instance_name(name)] if name is not None else names(root)
    files = last_run([os.path.join(root, each) for each in chosen])
    if not files:
        print(f"mcpwrap: no audit {f'of {name}' if name is not None else 'yet'} in {root}", file=sys.stderr)
        return 1
    try:
        found = [record for file in files for record in records(file)]
    except OSError as error:
        raise Error(f"the audit in {root} cannot be read: {error.strerror}") from None
    if "--last" in flags:
        last = _last_refused(found)
        if not last:
            print("no call was refused anything in the last run")
            if outside := _refused_outside(found):
                print(f"outside of calls {outside} operations were: `mcpwrap audit` prints them")
            return 0
        found = last
    if "--json" in flags:
        import json

        sys.stdout.write("".join(json.dumps(record) + "\n" for record in found))
    else:
        text = "\n".join(render(found, files[-1].path)) + "\n"
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    return 0


def _read(argv: list[str]) -> tuple[str | None, set[str]]:
    known = ("--help", "-h", "--last", "--json", "--list")
    name = None
    flags: set[str] = set()
    left = iter(argv)
    for word in left:
        key, equals, value = word.partition("=")
        if key == "--name":
            name = value if equals else next(left, None)
            if not name:
                raise UsageError("--name needs a value")
        elif word in known:
            flags.add(word)
        else:
            raise UsageError(f"`mcpwrap audit` does not know {word!a}", USAGE)
    return name, flags


def _refused_outside(found: list[dict[str, object]]) -> int:
    """Return how many operations were refused while no call was open, as they are while a server starts."""
    operations = (record for record in found if record.get("kind") == "operation" and is_whole(record))
    return sum(not (each["allowed"] or each.get("quiet") or each["windows"]) for each in operations)


def _last_refused(found: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the records of the run itself and of the last call that was refused something, none if none was."""
    refused = [
        record
        for record in found
        if (record.get("kind") == "refused" or (record.get("kind") == "closed" and record.get("denials")))
        and is_whole(record)
    ]
    if not refused:
        return []
    last = refused[-1]
    kept = ("run", "protections", "exit")
    if last["kind"] == "refused":  # It was not started, and has no window.
        return [record for record in found if record.get("kind") in kept or record is last]
    window = last["window"]

    def belongs(record: dict[str, object]) -> bool:
        windows = record.get("windows")
        return record.get("window") == window or (isinstance(windows, list) and window in windows)

    return [record for record in found if record.get("kind") in kept or belongs(record)]
