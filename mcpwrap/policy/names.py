"""The tables: what is private and what is write-protected unless a rule names it exactly.

Entries with a leading `~/` are taken in both home directories, absolute ones as they are, bare names
anywhere. `*` is any run of characters of a last component. Everything is compared folded.
"""

from __future__ import annotations

from typing import Final

PRIVATE_IN_HOME: Final = (
    # Keys and sign-in tokens
    ".ssh", ".gnupg", ".pki", ".password-store", ".vault-token", ".netrc", "_netrc", ".authinfo*",
    ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli",
    ".config/op", ".1password", ".config/sops", ".config/age", ".mcp-auth",
    # Clouds and clusters
    ".aws", ".azure", ".kube", ".docker", ".oci", ".config/gcloud", ".config/doctl",
    ".config/containers/auth.json", ".terraform.d", ".terraformrc", ".boto", ".s3cfg", ".databrickscfg",
    ".config/rclone", ".rclone.conf", ".fly",
    # Package registries
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pip/pip.conf", ".pip/pip.conf",
    ".config/pypoetry/auth.toml", ".cargo/credentials*", ".gem/credentials", ".composer/auth.json",
    ".config/composer/auth.json", ".m2/settings*.xml", ".gradle/gradle.properties",
    ".nuget/NuGet/NuGet.Config",
    # Databases
    ".pgpass", ".my.cnf", ".mylogin.cnf", ".snowsql", ".dbt",
    # Sign-in files of MCP clients and coding agents
    ".claude.json*", ".claude", ".config/Claude", ".codex/auth.json", ".gemini/*oauth*",
    ".config/github-copilot", ".local/share/opencode/auth.json", ".cursor", ".continue", ".aider*",
    ".config/goose", ".codeium",
    # Histories
    ".*_history", ".history", ".zhistory", ".lesshst", ".viminfo", ".local/share/fish/fish_history",
    ".local/share/nushell", ".local/state/*hist*",
    # Browsers and mail
    ".mozilla", ".thunderbird", ".librewolf", ".zen", ".config/google-chrome*", ".config/chromium*",
    ".config/BraveSoftware", ".config/microsoft-edge*", ".config/vivaldi*", ".config/opera*",
    ".cache/mozilla", ".cache/google-chrome*", ".cache/chromium*", ".cache/BraveSoftware",
    ".cache/microsoft-edge*", ".var/app", "snap/firefox", "snap/chromium",
    # Keyrings and display secrets
    ".local/share/keyrings", ".local/share/kwalletd", ".kde/share/apps/kwallet", ".gnome2/keyrings",
    ".Xauthority", ".ICEauthority", ".dbus",
)  # fmt: skip
"""What carries authority of its own: whoever reads it needs no sandbox any more."""

PRIVATE_PLACES: Final = (
    "/run/user", "/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman", "/run/crio",
    "/run/dbus", "/run/libvirt", "/run/snapd.socket", "/run/lxd.socket", "/var/lib/docker",
    "/var/lib/containers", "/tmp/.X11-unix", "/tmp/.ICE-unix", "/tmp/ssh-*",
)  # fmt: skip
"""Sockets of daemons that act for whoever connects, and agents' sockets.
`/var/run` is `/run` in another spelling."""

DOTENV: Final = ".env*"
"""The id of `.env`, `.env.*` and `.envrc`, regular files anywhere; a `.env/` virtual environment is none."""

DOTENV_SAMPLES: Final = (".example", ".sample", ".template", ".dist")

PROTECTED_ANYWHERE: Final = (
    ".gitconfig", ".gitmodules", ".mcp.json", ".claude*", ".codex", ".cursor", ".vscode", ".idea",
    ".gemini", ".windsurf", ".zed", ".kiro", ".roo", ".roomodes", ".cline*", ".amazonq", ".opencode",
    "opencode.json*", ".continue", ".aider*", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout",
    ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc",
    ".cshrc", ".tcshrc",
)  # fmt: skip
"""Files the user's own programs take orders from wherever they find them: clients, editors, git, shells."""

PROTECTED_IN_HOME: Final = (
    ".config/git", ".config/fish", ".config/nushell", ".config/environment.d", ".config/autostart",
    ".config/systemd", ".local/share/systemd", ".config/plasma-workspace", ".pam_environment", ".login",
    ".logout", ".xprofile", ".xinitrc", ".xsession*", ".xsessionrc", ".inputrc", ".vimrc", ".vim",
    ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".tmux.conf", ".config/tmux", ".config/zed",
    ".config/Code", ".config/Cursor", ".config/opencode", ".local/bin", "bin", ".config/direnv",
    ".config/mise", ".cargo/config*", ".config/pip", ".pip", ".gdbinit", ".pythonrc*", ".pdbrc",
)  # fmt: skip

LOADED_IN_HOME: Final = (
    # Modules, and what is run before the first line of a program
    ".local/lib", ".node_modules", ".node_libraries", ".gem", ".local/share/gem", ".bundle", ".luarocks", ".composer",
    ".config/composer", ".cpan", ".julia/config", ".Renviron", ".erlang", ".config/erlang", ".iex.exs", ".ghci",
    ".gdbinit", ".gdbearlyinit", ".config/gdb", ".gradle/init*", ".config/irb", ".config/powershell",
    ".local/share/powershell", ".config/ipython", ".ipython/*config*", ".ipython/profile_default/startup",
    ".ipython/profile_default/*config*", ".jupyter/*config*", ".local/etc/jupyter", ".local/share/jupyter/kernels",
    ".vim", ".config/nvim", ".emacs*", ".config/emacs", ".config/latexmk", ".cache/huggingface/modules",
    ".cache/torch/hub",
    # What commands are to run, one and all: `.npmrc`, `.yarnrc.yml`, `.sqliterc`, `.psqlrc`, `.bashrc`, `.mongorc.js`
    ".*rc", ".*rc.*", ".config/*rc", ".config/sqlite3",
    # What package launchers run, and where they look for it
    ".bun", ".bunfig.toml", ".config/.bunfig.toml", ".deno", ".cache/deno", ".config/pnpm", ".local/share/pnpm",
    ".cache/pnpm", ".yarn", ".config/yarn", ".cache/yarn", ".config/uv", ".local/share/uv", ".cache/uv", ".config/pip",
    ".cache/pip", ".pip", ".pydistutils.cfg", ".cache/node/corepack", ".cargo/config*", ".config/go",
    ".config/mise", ".local/share/mise",
    # Shells
    ".*profile", ".bash_login", ".bash_logout", ".bash_aliases", ".zshenv", ".zlogin", ".zlogout", ".login",
    ".logout", ".config/fish", ".local/share/fish",
    # What names a program for others to run: git, ssh, gpg, and the libraries of clouds and clusters
    ".gitconfig", ".config/git", ".config/hg", ".ssh/config", ".gnupg/*.conf", ".aws/config", ".aws/credentials",
    ".aws/cli/alias", ".kube/config", ".docker/config.json", ".ansible.cfg", ".my.cnf", ".config/yt-dlp", ".yt-dlp",
    ".config/ImageMagick",
)  # fmt: skip
"""Where programs find, in the private HOME and without being told to look, what they run."""

LOOKED_FOR_UPWARD: Final = (
    # git takes a directory with a HEAD for a repository
    ".git", "HEAD", ".hg", "node_modules", "package.json", "tsconfig.json", "jsconfig.json", "deno.json*",
    "bunfig.toml", ".pnp.*", ".yarn", ".*rc", ".*rc.*", "*.config.*", "pyproject.toml", "setup.cfg", "tox.ini",
    "pytest.ini", "conftest.py", "uv.toml", ".venv", "mypy.ini", ".mypy.ini", ".cargo", ".mvn", ".tool-versions",
    ".*-version", ".mise*", "mise.toml", "Makefile", "makefile", "GNUmakefile", "Rakefile", "Gemfile*", "Justfile",
    ".justfile",
)  # fmt: skip
"""What programs look for in every directory above the one they work in, and obey: not to be put where the private HOME
lies above the user's directories, or above the server's own."""

PROTECTED_PLACES: Final = (
    "/etc/cron*", "/etc/profile*", "/etc/systemd", "/etc/xdg/autostart", "/var/spool/cron", "/var/spool/at",
    "/etc/ld.so.*", "/etc/sudoers*", "/etc/passwd", "/etc/group", "/etc/pam.d", "/etc/bash.bashrc",
    "/etc/zsh",
)  # fmt: skip

GIT: Final = ".git"
GIT_ORDERS: Final = ("config", "config.worktree", "hooks", "commondir", "gitdir")
"""What inside a `.git` directory makes git run programs, or names another directory whose config does; of a
submodule or worktree below it, too."""
BARE: Final = "head"
"""With it a directory can be a bare repository, whose `config` beside it git obeys; new ones are born with it."""
GIT_NESTED: Final = ("modules", "worktrees")
