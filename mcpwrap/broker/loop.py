"""The broker's loop: takes each trapped call, finds its handler, answers it.

Runs in the stem, whose root is the server's view and whose Landlock domain is the floor: whatever
a handler opens or changes is bounded by both, whatever it decided.
"""

from __future__ import annotations

import errno
import os
import select
from typing import TYPE_CHECKING

from mcpwrap.broker.address import LOOPBACK, Internet
from mcpwrap.broker.calls import ASKS, DIRECT, EXECS, OPENS, SOCKETS, VALUES
from mcpwrap.broker.exec import Executions, WrongImage
from mcpwrap.broker.foreign import PROCESSES
from mcpwrap.broker.listener import Listener
from mcpwrap.broker.place import OWN, Place
from mcpwrap.broker.request import Caller
from mcpwrap.broker.session import Session, enter_descriptors
from mcpwrap.broker.stub import Stub
from mcpwrap.broker.terrain import Host, View
from mcpwrap.broker.verdict import RelayGone, Verdicts
from mcpwrap.broker.watches import Watches
from mcpwrap.broker.zone import Zone

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from mcpwrap.broker.inner import Inner
    from mcpwrap.kernel import seccomp
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.page import PageReader

REAP_INTERVAL_MS = 250
"""How often parked calls whose caller died are looked for, when nothing else happens."""


class Ended(Exception):
    """The tree must end now; the message says why."""


def serve(
    listener: int,
    *,
    policy: Policy,
    page: PageReader,
    activity: memoryview,
    records: int,
    life: int,
    server_pidfd: int,
    host_proc: int,
    host_root: int,
    names: tuple[int, int],
    channel: int,
    keeper: int,
    copies: bool,
    stub_port: int,
) -> None:
    """Answer the server's trapped calls until it has ended.

    `activity` is a counter of 8 bytes shared with the relay. `keeper` is the process whose descendants are the
    server's tree, 0 where that is a pid namespace. `copies`: descriptors can be copied out of the server.
    `names`: the name service's sockets, of datagrams (-1 for none) and one that listens; `stub_port` is its port
    where the server has no network of its own. `channel` leads to the relay, if the grant has a rule of hosts or
    ports, else -1. Raises Ended when the tree must be killed: the relay
    is gone (EOF on `life`), or an execution became another one.
    """
    enter_descriptors(host_proc)
    os.umask(0)
    ends = Listener(listener)
    verdicts = Verdicts(policy, page, records)
    terrain: Host | View
    if keeper:
        terrain, place = Host(policy.facts, keeper), Place(False, Internet(LOOPBACK, stub_port))
    else:
        terrain, place = View(host_proc, verdicts.effective.owns), OWN
    poll = select.poll()
    watches = Watches(poll)
    out = None
    if channel >= 0:
        from mcpwrap.broker.network import Network

        out = Network(channel, watches, policy, verdicts)
    stub = Stub(watches, out.zone if out else Zone(verdicts, policy.answers), *names)
    session = Session(
        ends, verdicts, terrain, host_proc, host_root, policy.facts, place, stub, out, copies=copies
    )
    dispatch = Dispatch(session, activity.cast("Q"), nested=policy.grant.nested_sandbox and not keeper)
    for fd in (listener, life, server_pidfd):
        poll.register(fd, select.POLLIN)
    while True:
        events = poll.poll(REAP_INTERVAL_MS)
        if not events:
            ends.reap()
        watches.tick()
        for fd, state in events:
            if fd == listener:
                if state & select.POLLIN:
                    notification = ends.receive()
                    if notification is not None:
                        dispatch.answer(notification)
                else:
                    poll.unregister(listener)  # the last task under the filter is gone
            elif fd == life:
                raise Ended("mcpwrap is gone")
            elif fd == server_pidfd:
                return
            else:
                try:
                    watches.call(fd, state)
                except RelayGone as gone:
                    raise Ended("mcpwrap is gone") from gone


class Dispatch:
    """One trapped call in, exactly one answer out."""

    def __init__(self, session: Session, activity: memoryview, *, nested: bool) -> None:
        self._session = session
        self._activity = activity
        self._executions = Executions(session)
        self._inner: Mapping[int, Callable[[Inner, Caller, tuple[int, ...], Container[int]], None]] = {}
        if nested:
            from mcpwrap.broker.inner import INNER, Inner

            session.inner = Inner(session)
            self._inner = INNER

    def answer(self, notification: seccomp.Notification) -> None:
        """Answer one call. Raises Ended for a wrong image, and when the relay is gone."""
        ends = self._session.listener
        caller = Caller(notification.pid, self._session.host_proc)
        if notification.pid in self._executions.pending:
            try:
                self._executions.verify(caller)
            except WrongImage as wrong:
                raise Ended(str(wrong)) from wrong
        number, args, ident = notification.nr, notification.args, notification.id
        if number in DIRECT:
            return ends.proceed(ident)
        self._activity[0] += 1
        self._session.current = ident
        self._session.verdicts.refresh()
        try:
            if number in OPENS:
                return OPENS[number](self._session, ident, caller, args)
            if number in VALUES:
                return ends.answer(ident, VALUES[number](self._session, caller, args))
            if number in SOCKETS:
                return SOCKETS[number](self._session, ident, caller, args)
            if number in PROCESSES:
                PROCESSES[number](self._session, args)
                return ends.proceed(ident)
            if number in ASKS:
                ASKS[number](self._session, caller, args)
                return ends.proceed(ident)
            if number in EXECS:
                self._executions.allow(caller, *EXECS[number](caller, args))
                return ends.proceed(ident)
            if number in self._inner and self._session.inner is not None:
                self._inner[number](self._session.inner, caller, args, self._executions.pending)
                return ends.proceed(ident)
            return ends.refuse(ident, errno.ENOSYS)
        except RelayGone as gone:
            raise Ended("mcpwrap is gone") from gone
        except OSError as error:
            return ends.refuse(ident, error.errno or errno.EIO)
        except (ValueError, OverflowError):
            return ends.refuse(ident, errno.EINVAL)  # a number or name Python has no call for
