//! The built-in protected names: what the *host* would later execute or obey. Data, with the reader of each.
//!
//! A name belongs here when a program on the host acts on the file without being told to by name: a shell that
//! starts, an editor that opens the folder, a package manager that is run in it, git, an agent.

/// Names at the root of the workspace and of each repository in it.
pub(crate) const NAMES: &[(&str, &str)] = &[
    (".bash_login", "bash"),
    (".bash_logout", "bash"),
    (".bash_profile", "bash"),
    (".bashrc", "bash"),
    (".profile", "sh"),
    (".zlogin", "zsh"),
    (".zprofile", "zsh"),
    (".zshenv", "zsh"),
    (".zshrc", "zsh"),
    (".config/fish", "fish"),
    (".gitconfig", "git"),
    (".gitmodules", "git: submodules are cloned from and updated by what it says"),
    (".envrc", "direnv"),
    (".mise.toml", "mise"),
    ("mise.toml", "mise"),
    (".vscode", "Visual Studio Code: tasks and settings"),
    (".idea", "JetBrains: run configurations"),
    (".zed", "Zed: tasks and settings"),
    (".devcontainer", "editors: containers started on opening"),
    (".mcp.json", "agents: servers to start"),
    (".claude", "Claude Code: hooks and settings"),
    (".codex", "Codex: hooks and settings"),
    (".cursor", "Cursor: rules and servers"),
    (".gemini", "Gemini: settings and servers"),
    (".husky", "git hooks kept in the tree"),
    (".pre-commit-config.yaml", "pre-commit: programs run by git hooks"),
    ("lefthook.yml", "lefthook: programs run by git hooks"),
    (".npmrc", "npm"),
    (".yarnrc", "yarn"),
    (".yarnrc.yml", "yarn: plug-ins and its own binary"),
    (".pnpmfile.cjs", "pnpm: runs it"),
    (".cargo", "cargo: runners, linkers and wrappers"),
    ("sandbox.policy.yaml", "Pinfold itself"),
];

/// Names in each git directory.
pub(crate) const GIT: &[(&str, &str)] = &[
    ("config", "keys that run programs"),
    ("config.worktree", "keys that run programs"),
    ("hooks", "programs"),
    ("info/attributes", "filters and drivers by path"),
    ("objects/info/alternates", "objects of other repositories"),
    ("commondir", "where the configuration is taken from"),
    ("gitdir", "where the repository is taken from"),
];
