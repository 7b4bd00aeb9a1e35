"""Names looked up on the host, as any of its programs would (getaddrinfo(3): /etc/hosts, nsswitch, DNS).

getaddrinfo blocks, so it runs in a few threads; the loop is woken through a pipe and never waits. The
threads touch nothing but their own job.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from mcpwrap.egress.given import RANK

if TYPE_CHECKING:
    from mcpwrap.egress.given import Pumps
    from mcpwrap.egress.timers import Timers

T = TypeVar("T")

THREADS: Final = 8
"""A dead name server holds each look-up for 10 s or more; so many names then wait, all others behind them."""
WAITING: Final = 256
"""Look-ups that wait for a thread. Beyond, they fail at once."""
SECONDS: Final = 10.0
"""A look-up nobody waits for any longer; resolv.conf(5)'s own patience is 5 s a server."""
ADDRESSES: Final = 16
"""Of one name; the rest is not tried."""
FRESH_SECONDS: Final = 2.0
"""So long an answer serves further connections to the name: programs open several, or one for each request.
Each of them has the addresses judged anew. Below any time to live that is meant to be kept."""
FRESH_NAMES: Final = 64
"""Answers kept; with more, all are asked for again."""

_READABLE: Final = 1


class Job(Generic[T]):
    """A piece of work for a thread. `done` gets its result, or the `OSError` that it came to."""

    __slots__ = ("done", "work")

    def __init__(self, work: Callable[[], T], done: Callable[[T | OSError], None]) -> None:
        self.work = work
        self.done: Callable[[T | OSError], None] | None = done

    def cancel(self) -> None:
        """Have nobody called; a thread that is in it is left to end it."""
        self.done = None


class Resolver:
    """`resolve` and `run` return at once; what comes of `run` is told from the poll loop."""

    def __init__(self, pumps: Pumps, timers: Timers, clock: Callable[[], float]) -> None:
        self._pumps = pumps
        self._timers = timers
        self._clock = clock
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._results: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._waiting = 0
        self._fresh: dict[str, tuple[float, list[str]]] = {}
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        pumps.add(self._wake, _READABLE, self._on_wake, rank=RANK)

    def resolve(self, name: str, done: Callable[[list[str] | OSError], None]) -> Job[list[str]]:
        """Have `done` called with the addresses of `name`, in the host's order, or the error; perhaps at once."""
        until, known = self._fresh.get(name, (0.0, []))
        if self._clock() < until:
            done(list(known))
            return Job(list, done)

        def found(result: list[str] | OSError) -> None:
            if not isinstance(result, OSError):
                if len(self._fresh) >= FRESH_NAMES:
                    self._fresh.clear()
                self._fresh[name] = self._clock() + FRESH_SECONDS, list(result)
            done(result)

        return self.run(lambda: addresses_of(name), found)

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], None]) -> Job[T]:
        """Have `work` done in a thread, and `done` called in the loop with what it returned or raised.

        After `SECONDS` at the latest, with `TimeoutError` if it takes longer.
        """
        job = Job(work, done)

        def finish(result: T | OSError) -> None:
            timer.cancel()
            told, job.done = job.done, None
            if told is not None:
                told(result)

        def perform() -> None:
            try:
                result: T | OSError = work() if job.done is not None else OSError()
            except OSError as error:
                result = error
            except Exception as fault:  # A name no codec takes, and the like: an error of this job alone.
                result = OSError(str(fault))
            self._results.append(lambda: self._finished(finish, result))
            try:
                os.write(self._waker, b".")
            except OSError:
                pass  # Full: it will wake anyway. Closed: nobody is there to be told.

        timer = self._timers.at(
            self._clock() + SECONDS, lambda: finish(TimeoutError("no answer from the host's name service"))
        )
        if self._waiting >= WAITING:
            self._results.append(lambda: finish(OSError("too many look-ups at once")))
            os.write(self._waker, b".")
            return job
        self._waiting += 1
        self._jobs.put(perform)
        if self._threads < min(THREADS, self._waiting):
            self._threads += 1
            threading.Thread(target=self._serve, daemon=True, name="mcpwrap-names").start()
        return job

    def close(self) -> None:
        """Stop telling. Threads end with the process, or when they next look for work."""
        self._pumps.drop(self._wake)
        for _ in range(self._threads):
            self._jobs.put(None)
        os.close(self._wake)
        # The write end stays: a thread may be about to write to it, and its number must not be another's by then.

    def _serve(self) -> None:
        while (perform := self._jobs.get()) is not None:
            perform()

    def _finished(self, finish: Callable[[T | OSError], None], result: T | OSError) -> None:
        self._waiting -= 1
        finish(result)

    def _on_wake(self, _events: int) -> None:
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            pass
        while self._results:
            self._results.popleft()()


def addresses_of(name: str) -> list[str]:
    """Return the addresses of a name as text, each once; blocks. Raises `OSError`.

    One with a scope (`fe80::1%eth0`) is left out: it is of one link and never public.
    """
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    texts = (str(each[4][0]) for each in found)
    return list(dict.fromkeys(text for text in texts if "%" not in text))[:ADDRESSES]
