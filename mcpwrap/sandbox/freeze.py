"""The end of writing to `$CACHE`: the mount of it turns read-only while the server runs.

Done by pid 1, the only process of the sandbox that is still able to: it keeps CAP_SYS_ADMIN for this one
call, which a Landlocked process (the stem, the server) could not make with it either. Nobody but the relay
can ask for it, and asking is all that can be said: pid 1 reads one byte from a pipe whose only writer is the
relay. It is not dumpable, so no process of the same user can read or trace it, and signals from inside its
pid namespace that it does not handle, SIGKILL too, never reach it.
"""

from __future__ import annotations

import errno
import os

from mcpwrap.kernel import mounts as kernel
from mcpwrap.kernel import process
from mcpwrap.sandbox import report


class Freezer:
    """One mount that can be made read-only, once.

    `asked` is the pipe from the relay, on which any byte asks for it; `mount` an O_PATH fd.
    """

    def __init__(self, mount: int, asked: int) -> None:
        self.asked = asked
        self._mount = mount

    def answer(self, status: int) -> bool:
        """Take one request, do it, tell the relay; return whether that was the last one.

        The kernel refuses with EBUSY while any file of the mount is open for writing or mapped so: what
        could be written later would otherwise be executed.
        """
        if not os.read(self.asked, 64):
            return True  # the relay is gone, which the life line says too
        try:
            kernel.mount_setattr("", dirfd=self._mount, set_=kernel.MOUNT_ATTR_RDONLY)
        except OSError as error:
            report.frozen(status, errno.errorcode.get(error.errno or 0, str(error)))
            return False
        process.drop_capabilities()
        report.frozen(status, "")
        return True
