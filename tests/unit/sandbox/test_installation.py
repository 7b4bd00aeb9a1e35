"""From a command to its installation, on trees made for the purpose: no package manager is run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from mcpwrap.errors import CannotConfine, CommandNotFound
from mcpwrap.sandbox import system
from mcpwrap.sandbox.installation import Installation, installation, program_roots

if TYPE_CHECKING:
    from pathlib import Path

NATIVE = b"\x7fELF" + bytes(60)


class Machine:
    """A home, a working directory and a PATH below one temporary directory."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home" / "ada"
        self.cwd = self.home / "work" / "project"
        self.bin = base / "opt" / "tools" / "bin"
        for directory in (self.cwd, self.bin):
            directory.mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "PATH": str(self.bin)}

    def file(self, path: Path, content: bytes | str = "", mode: int = 0o644) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def native(self, path: Path) -> Path:
        return self.file(path, NATIVE, 0o755)

    def script(self, path: Path, interpreter: str, body: str = "") -> Path:
        return self.file(path, f"#!{interpreter}\n{body}", 0o755)

    def link(self, path: Path, target: str | Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    def npm(self, prefix: Path, name: str, command: str) -> Path:
        """Install a package as npm does; return its command in `.bin`."""
        package = prefix / "node_modules" / name
        self.file(package / "package.json", f'{{"name": "{name}"}}')
        self.script(package / "dist" / "index.js", "/usr/bin/env node")
        return self.link(prefix / "node_modules" / ".bin" / command, f"../{name}/dist/index.js")

    def venv(self, root: Path, home: Path) -> Path:
        """Make a virtual environment from the interpreter in `home`; return its `bin`."""
        self.file(root / "pyvenv.cfg", f"home = {home}\n")
        self.link(root / "bin" / "python3", home / "python3")
        (root / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
        return root / "bin"

    def distribution(self, root: Path, name: str, command: str, module: str) -> None:
        info = root / "lib" / "python3.11" / "site-packages" / f"{name.replace('-', '_')}-1.0.dist-info"
        self.file(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        self.file(info / "entry_points.txt", f"[console_scripts]\n{command} = {module}:main\n")
        self.file(info / "RECORD", f"{module}/__init__.py,,\n")

    def look_up(self, *command: str | Path, values: tuple[str, ...] = ()) -> Installation:
        return installation([str(word) for word in command], self.environ, str(self.cwd), values)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def texts(*paths: Path) -> tuple[str, ...]:
    return tuple(map(str, paths))


# Node


def test_an_npm_command_is_followed_to_its_package_and_node(machine: Machine) -> None:
    node = machine.native(machine.bin / "node")
    command = machine.npm(machine.base / "servers", "@scope/files", "mcp-files")
    found = machine.look_up(command, machine.cwd)
    assert found.program == str(command)
    assert found.name == "npm/@scope/files"
    assert found.profiles == ("node",)
    assert set(found.roots) == set(
        texts(machine.base / "servers" / "node_modules", machine.base / "opt" / "tools")
    )
    package = machine.base / "servers" / "node_modules" / "@scope" / "files"
    assert set(found.programs) >= set(texts(package / "dist" / "index.js", node))
    assert any(program.endswith(("/env", "/coreutils", "/busybox")) for program in found.programs)
    assert found.named == (str(machine.cwd),)


def test_a_command_on_path_is_found_like_one_given_by_path(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    command = machine.npm(machine.base / "servers", "files", "mcp-files")
    machine.environ["PATH"] += f":{command.parent}"
    assert machine.look_up("mcp-files") == machine.look_up(command)


def test_a_link_in_a_shared_bin_is_followed_into_the_package_and_no_farther(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    command = machine.npm(machine.home / "apps", "files", "mcp-files")
    link = machine.link(machine.home / ".local" / "bin" / "mcp-files", command)
    found = machine.look_up(link)
    assert found.program == str(command)
    assert str(machine.home / "apps" / "node_modules") in found.roots
    assert not any(root in texts(machine.home, machine.home / ".local" / "bin") for root in found.roots)


def test_nvm_brings_its_version_prefix(machine: Machine) -> None:
    prefix = machine.home / ".nvm" / "versions" / "node" / "v22.1.0"
    machine.native(prefix / "bin" / "node")
    machine.file(prefix / "lib" / "node_modules" / "files" / "package.json", '{"name": "files"}')
    machine.script(prefix / "lib" / "node_modules" / "files" / "cli.js", "/usr/bin/env node")
    machine.link(prefix / "bin" / "mcp-files", "../lib/node_modules/files/cli.js")
    machine.environ["PATH"] = str(prefix / "bin")
    found = machine.look_up("mcp-files")
    assert found.roots == (str(prefix),)
    assert found.name == "npm/files"


def test_a_script_given_to_node_belongs_to_its_package(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    package = machine.home / "src" / "server"
    machine.file(package / "package.json", '{"name": "@scope/files"}')
    machine.file(package / "node_modules" / "dep" / "index.js")
    script = machine.file(package / "dist" / "index.js")
    found = machine.look_up("node", "--require", "./hook.js", script, "/etc/hostname")
    assert str(package) in found.roots
    assert str(script) not in found.programs
    assert found.named == ("/etc/hostname",)


def test_a_checkout_cannot_take_a_registry_name(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    package = machine.home / "src" / "server"
    machine.file(package / "package.json", '{"name": "@modelcontextprotocol/server-filesystem"}')
    script = machine.file(package / "index.js")
    assert machine.look_up("node", script).name.startswith("file/")


def test_a_package_that_is_the_working_directory_gives_its_code_only(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    machine.file(machine.cwd / "package.json", "{}")
    machine.file(machine.cwd / "node_modules" / "dep" / "index.js")
    machine.file(machine.cwd / ".env", "TOKEN=1")
    machine.file(machine.cwd / "dist" / "index.js")
    found = machine.look_up("node", "dist/index.js")
    inside = {root for root in found.roots if root.startswith(str(machine.cwd))}
    assert inside == set(
        texts(machine.cwd / "dist", machine.cwd / "package.json", machine.cwd / "node_modules")
    )


def test_a_package_json_in_home_is_no_package(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    machine.file(machine.home / "package.json", "{}")
    script = machine.file(machine.home / "scripts" / "x.js")
    assert set(machine.look_up("node", script).roots) == set(texts(script.parent, machine.bin.parent))


def test_a_package_cannot_call_itself_like_another_one(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    prefix = machine.base / "servers"
    command = machine.npm(prefix, "evil", "evil")
    machine.file(prefix / "node_modules" / "evil" / "package.json", '{"name": "trusted"}')
    assert machine.look_up(command).name == "npm/evil"
    machine.npm(prefix / "node_modules" / "evil", "trusted", "trusted")
    inner = machine.link(
        prefix / "node_modules" / ".bin" / "inner", "../evil/node_modules/trusted/dist/index.js"
    )
    assert machine.look_up(inner).name == "npm/evil"


def test_a_package_in_the_store_of_pnpm_has_its_name(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    machine.npm(
        machine.base / "servers" / "node_modules" / ".pnpm" / "@scope+files@1.0.0", "@scope/files", "files"
    )
    store = "../.pnpm/@scope+files@1.0.0/node_modules/@scope/files"
    machine.link(machine.base / "servers" / "node_modules" / "@scope" / "files", store)
    command = machine.link(
        machine.base / "servers" / "node_modules" / ".bin" / "files", f"{store}/dist/index.js"
    )
    found = machine.look_up(command)
    assert found.name == "npm/@scope/files"
    assert str(machine.base / "servers" / "node_modules") in found.roots


# Python


def test_a_console_script_brings_its_environment_and_the_prefix_it_was_made_from(machine: Machine) -> None:
    prefix = machine.home / ".pyenv" / "versions" / "3.11.7"
    python = machine.native(prefix / "bin" / "python3.11")
    machine.link(prefix / "bin" / "python3", "python3.11")
    bin_directory = machine.venv(machine.home / "envs" / "git", prefix / "bin")
    command = machine.script(bin_directory / "mcp-server-git", str(bin_directory / "python3"))
    machine.distribution(machine.home / "envs" / "git", "mcp-server-git", "mcp-server-git", "mcp_server_git")
    found = machine.look_up(command, "--repository", machine.cwd)
    assert found.program == str(command)
    assert set(found.roots) == set(texts(machine.home / "envs" / "git", prefix))
    assert found.programs == texts(command, python)
    assert found.profiles == ("python",)
    assert found.name == "pypi/mcp-server-git"
    assert found.named == (str(machine.cwd),)


def test_a_tool_link_leads_into_its_environment(machine: Machine) -> None:
    prefix = machine.home / ".local" / "share" / "uv" / "python" / "cpython-3.11"
    machine.native(prefix / "bin" / "python3")
    root = machine.home / ".local" / "share" / "uv" / "tools" / "mcp-server-git"
    bin_directory = machine.venv(root, prefix / "bin")
    command = machine.script(bin_directory / "mcp-server-git", str(bin_directory / "python3"))
    machine.distribution(root, "MCP.Server_Git", "mcp-server-git", "mcp_server_git")
    link = machine.link(machine.home / ".local" / "bin" / "mcp-server-git", command)
    found = machine.look_up(link)
    assert found.program == str(command)
    assert set(found.roots) == set(texts(root, prefix))
    assert found.name == "pypi/mcp-server-git"


def test_python_of_an_environment_is_run_by_its_own_path(machine: Machine) -> None:
    prefix = machine.base / "python"
    python = machine.native(prefix / "bin" / "python3")
    bin_directory = machine.venv(machine.home / "env", prefix / "bin")
    machine.distribution(machine.home / "env", "my-server", "serve", "my_server")
    found = machine.look_up(bin_directory / "python3", "-Im", "my_server.cli", "--verbose")
    assert found.program == str(bin_directory / "python3")
    assert found.programs == (str(python),)
    assert set(found.roots) == set(texts(machine.home / "env", prefix))
    assert found.name == "pypi/my-server"


def test_a_package_cannot_make_more_than_software_readable(machine: Machine) -> None:
    """A wheel may hold any `*.pth`, pyvenv.cfg and `#!` line; no code of it has to run for that."""
    machine.native(machine.base / "python" / "bin" / "python3")
    environment = machine.home / "env"
    bin_directory = machine.venv(environment, machine.base / "python" / "bin")
    secret = machine.home / ".ssh"
    machine.file(secret / "id_ed25519", "key")
    machine.native(secret / "agent")
    machine.native(machine.home / "work" / "other" / "bin" / "run")
    machine.file(machine.home / "work" / "other" / "lib" / "code.py")
    machine.file(environment / "lib" / "python3.11" / "site-packages" / "x.pth", f"{secret}\n")
    machine.file(environment / "pyvenv.cfg", f"home = {secret}\n")
    for interpreter in (
        bin_directory / "python3",
        secret / "agent",
        machine.home / "work" / "other" / "bin" / "run",
    ):
        command = machine.script(bin_directory / "serve", str(interpreter))
        roots = set(machine.look_up(command).roots) - {str(interpreter)}
        assert roots == set(texts(environment, machine.base / "python"))


def test_an_environment_that_is_a_project_gives_its_parts_only(machine: Machine) -> None:
    machine.native(machine.base / "python" / "bin" / "python3")
    project = machine.home / "work" / "api"
    bin_directory = machine.venv(project, machine.base / "python" / "bin")
    machine.file(project / ".env", "TOKEN=1")
    command = machine.script(bin_directory / "serve", str(bin_directory / "python3"))
    parts = texts(project / "bin", project / "lib", project / "pyvenv.cfg")
    assert set(machine.look_up(command).roots) == {*parts, str(machine.base / "python")}


def test_an_interpreter_named_through_a_link_is_in_both_places(machine: Machine) -> None:
    prefix = machine.home / "python-3.11"
    machine.native(prefix / "bin" / "python3.11")
    link = machine.link(machine.home / ".local" / "bin" / "python3.11", prefix / "bin" / "python3.11")
    script = machine.script(machine.home / "servers" / "serve", str(link))
    assert set(machine.look_up(script).roots) == set(texts(script.parent, link, prefix))


def test_a_trampoline_script_brings_the_programs_it_runs(machine: Machine) -> None:
    machine.native(machine.base / "python" / "bin" / "python3")
    bin_directory = machine.venv(machine.home / "env", machine.base / "python" / "bin")
    machine.link(bin_directory / "python", "python3")
    body = "'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n"
    command = machine.script(bin_directory / "serve", "/bin/sh", body)
    machine.environ["PATH"] = "/usr/bin:/bin"
    found = machine.look_up(command)
    assert str(machine.base / "python" / "bin" / "python3") in found.programs
    names = {os.path.basename(program) for program in found.programs}
    assert {"dirname", "realpath"} <= names or names & {"coreutils", "busybox"}
    assert found.profiles == ("python",)
    assert set(found.roots) == set(texts(machine.home / "env", machine.base / "python"))


def test_a_pyenv_shim_is_resolved_as_pyenv_does(machine: Machine) -> None:
    base = machine.home / ".pyenv"
    for version in ("3.11.7", "3.12.1"):
        machine.native(base / "versions" / version / "bin" / "python3")
    shim = machine.script(base / "shims" / "python3", "/usr/bin/env bash")
    machine.file(base / "version", "3.11.7\n")
    machine.environ["PATH"] = f"{shim.parent}:{machine.bin}"
    machine.native(machine.bin / "python3")
    script = machine.file(machine.home / "s" / "x.py")
    assert machine.look_up("python3", script).program == str(base / "versions" / "3.11.7" / "bin" / "python3")
    machine.file(machine.cwd / ".python-version", "3.12.1\n")
    assert str(base / "versions" / "3.12.1") in machine.look_up("python3", script).roots
    machine.native(machine.base / "evil" / "bin" / "python3")
    machine.native(base / "bin" / "python3")
    for version in ("../../../../evil", str(machine.base / "evil"), ".."):
        machine.environ["PYENV_VERSION"] = version
        assert machine.look_up("python3", script).program == str(machine.bin / "python3")


def test_a_user_install_outside_any_environment_brings_the_user_site(machine: Machine) -> None:
    machine.native(machine.base / "python" / "bin" / "python3.11")
    site = machine.home / ".local" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    machine.distribution(machine.home / ".local", "serve", "serve", "serve")
    command = machine.script(
        machine.home / ".local" / "bin" / "serve", str(machine.base / "python" / "bin" / "python3.11")
    )
    found = machine.look_up(command)
    assert set(found.roots) == set(texts(command, site, machine.base / "python"))
    assert found.name == "pypi/serve"


# Anything else


@pytest.mark.parametrize("place", ["home", "cwd", "bin"])
def test_a_bare_script_in_a_shared_directory_is_alone(machine: Machine, place: str) -> None:
    machine.native(machine.bin / "bash")
    directory = {"home": machine.home, "cwd": machine.cwd, "bin": machine.home / "bin"}[place]
    script = machine.file(directory / "serve.sh")
    roots = machine.look_up("bash", script).roots
    assert str(script) in roots
    assert str(directory) not in roots


def test_a_bare_script_elsewhere_brings_its_directory(machine: Machine) -> None:
    machine.native(machine.bin / "python3")
    script = machine.file(machine.home / "servers" / "mine" / "serve.py")
    assert str(script.parent) in machine.look_up("python3", script).roots


@pytest.mark.parametrize("words", [["-c", "print()"], ["-"], [], ["-Wignore", "-X", "dev", "-c", "x"]])
def test_an_interpreter_without_a_script_is_only_itself(machine: Machine, words: list[str]) -> None:
    machine.native(machine.bin / "python3")
    found = machine.look_up("python3", *words)
    assert found.roots == (str(machine.bin.parent),)
    assert found.name.startswith("file/")


def test_a_native_program_in_a_shared_bin_is_alone(machine: Machine) -> None:
    program = machine.native(machine.home / "go" / "bin" / "server")
    found = machine.look_up(program)
    assert found.roots == (str(program),)
    assert found.programs == (str(program),)
    assert found.profiles == ()
    assert found.name.startswith("file/")
    assert found.name.endswith("-server")


def test_an_interpreter_in_a_shared_prefix_brings_its_library_only(machine: Machine) -> None:
    python = machine.native(machine.home / ".local" / "bin" / "python3.11")
    library = machine.home / ".local" / "lib" / "python3.11"
    library.mkdir(parents=True)
    assert set(machine.look_up(python, "-c", "pass").roots) == set(texts(python, library))


def test_a_keg_brings_the_whole_cellar(machine: Machine) -> None:
    """Its programs find their libraries through links from `opt` to other kegs."""
    node = machine.native(machine.base / "brew" / "Cellar" / "node" / "22.1" / "bin" / "node")
    link = machine.link(machine.base / "brew" / "bin" / "node", node)
    found = machine.look_up(link, "--version")
    assert found.roots == (str(machine.base / "brew"),)
    assert found.program == str(node)


def test_env_may_be_given_options_and_values(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    script = machine.script(
        machine.home / "x" / "server", "/usr/bin/env -S NODE_ENV=production node --no-warnings"
    )
    assert str(machine.bin / "node") in machine.look_up(script).programs


def test_a_native_program_with_its_libraries_is_its_prefix(machine: Machine) -> None:
    program = machine.native(machine.home / "apps" / "server-1.0" / "bin" / "server")
    (machine.home / "apps" / "server-1.0" / "lib").mkdir()
    assert machine.look_up(program).roots == (str(machine.home / "apps" / "server-1.0"),)


def test_links_in_the_way_are_kept_in_both_spellings(machine: Machine) -> None:
    machine.native(machine.base / "data" / "python" / "bin" / "python3")
    machine.link(machine.base / "python", machine.base / "data" / "python")
    bin_directory = machine.venv(machine.home / "env", machine.base / "python" / "bin")
    command = machine.script(bin_directory / "serve", str(bin_directory / "python3"))
    assert set(machine.look_up(command).roots) >= set(
        texts(machine.home / "env", machine.base / "python", machine.base / "data" / "python")
    )


def test_names_of_files_differ_by_their_place(machine: Machine) -> None:
    one = machine.native(machine.home / "a" / "server")
    two = machine.native(machine.home / "b" / "server")
    assert machine.look_up(one).name != machine.look_up(two).name
    assert machine.look_up(one).name == machine.look_up(one).name


# Named paths


def test_named_paths_are_those_that_exist_in_any_usual_spelling(machine: Machine) -> None:
    program = machine.native(machine.bin / "server")
    data = machine.file(machine.home / "da ta" / "a.txt")
    (machine.cwd / "sub").mkdir()
    uri = f"file://{machine.home}/da%20ta/a.txt"
    words = [f"--dir={data.parent}", uri, "sub", f"{machine.cwd}:{data.parent}", "--flag", "absent", "-v"]
    assert machine.look_up(program, *words).named == texts(
        data.parent, data, machine.cwd / "sub", machine.cwd
    )
    assert machine.look_up(program, values=(str(data),)).named == (str(data),)


def test_a_named_path_of_any_kind_is_found_and_left_to_be_judged(machine: Machine) -> None:
    program = machine.native(machine.bin / "server")
    os.mkfifo(machine.home / "pipe")
    words = ["/", f"{machine.home}/", str(machine.home / "pipe"), "/dev/null"]
    assert machine.look_up(program, *words).named == (
        "/",
        str(machine.home),
        str(machine.home / "pipe"),
        "/dev/null",
    )


def test_a_named_path_through_a_link_is_where_the_kernel_takes_it(machine: Machine) -> None:
    program = machine.native(machine.bin / "server")
    (machine.base / "far" / "below").mkdir(parents=True)
    machine.file(machine.base / "far" / "a.txt")
    machine.link(machine.cwd / "link", machine.base / "far" / "below")
    assert machine.look_up(program, "link/../a.txt").named == (str(machine.base / "far" / "a.txt"),)


# Granted programs


def test_a_granted_program_brings_its_own_installation(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    command = machine.npm(machine.base / "servers", "tool", "tool")
    roots = program_roots(str(command), machine.environ, str(machine.cwd))
    assert set(roots) == set(texts(machine.base / "servers" / "node_modules", machine.bin.parent))
    assert program_roots("/usr/bin/env", machine.environ, str(machine.cwd)) == ()
    assert program_roots("/nowhere", machine.environ, str(machine.cwd)) == ()


# Refusals


def test_an_absent_command_is_told_with_the_path_that_was_searched(machine: Machine) -> None:
    with pytest.raises(CommandNotFound, match=r"no program `mcp-none` on PATH .*tools/bin"):
        machine.look_up("mcp-none")


def test_a_program_in_a_relative_path_entry_is_passed_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.native(machine.cwd / "node")
    machine.native(machine.cwd / "relative" / "node")
    monkeypatch.chdir(machine.cwd)
    machine.environ["PATH"] = ".::relative"
    with pytest.raises(CommandNotFound):
        machine.look_up("node")


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (NATIVE, 0o644, "not an executable file"),
        ("echo\n", 0o755, "neither a native program nor a script"),
        ("#!\n", 0o755, "names no absolute path"),
        ("#!node\n", 0o755, "names no absolute path"),
        ("#!/usr/bin/env -S\n", 0o755, "gives `env` no program"),
        ("#!/nowhere/node\n", 0o755, "does not exist"),
    ],
)
def test_a_command_that_cannot_run_is_told_why(
    machine: Machine, content: bytes | str, mode: int, words: str
) -> None:
    command = machine.file(machine.home / "x" / "server", content, mode)
    with pytest.raises(CommandNotFound, match=words):
        machine.look_up(command)


def test_a_script_that_does_not_exist_is_told(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    with pytest.raises(CommandNotFound, match=r"absent\.js"):
        machine.look_up("node", "absent.js")


def test_a_script_that_is_its_own_interpreter_ends(machine: Machine) -> None:
    path = machine.home / "x" / "loop"
    machine.script(path, str(path))
    with pytest.raises(CommandNotFound, match="deep"):
        machine.look_up(path)


@pytest.mark.parametrize("command", [["pipx", "run", "x"], ["uv", "run", "x"], ["docker", "run"]])
def test_launchers_that_cannot_be_held_are_refused_with_the_way_out(
    machine: Machine, command: list[str]
) -> None:
    with pytest.raises(CannotConfine) as refused:
        machine.look_up(*command)
    assert command[0] in refused.value.what
    assert refused.value.way_out


def test_an_empty_command_is_refused(machine: Machine) -> None:
    with pytest.raises(CommandNotFound):
        machine.look_up()


# The system


def test_the_system_list_holds_no_place_of_secrets() -> None:
    readable = system.readable()
    assert "/usr" in readable
    for path in (
        "/etc",
        "/etc/shadow",
        "/etc/ssl/private",
        "/root",
        "/home",
        "/run",
        "/var",
        "/sys",
        "/proc",
        "/opt",
    ):
        assert not system.within(path, readable)


def test_the_loader_of_a_native_program_is_read_from_it() -> None:
    program = os.path.realpath("/bin/sh")
    assert os.path.realpath(system.loader_of(program)) in system.loaders(program)


def test_what_is_no_native_program_has_no_loader(tmp_path: Path) -> None:
    for content in (b"", b"#!/bin/sh\n", NATIVE, NATIVE[:20]):
        (tmp_path / "x").write_bytes(content)
        assert system.loader_of(str(tmp_path / "x")) == ""


# Package launchers


def test_npx_runs_under_the_name_of_its_package(machine: Machine) -> None:
    machine.native(machine.bin / "node")
    npm = machine.bin.parent / "lib" / "node_modules" / "npm"
    machine.script(npm / "bin" / "npx-cli.js", "/usr/bin/env node")
    machine.link(machine.bin / "npx", "../lib/node_modules/npm/bin/npx-cli.js")
    (machine.cwd / "given").mkdir()
    found = machine.look_up("npx", "-y", "@scope/server@1.2", machine.cwd / "given")
    assert (found.name, found.profiles) == ("npm/@scope/server", ("npx",))
    assert found.named == (str(machine.cwd / "given"),), "the server's own words only"
    assert str(npm / "bin" / "npx-cli.js") in found.programs
    assert system.within(str(npm), found.roots)
    assert found.package is not None and found.package.version == "1.2"


def test_uvx_comes_with_the_uv_beside_it(machine: Machine) -> None:
    tools = machine.home / ".local" / "bin"
    machine.native(tools / "uvx")
    machine.native(tools / "uv")
    machine.environ["PATH"] = str(tools)
    found = machine.look_up("uvx", "--from", "Some_Server[cli]==1.0", "some-server", "--x")
    assert (found.name, found.profiles) == ("pypi/some-server", ("uvx",))
    assert found.programs == (str(tools / "uvx"), str(tools / "uv"))
    assert found.package is not None and found.package.command == "some-server"


def test_deno_and_bun_have_profiles_of_their_own(machine: Machine) -> None:
    machine.native(machine.bin / "deno")
    machine.native(machine.bin / "bun")
    script = machine.file(machine.cwd / "server.ts")
    assert machine.look_up("deno", "run", "-A", "npm:@s/p@1").name == "npm/@s/p"
    found = machine.look_up("deno", "run", "-A", script)
    assert (found.profiles, found.package) == (("deno",), None)
    assert found.name.startswith("file/")
    assert machine.look_up("bun", "run", script).profiles == ("bun",)
    assert machine.look_up("bun", "x", "p").name == "npm/p"
