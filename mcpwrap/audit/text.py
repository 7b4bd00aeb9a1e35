"""A run's audit for people: what ran, under what, each call with what it did and what it was refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from mcpwrap.audit.fields import is_whole
from mcpwrap.grant.offer import additions, first_file, indented
from mcpwrap.limits import NAME_SHOWN

ALLOWED_SHOWN: Final = 6
"""Allowed operations shown of one call; the file has them all."""
REFUSED_SHOWN: Final = 50
"""Refusals shown of one call."""
OUTSIDE_SHOWN: Final = 20
"""Operations outside any call that are shown."""
TAIL_SHOWN: Final = 8
PASTED: Final = "      "
"""Before each line that is meant to be pasted."""

Fields = Mapping[str, Any]


def render(records: Iterable[Mapping[str, object]], path: str) -> list[str]:
    """Return the lines of one run; `path` is its audit file."""
    story = _Story()
    damaged = 0
    for record in records:
        if is_whole(record):
            story.take(cast("Fields", record))
        else:
            damaged += 1
    lines = story.lines(path)
    if damaged:
        lines += ["", f"{damaged} damaged records are left out; --json prints what is left of them"]
    return lines


class _Story:
    def __init__(self) -> None:
        self.run: Fields = {}
        self.began = ""
        self.protections: Fields = {}
        self.package: Fields = {}
        self.exit: Fields | None = None
        self.calls: dict[str, dict[str, Any]] = {}
        self.outside: list[Fields] = []
        self.streams: list[Fields] = []
        self.notes: list[Fields] = []
        self.tools: dict[str, str] = {}
        self.held: list[Fields] = []

    def take(self, record: Fields) -> None:
        match record.get("kind"):
            case "run":
                self.began = self.began or str(record["at"])
                self.run = self.run or record
            case "protections":
                self.protections = record
            case "package":
                self.package = record
            case "opened":
                self.calls[str(record["window"])] = {"opened": record, "operations": [], "closed": None}
            case "closed":
                call = self.calls.setdefault(
                    str(record["window"]), {"opened": record, "operations": [], "closed": None}
                )
                call["closed"] = record
            case "operation":
                ids = [id for id in record["windows"] if id in self.calls]
                for id in ids:
                    self.calls[id]["operations"].append(record)
                if not ids:
                    self.outside.append(record)
            case "stream":
                ids = [id for id in record["windows"] if id in self.calls]
                for each in [self.calls[id].setdefault("streams", []) for id in ids] or [self.streams]:
                    each.append(record)
            case "withdrawn":
                self.calls.get(str(record["window"]), {})["withdrawn"] = record
            case "refused":
                self.calls[f"refused {len(self.calls)}"] = {"refused": record, "closed": None}
            case "manifest":
                self.tools |= record["tools"]
                self.held += record.get("held", [])
            case "note":
                self.notes.append(record)
            case "exit":
                self.exit = record

    def lines(self, path: str) -> list[str]:
        lines = self._head(path)
        if self.outside or self.streams:
            lines += ["", "outside of calls (start-up, between calls)"]
            lines += _operations(self.outside, OUTSIDE_SHOWN)
            lines += _streams(self.streams, OUTSIDE_SHOWN)
        for call in self.calls.values():
            lines += ["", *(_call(call) if "opened" in call else _refused(call["refused"]))]
            lines += self._way_out(call)
        if self.notes:
            lines += ["", "notes"]
            lines += [
                f"  {_clock(note)}  {note.get('note')}: {_plain(note.get('text', ''))}" for note in self.notes
            ]
        lines += _tools(self.tools, self.held)
        if self.exit is not None and self.exit.get("stderr"):
            lines += ["", "the last of its stderr"]
            lines += [f"  | {_plain(line)}" for line in self.exit["stderr"][-TAIL_SHOWN:]]
        return lines

    def _head(self, path: str) -> list[str]:
        run = self.run
        began = self.began.replace("T", " ").partition(".")[0]
        lines = [f"{_plain(run.get('name', '?'))}  {began} UTC  {self._end()}"]
        lines.append(f"  command   {_plain(' '.join(run.get('command', [])))}")
        if self.package:
            was = f" (was {self.package['was']})" if self.package.get("was") else ""
            lines.append(f"  version   {_plain(self.package['version'] + was)}")
        lines.append(f"  grant     {_plain(run.get('grant') or 'none: calls could write nothing of yours')}")
        lines.append(f"  audit     {_plain(path)}")
        if run.get("withheld"):
            lines.append(f"  withheld  {_plain(', '.join(run['withheld']))}")
        states = self.protections.get("protections", {})
        if states:
            active = [name for name, state in states.items() if state == "active"]
            lines.append(f"  tier {self.protections.get('tier', '?')}    {', '.join(active)}: active")
            lines += [f"            {name}: {state}" for name, state in states.items() if state != "active"]
        return lines

    def _way_out(self, call: Mapping[str, Any]) -> list[str]:
        """Return what would allow what was refused in `call`, to be pasted."""
        denials = (call["closed"] or {}).get("denials", [])[:REFUSED_SHOWN]
        offers = [(each["offer"], each.get("place", "")) for each in denials if each["offer"]]
        if not offers:
            return []
        path = self.run.get("grant")
        if not path and "keeps" in self.run:
            lines = [
                f"  to allow it write {_plain(self.run.get('looked_for', ''))}, the first grant of this server:"
            ]
            lines += indented(first_file(self.run["keeps"], (offer for offer, _ in offers)), PASTED)
        else:
            lines = []
            for place, text in additions(offers):
                lines.append(
                    f"  to allow it add to {f'{place} of ' if place else ''}{path or 'the grant file'}:"
                )
                lines += indented(text, PASTED)
        return list(map(_plain, lines))

    def _end(self) -> str:
        if self.exit is None:
            return "still running, or killed"
        return f"{self.exit['seconds']} s, exit {self.exit['status']} ({_plain(self.exit['reason'])})"


def _call(call: Mapping[str, Any]) -> list[str]:
    opened, closed = call["opened"], call["closed"]
    end = f"{closed['ms']} ms, {closed['how']}" if closed else "no answer"
    if opened.get("union"):
        end += f"; together with other tools: {_plain(opened['union'])}"
    lines = [f"{_clock(opened)}  {_plain(opened['tool'])}  {end}"]
    if call.get("withdrawn"):
        lines.append(
            f"  its grant was withdrawn at {_clock(call['withdrawn'])}: it has had its time (window_limit)"
        )
    lines += [
        f"  may {bound['need']:4} {_plain(bound['path'])}  ({bound['rule']})"
        for bound in opened.get("bound", [])
    ]
    lines += _operations([each for each in call["operations"] if each["allowed"]], ALLOWED_SHOWN)
    lines += _streams(call.get("streams", []), ALLOWED_SHOWN)
    refused = [each for each in call["operations"] if not each["allowed"]]
    told = closed.get("denials", []) if closed else []
    # A denial is what was told of refused operations; those it does not cover were quiet, or came late.
    covered = {(denial["act"], denial["object"]) for denial in told}
    lines += _operations(
        [each for each in refused if (each["act"], each["object"]) not in covered], REFUSED_SHOWN
    )
    for denial in told[:REFUSED_SHOWN]:
        times = f", {denial['count']} times" if denial["count"] > 1 else ""
        lines.append(f"  REFUSED   {denial['act']} {_plain(denial['object'])}  ({denial['rule']}){times}")
    if len(told) > REFUSED_SHOWN:
        lines.append(f"  … {len(told) - REFUSED_SHOWN} more refusals")
    for name, count in (closed or {}).get("not_written", {}).items():
        lines.append(f"  … and {count} times {name}")
    return lines


def _refused(record: Fields) -> list[str]:
    tool, why = _plain(record["tool"][:NAME_SHOWN]), _plain(record["why"])
    return [f"{_clock(record)}  {tool}  not started", f"  REFUSED   {why}  ({_plain(record['rule'])})"]


def _tools(tools: Mapping[str, str], held: list[Fields]) -> list[str]:
    """Return the tools the server listed, each with the digest that `pin` takes."""
    if not tools and not held:
        return []
    lines = ["", 'tools as listed; `pin = "sha256:…"` in the table of a tool keeps it to what it is now']
    for tool, digest in tools.items():
        lines.append(f"  {_plain(tool[:NAME_SHOWN])}  {_plain(digest)}")
    for change in held:
        what = "is not what is pinned" if change["pinned"] else f"changed ({', '.join(change['changed'])})"
        digests = f"{change['was']}, then {change['now']}"
        lines.append(f"  HELD      {_plain(f'''{change['tool'][:NAME_SHOWN]} {what}: {digests}''')}")
    return lines


def _operations(operations: list[Fields], most: int) -> list[str]:
    counted: dict[tuple[str, ...], int] = {}
    for each in operations:
        verdict = f"{each['act']:8}" if each["allowed"] else f"REFUSED   {each['act']}"
        shared = "  (one of several calls)" if len(each["windows"]) > 1 else ""
        key = (verdict, _plain(each["object"]), each["rule"], "  quiet" if each.get("quiet") else "", shared)
        counted[key] = counted.get(key, 0) + 1
    lines = [
        f"  {verdict} {object}  ({rule}){f', {count} times' if count > 1 else ''}{quiet}{shared}"
        for (verdict, object, rule, quiet, shared), count in list(counted.items())[:most]
    ]
    if len(counted) > most:
        lines.append(f"  … {len(counted) - most} more")
    return lines


def _streams(streams: list[Fields], most: int) -> list[str]:
    lines = []
    for each in streams[:most]:
        where = each["address"] + (f" through {each['via']}" if each.get("via") else "")
        bytes_moved = f"{each['sent']} bytes out, {each['received']} in"
        lines.append(f"  through  {_plain(each['host'])} at {_plain(where or '-')}: {bytes_moved}")
    if len(streams) > most:
        lines.append(f"  … {len(streams) - most} more connections")
    return lines


def _clock(record: Fields) -> str:
    return str(record["at"]).partition("T")[2].removesuffix("Z")


def _plain(text: object) -> str:
    """Return `text` without what could move a terminal's cursor: the audit holds names as they are."""
    return "".join(character if character.isprintable() else "�" for character in str(text))
