"""`make demo`: a real server with a published hole, bare and under mcpwrap, in less than a minute.

mcp-server-git 2025.7.1 passes the `target` of git_diff to git unchecked (CVE-2025-68144), so that
`--output=FILE` overwrites FILE. Everything happens in a temporary directory. Each claim printed is
checked first; the first that does not hold ends the demo with status 1. Needs git and the standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import textwrap
import threading
import venv
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".demo"
SERVER = ("mcp-server-git==2025.7.1", "mcp==1.30.0", "GitPython==3.1.44")
GRANT = ROOT / "examples" / "grants" / "mcp-server-git-2025.7.1.toml"
ANSWER_SECONDS = 60
INSTALL_SECONDS = 600
WIDTH = 110
ORDINARY = ("git_status", "git_log", "git_diff_unstaged")
DIARY = "Monday: finished the chapter.\n"


class NotAsClaimed(Exception):
    """Something the demo says did not happen."""


def check(holds: bool, claim: str) -> None:
    """Print a claim that holds; end the demo at one that does not."""
    if not holds:
        raise NotAsClaimed(claim)
    print(f"  ok  {claim}")


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def quoted(text: str, work: Work) -> None:
    """Print a text of the server or of mcpwrap, indented, wrapped, and with the temporary directory shortened."""
    for line in text.replace(str(work.base), "$WORK").strip().splitlines():
        print(
            textwrap.fill(
                line,
                WIDTH,
                initial_indent="      | ",
                subsequent_indent="      |   ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def install(name: str, *requirements: str) -> Path:
    """Return the `bin` of the virtual environment `.demo/NAME`, made anew if its requirements changed."""
    root = PLACE / name
    stamp = root / "installed"
    wanted = hashlib.sha256("\0".join([sys.version, *requirements]).encode()).hexdigest()
    wanted += hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"  installing {' '.join(requirements)} into {root.relative_to(ROOT)} (once)")
        venv.create(root, clear=True, with_pip=True)
        pip = [str(root / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements], check=True, timeout=INSTALL_SECONDS, cwd=ROOT)
        stamp.write_text(wanted)
    return root / "bin"


class Client:
    """A client of one stdio MCP server: one call at a time, every wait bounded."""

    def __init__(self, command: list[str], work: Work) -> None:
        self.stderr = work.base / "stderr.txt"
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=work.environ,
                cwd=work.projects,
            )
        self.lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.last = 0
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "demo", "version": "1"},
        }
        self.ask("initialize", about)
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: str) -> str:
        """Return the text of a tool's result."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        return "\n".join(block.get("text", "") for block in result["content"])

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self.last += 1
        self._send({"id": self.last, "method": method, "params": params})
        while True:
            try:
                line = self.lines.get(timeout=ANSWER_SECONDS)
            except queue.Empty:
                line = b""
            if not line:
                raise NotAsClaimed(f"{method} was not answered; the server said:\n{self.said()}")
            answer = json.loads(line)
            if answer.get("id") == self.last and "method" not in answer:
                result = answer.get("result")
                if not isinstance(result, dict):
                    raise NotAsClaimed(f"{method} failed: {answer}")
                return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """End the server as clients do: end of input, then wait."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise NotAsClaimed("the server did not end at end of input") from None

    def said(self) -> str:
        """Return what came on standard error so far."""
        return self.stderr.read_text(errors="replace")

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")


class Work:
    """Projects as a user has them: a repository, and beside it what is another tool's or nobody's business."""

    def __init__(self, base: Path, environ: dict[str, str]) -> None:
        self.base = base
        self.projects = base / "projects"
        self.repository = self.projects / "thesis"
        self.diary = self.projects / "diary.txt"
        self.hook = self.repository / ".git" / "hooks" / "post-commit"
        self.environ = environ
        self.repository.mkdir(parents=True)
        self.diary.write_text(DIARY)
        (self.repository / "chapter.txt").write_text("It was a dark and stormy night.\n")
        self._git("init", "--quiet")
        self._git("add", "chapter.txt")
        self._git("commit", "--quiet", "--message", "First chapter")
        (self.repository / "chapter.txt").write_text("It was a dark and stormy night; the rain fell.\n")

    def _git(self, *arguments: str) -> None:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        # One date, so that both copies have the same history.
        when = {"GIT_AUTHOR_DATE": "@1000000000 +0000", "GIT_COMMITTER_DATE": "@1000000000 +0000"}
        environ = {**self.environ, **when}
        subprocess.run(["git", *who, *arguments], cwd=self.repository, env=environ, check=True, timeout=60)


def diff_into(client: Client, work: Work, file: Path) -> str:
    """Make the call of CVE-2025-68144: a diff whose target is an option of git."""
    return client.call("git_diff", repo_path=str(work.repository), target=f"--output={file}")


def ordinary(client: Client, work: Work) -> list[str]:
    """Return the answers to calls as a model makes them all day."""
    repository = str(work.repository)
    answers = [client.call(tool, repo_path=repository) for tool in ORDINARY]
    return [answer.replace(str(work.base), "") for answer in answers]


def bare(server: str, work: Work) -> list[str]:
    """Show the harm on a throw-away copy; return the answers to ordinary calls."""
    with Client([server], work) as client:
        answers = ordinary(client, work)
        diff_into(client, work, work.diary)
        diff_into(client, work, work.hook)
    check("First chapter" in "".join(answers), f"{', '.join(ORDINARY)} are answered")
    check(work.diary.read_text() != DIARY, "git_diff overwrote diary.txt, beside the repository")
    check(work.hook.exists(), "git_diff wrote .git/hooks/post-commit: it runs at the user's next commit")
    return answers


def wrapped(mcpwrap: str, server: str, grant: Path, work: Work, expected: list[str]) -> None:
    """Make the same calls under mcpwrap, the ordinary ones before and after."""
    with Client([mcpwrap, "--grant", str(grant), "--", server], work) as client:
        check(ordinary(client, work) == expected, f"{', '.join(ORDINARY)}: the same answers")
        for file in (work.diary, work.hook):
            told = diff_into(client, work, file)
            told = told[told.find("[mcpwrap]") :]
            explained = "refused by mcpwrap" in told and str(file) in told
            check(explained, f"git_diff --output={file.name}: refused, and the model is told why:")
            quoted(told, work)
        check(work.diary.read_text() == DIARY, "diary.txt is untouched")
        check(not work.hook.exists(), "there is no hook")
        check(ordinary(client, work) == expected, "the server goes on as if nothing had been")
    check(client.process.returncode == 0, "it ended as it does bare")
    print("\n  What the user sees on standard error:")
    quoted(client.said(), work)


def demo(base: Path) -> None:
    """Run the four parts."""
    title("1. Install mcpwrap, and a git server with a known hole")
    mcpwrap = str(install("mcpwrap", "--editable", ".") / "mcpwrap")
    server = str(install("server", *SERVER) / "mcp-server-git")
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TERM") if name in os.environ}
    places = {f"XDG_{name}_HOME": str(base / name.lower()) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    (base / "home").mkdir()
    environ = {**keep, **places, "HOME": str(base / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    print(f"  mcpwrap and {SERVER[0]} are ready")

    title("2. Bare: the server as every client starts it, on a throw-away copy")
    expected = bare(server, Work(base / "copy", environ))

    title("3. Under mcpwrap: the same server, the same calls")
    work = Work(base / "user", environ)
    grant = base / "grant.toml"
    grant.write_text(GRANT.read_text().replace('["~/work"]', json.dumps([str(work.projects)])))
    grant.chmod(0o600)
    print(f"  mcpwrap --grant {GRANT.relative_to(ROOT)} -- mcp-server-git")
    print(f"  $WORK is {work.base}, and `within` is $WORK/projects\n")
    wrapped(mcpwrap, server, grant, work, expected)

    title("4. The record of that run: mcpwrap audit")
    audit = subprocess.run(
        [mcpwrap, "audit"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    for line in (audit.stdout or audit.stderr).replace(str(work.base), "$WORK").splitlines():
        print(f"      | {line}".rstrip())
    check(audit.returncode == 0, "mcpwrap audit could read it")
    check("git_log" in audit.stdout, "the granted calls are in it")
    check("diary.txt" in audit.stdout and "post-commit" in audit.stdout, "both refusals are in it")


def main() -> int:
    """Return 0 if everything was as claimed."""
    try:
        with tempfile.TemporaryDirectory(prefix="mcpwrap-demo-") as base:
            demo(Path(base).resolve())
    except NotAsClaimed as claim:
        print(f"\n  NOT AS CLAIMED: {claim}", file=sys.stderr)
        return 1
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"\n  The demo could not go on: {problem}", file=sys.stderr)
        return 1
    print("\nAll as claimed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
