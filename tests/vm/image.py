"""The disk of a guest, made as an ordinary user: a kernel, an initramfs that finds the disk, and Debian's userland.

Packages are downloaded by apt with state of its own, unpacked and never configured: what the tests need of a
Debian runs without its maintainer scripts. `mke2fs -d` fills a file system without mounting it.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

USERLAND: Final = (
    "python3", "git", "bash", "dash", "tar", "gzip", "diffutils",
    "coreutils", "findutils", "grep", "sed", "util-linux", "mount", "procps", "iproute2",
)  # fmt: skip
USERLAND_SUITE: Final = "bookworm"
PYTHON: Final = "3.11"
"""Of Debian 12, the guest's userland under both kernels."""
SITE: Final = "usr/lib/python3/dist-packages"
PARSER: Final = ("apparmor", "libc6", "libgcc-s1", "libstdc++6")
"""AppArmor's, of Debian 13: the first one that knows the rule `userns,`; with the libraries it is run by here."""
MODULES: Final = ("virtio_pci", "virtio_blk")
IMAGE_SIZE: Final = "3G"
"""Sparse: some 600 MB are used."""
DOWNLOAD_SECONDS: Final = 900
SUITES: Final = {"6.1": "bookworm", "6.12": "trixie"}
"""Kernel series → the suite of Debian that has it. (The 6.12 of bookworm-backports dies at once in QEMU 7.2's TCG.)"""


class Kernel(NamedTuple):
    image: Path
    initramfs: Path


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command to its end and return what it printed; a failure shows its own words."""
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=DOWNLOAD_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Apt:
    """An apt that knows one suite of Debian, and touches nothing of the machine's."""

    def __init__(self, cache: Path, suite: str) -> None:
        self._state = state = cache / f"apt-{suite}"
        for name in ("lists/partial", "archives/partial", "empty.d"):
            (state / name).mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        (state / "sources.list").write_text(f"deb {self._site()} {suite} main\n")
        self._options = [
            f"-oDir::State={state}", f"-oDir::State::lists={state}/lists", f"-oDir::State::status={state}/status",
            f"-oDir::Cache={state}", f"-oDir::Cache::archives={state}/archives",
            f"-oDir::Etc::sourcelist={state}/sources.list", f"-oDir::Etc::sourceparts={state}/empty.d",
            "-oAPT::Architecture=amd64",
            "-oAPT::Install-Recommends=false", "-oAPT::Sandbox::User=",
        ]  # fmt: skip
        run("apt-get", *self._options, "-qq", "update")

    def _site(self) -> str:
        """Return where this machine takes Debian's packages from."""
        targets = run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(CREATED_BY)")
        sites = [line.split() for line in targets.splitlines() if line.endswith(" Packages")]
        site = next((site for site, release, _ in sites if not release.endswith("-security")), None)
        if site is None:
            sys.exit("no package source of Debian is configured on this machine")
        return site

    def newest(self, pattern: str) -> str:
        """Return the package with the highest version in its name among those that match."""
        names = run("apt-cache", *self._options, "pkgnames").split()
        found = [name for name in names if re.fullmatch(pattern, name)]
        if not found:
            sys.exit(f"no package matches {pattern}")
        return max(found, key=lambda name: [int(each) for each in re.findall(r"\d+", name)])

    def unpack(self, packages: list[str], root: Path) -> None:
        """Download packages and unpack them below `root`."""
        run("apt-get", *self._options, "download", *packages, cwd=self._state / "archives")
        for package in packages:
            for file in sorted((self._state / "archives").glob(f"{package}_*.deb")):
                with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as tar:
                    subprocess.run(
                        ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root],
                        stdin=tar.stdout, check=True, timeout=DOWNLOAD_SECONDS,
                    )  # fmt: skip

    def closure(self, packages: tuple[str, ...]) -> list[str]:
        """Return packages with all they depend on."""
        without = [
            f"--no-{kind}"
            for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
        ]
        lines = run("apt-cache", *self._options, "depends", "--recurse", *without, *packages).splitlines()
        names = sorted({line.strip() for line in lines if re.fullmatch(r"[a-z0-9][a-z0-9+.-]*", line)})
        real = run("apt-cache", *self._options, "show", "--no-all-versions", *names).splitlines()
        return sorted({line.split()[1] for line in real if line.startswith("Package: ")} & set(names))


def kernel(series: str, cache: Path) -> Kernel:
    """Return Debian's newest cloud kernel of a series, with an initramfs that mounts /dev/vda."""
    apt = Apt(cache, SUITES[series])
    package = apt.newest(rf"linux-image-{re.escape(series)}\.[0-9.]+[+-][a-z0-9+]+-cloud-amd64")
    place = cache / package
    version = package.removeprefix("linux-image-")
    found = Kernel(place / "boot" / f"vmlinuz-{version}", place / "initramfs.gz")
    if not found.initramfs.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        apt.unpack([package], place)
        _initramfs(next(place.glob("**/modules")) / version, place / "early", found.initramfs)
    return found


def _initramfs(modules: Path, root: Path, target: Path) -> None:
    names = ["bin/busybox"]
    (root / "bin").mkdir(parents=True)
    (root / "proc").mkdir()
    (root / "new").mkdir()
    shutil.copy(
        shutil.which("busybox") or sys.exit("no `busybox` (apt-get install busybox-static)"), root / "bin"
    )
    for order, (name, content) in enumerate(_with_dependencies(modules).items()):
        names.append(f"{order:02}-{name}.ko")
        (root / names[-1]).write_bytes(content)
    (root / "init").write_text(
        "#!/bin/busybox sh\nset -e\n/bin/busybox mount -t proc proc /proc\n"
        "for module in /*.ko*; do /bin/busybox insmod $module; done\n"
        "major=$(/bin/busybox awk '$4 == \"vda\" {print $1}' /proc/partitions)\n"
        "/bin/busybox mknod /vda b $major 0\n"
        "/bin/busybox mount -t ext4 /vda /new\n/bin/busybox umount /proc\n"
        "exec /bin/busybox switch_root /new /guest-init\n"
    )
    (root / "init").chmod(0o755)
    names += ["init", "bin", "proc", "new"]
    archive = subprocess.run(
        ["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"], input="\n".join(sorted(names)).encode(),
        cwd=root, stdout=subprocess.PIPE, check=True, timeout=DOWNLOAD_SECONDS,
    )  # fmt: skip
    target.write_bytes(gzip.compress(archive.stdout, 1))


def _with_dependencies(modules: Path) -> dict[str, bytes]:
    """Return `MODULES` by name, each behind those it needs (what is built into the kernel has none)."""
    every = {path.name.split(".ko")[0].replace("-", "_"): path for path in modules.rglob("*.ko*")}
    done: dict[str, bytes] = {}

    def add(name: str) -> None:
        path = every.get(name.replace("-", "_"))
        if path is None or name in done:
            return
        content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for each in filter(None, depends[1].decode().split(",") if depends else ()):
            add(each)
        done[name] = content

    for name in MODULES:
        add(name)
    return done


def userland(cache: Path, requirements: Path) -> Path:
    """Return the guest's disk, the same under every kernel: Debian 12, Python, what the tests import."""
    init = Path(__file__).with_name("guest-init")
    sources = (Path(__file__), init, init.with_name("no-userns"), requirements)
    made_of = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    image = cache / f"userland-{made_of.hexdigest()[:12]}.ext4"
    if image.exists():
        return image
    for old in cache.glob("userland-*.ext4"):
        old.unlink()
    root = cache / "userland"
    shutil.rmtree(root, ignore_errors=True)
    (root / "usr").mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir()
        (root / name).symlink_to(f"usr/{name}")
    apt = Apt(cache, USERLAND_SUITE)
    apt.unpack(apt.closure(USERLAND), root)
    for name in (
        "proc",
        "sys",
        "dev",
        "tmp",
        "run",
        "mnt",
        "root",
        "home/tester",
        "project",
        "etc",
        "var/tmp",
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\ntester:x:1500:1500::/home/tester:/bin/bash\n"
    )
    (root / "etc/group").write_text("root:x:0:\ntester:x:1500:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    (root / "etc/resolv.conf").write_text("nameserver 192.0.2.1\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--target", root / SITE,
        "--python-version", PYTHON, "--only-binary=:all:", "--require-hashes", "-r", requirements,
    )  # fmt: skip
    # As an editable installation would: seen with `python -I` as well.
    (root / SITE / "project.pth").write_text("/project\n")
    _compile(root)
    _policy(cache, root / "etc/no-userns.policy")
    shutil.copy(init, root / "guest-init")
    (root / "guest-init").chmod(0o755)
    disk(root, image, IMAGE_SIZE)
    shutil.rmtree(root)
    return image


def _compile(root: Path) -> None:
    """Compile Python's library by the interpreter that was unpacked: nobody may write there in the guest."""
    (root / f"usr/lib/python{PYTHON}/sitecustomize.py").unlink(missing_ok=True)  # leads out of `root`
    libraries = root / "usr/lib/x86_64-linux-gnu"
    run(
        root / "lib64/ld-linux-x86-64.so.2", "--library-path", libraries, root / f"usr/bin/python{PYTHON}", "-S",
        "-m", "compileall", "-q", "-s", root, "-p", "/", root / f"usr/lib/python{PYTHON}", root / SITE,
        env={"PYTHONHOME": str(root / "usr"), "PATH": ""},
    )  # fmt: skip


def _policy(cache: Path, target: Path) -> None:
    """Compile the AppArmor profile of the guests, as a kernel takes it that can mediate user namespaces."""
    place = cache / "parser"
    place.mkdir(exist_ok=True)
    Apt(cache, SUITES["6.12"]).unpack(list(PARSER), place)
    libraries, base = place / "usr/lib/x86_64-linux-gnu", place / "etc/apparmor.d"
    run(
        libraries / "ld-linux-x86-64.so.2", "--library-path", libraries, place / "usr/sbin/apparmor_parser",
        "--config-file", "/dev/null", "--base", base, "--kernel-features", base / "abi/4.0", "--skip-kernel-load",
        "--skip-cache", "--ofile", target, Path(__file__).with_name("no-userns"),
    )  # fmt: skip
    shutil.rmtree(place)


def disk(root: Path, image: Path, size: str) -> None:
    """Make a file system that holds what is below `root`."""
    partial = image.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin"}
    run(
        "mke2fs",
        "-q",
        "-t",
        "ext4",
        "-d",
        root,
        "-E",
        "root_owner=0:0,lazy_itable_init=1",
        partial,
        size,
        env=env,
    )
    partial.rename(image)
