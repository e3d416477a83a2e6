//! What known programs need, as data: classes and their numbers, rows that put commands into classes, and the
//! programs that only run another command. Matching is in `estimate.rs`.

use Class::*;

/// Memory MB, CPU s, wall s, processes and threads, disk MB, descriptors of one process, output KiB.
pub(super) type Need = [u64; 7];

/// How two amounts of one kind become one.
#[derive(Clone, Copy)]
pub(super) enum Op {
    Add,
    Max,
}
use Op::{Add, Max};

/// One command after another: what is written stays, what is held is given back.
pub(super) const AFTER: [Op; 7] = [Max, Add, Add, Max, Add, Max, Add];
/// Commands at the same time. A descriptor limit counts per process, so it does not add up.
pub(super) const BESIDE: [Op; 7] = [Add, Add, Max, Add, Add, Max, Add];
/// A launcher that waits for its child.
pub(super) const AROUND: [Op; 7] = [Max, Max, Max, Add, Max, Max, Max];

/// No recommendation goes beyond this, whatever a script adds up to.
pub(super) const CEILING: Need = [8192, 3600, 3600, 4096, 16384, 8192, 16384];

/// Kinds of command that need about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Trivial,
    Files,
    Search,
    Archive,
    Compress,
    Client,
    Script,
    Runtime,
    Jvm,
    VersionControl,
    Clone,
    Lint,
    SmallBuild,
    Build,
    HeavyBuild,
    Test,
    HeavyTest,
    Install,
    Media,
}

impl Class {
    /// `ls -la` at 64 MB and 10 s, and `cargo build` at 1024 MB and 60 s, are published examples: keep them.
    #[rustfmt::skip]
    pub(super) const fn need(self) -> Need {
        match self {
            //               memory   cpu  wall  procs   disk   fds  output
            Trivial =>        [  64,   10,   10,     4,    64,  256,   256],
            Files =>          [  64,   30,   60,     8,  1024,  256,   256],
            // One thread per core, each with its own buffers.
            Search =>         [ 128,   30,   60,    64,    64,  256,  1024],
            Archive =>        [ 256,   60,  120,    16,  2048,  256,  1024],
            // `xz -9` alone takes 674 MiB (xz(1), "Memory usage").
            Compress =>       [1024,  120,  120,    64,  2048,  256,   256],
            // Mostly Go programs: some 30 threads, and a network to wait for.
            Client =>         [ 256,   30,  300,    64,  1024, 1024,  1024],
            Script =>         [ 256,   30,   60,    16,   256,  256,  1024],
            // Node starts eleven threads before a program's first line; npm starts shells and more Nodes.
            Runtime =>        [ 512,   60,  120,    64,   512, 1024,  1024],
            // About 40 threads for the collector and the compilers; a heap below 512 MB rarely starts a tool.
            Jvm =>            [1024,  120,  180,   128,   512, 4096,  1024],
            VersionControl => [ 256,   60,  120,    64,  1024, 1024,  1024],
            Clone =>          [1024,  120,  600,    64,  4096, 1024,  1024],
            Lint =>           [1024,  120,  180,   128,   512, 1024,  1024],
            SmallBuild =>     [ 512,   60,  120,    64,   512, 1024,  1024],
            // rustc per core, each with code generation threads.
            Build =>          [1024,   60,  300,   512,  2048, 4096,  1024],
            HeavyBuild =>     [2048,  600,  600,   512,  4096, 4096,  4096],
            Test =>           [1024,  600,  600,   512,  1024, 4096,  4096],
            HeavyTest =>      [2048,  600,  600,   512,  4096, 4096,  4096],
            Install =>        [1024,  300,  600,   256,  4096, 4096,  1024],
            Media =>          [1024,  300,  300,   128,  2048,  256,  1024],
        }
    }
}

/// Programs by name (without path and version, a space between), the words that must follow, and the class.
///
/// Words are compared with the first operands, flags left out; `a|b` is either; `test` also stands for
/// `test:unit`. A word that starts with `-` may stand anywhere, and the value of `-m` is an operand. No words
/// mean any use of the program. The row with the most words wins.
pub(super) struct Row {
    pub(super) programs: &'static str,
    pub(super) words: &'static [&'static str],
    pub(super) class: Class,
}

const fn row(programs: &'static str, words: &'static [&'static str], class: Class) -> Row {
    Row { programs, words, class }
}

const PACKAGERS: &str = "npm pnpm yarn bun";
const PROJECTS: &str = "poetry pdm hatch rye pipenv";
const SHELLS: &str = "sh bash zsh dash ash ksh";

pub(super) const ROWS: &[Row] = &[
    // Text and small files
    row("ls cat head tail wc grep egrep fgrep sed awk gawk", &[], Trivial),
    row("uniq cut tr diff cmp comm paste tee xargs nl rev tac", &[], Trivial),
    row("echo printf true false pwd env date stat file test [", &[], Trivial),
    row("mkdir touch ln chmod chown basename dirname realpath readlink", &[], Trivial),
    row("which type command id whoami uname hostname ps kill seq", &[], Trivial),
    row("md5sum sha1sum sha256sum base64 xxd od hexdump df", &[], Trivial),
    row("cp mv rm find du rsync dd patch tree split shred", &[], Files),
    row("rg fd fdfind ag ack", &[], Search),
    row("sort jq yq sqlite3", &[], Script),
    // Archives
    row("tar gzip gunzip zcat zip unzip bzip2 bunzip2 cpio ar", &[], Archive),
    row("xz unxz xzcat lzma zstd 7z 7za 7zz brotli pigz", &[], Compress),
    row("tar", &["-J|--xz|--zstd"], Compress),
    // Network clients
    row("curl wget gh glab kubectl helm aws gcloud ssh scp", &[], Client),
    row("terraform tofu", &["init"], Install),
    row("terraform tofu", &[], Build),
    // Version control
    row("git", &["clone|fetch|pull|push|gc|repack|submodule|lfs"], Clone),
    row("git hg svn jj", &[], VersionControl),
    // Shells and scripts
    row(SHELLS, &[], Script),
    row("python pypy ipython ruby irb perl php lua luajit Rscript", &[], Script),
    row("python", &["-m", "venv|ensurepip|virtualenv"], Install),
    row("python", &["-m", "build|compileall|cython"], Build),
    row("python", &["-m", "unittest|doctest"], Test),
    // Python
    row("pip", &["install|download|wheel"], Install),
    row("pip", &[], Script),
    row("uv", &["run|version|python|tree"], Script),
    row("uv", &["build"], Build),
    row("uv uvx virtualenv conda mamba micromamba pipx", &[], Install),
    row(PROJECTS, &["install|sync|add|lock|update|upgrade|remove"], Install),
    row(PROJECTS, &["build"], Build),
    row(PROJECTS, &["test"], Test),
    row(PROJECTS, &[], Script),
    row("pytest py.test", &["-n|--numprocesses"], HeavyTest),
    row("pytest py.test unittest behave", &[], Test),
    row("tox nox", &[], HeavyTest),
    row("ruff mypy dmypy black flake8 pylint pyright isort bandit", &[], Lint),
    // JavaScript
    row("node nodejs", &["--test"], HeavyTest),
    row("node nodejs deno bun npm npx bunx corepack tsx ts-node", &[], Runtime),
    row(PACKAGERS, &["install|i|ci|add|update|up|upgrade|dedupe|remove|rm|uninstall|import"], Install),
    row(PACKAGERS, &["create|init|dlx|rebuild|audit"], Install),
    row(PACKAGERS, &["test|t|tst|coverage"], HeavyTest),
    row(PACKAGERS, &["build|bundle|compile|dist|package"], HeavyBuild),
    row(PACKAGERS, &["run|run-script|rum", "test|tests|coverage|e2e"], HeavyTest),
    row(PACKAGERS, &["run|run-script|rum", "build|bundle|compile|dist|package|ci"], HeavyBuild),
    row(PACKAGERS, &["run|run-script|rum|start|exec|x"], Build),
    row("yarn pnpm", &[], Install),
    row("deno", &["test|bench"], HeavyTest),
    row("deno", &["install|cache|add|compile"], Install),
    row("jest vitest mocha ava cypress playwright karma", &[], HeavyTest),
    row("eslint prettier biome oxlint stylelint standard", &[], Lint),
    row("webpack vite next nuxt rollup parcel turbo nx ng astro", &[], HeavyBuild),
    row("tsc esbuild swc tsup babel", &[], Build),
    // Rust
    row("cargo", &["build|b|check|c|run|r|clippy|fix|rustc|expand"], Build),
    row("cargo", &["build|b|run|r|rustc", "-r|--release"], HeavyBuild),
    row("cargo", &["test|t|bench|nextest|install|doc|d|miri|tarpaulin|llvm-cov|publish|package"], HeavyBuild),
    row("cargo", &["fetch|update|add|vendor|generate-lockfile"], Install),
    row("cargo", &["fmt|new|init|tree|metadata|search|version|clean"], Script),
    row("cargo rustc clippy cargo-clippy clippy-driver rustdoc wasm-pack", &[], Build),
    row("rustfmt", &[], Script),
    row("rustup", &[], Install),
    // Go
    row("go", &["build|install|run|generate|vet|tool"], HeavyBuild),
    row("go", &["test"], HeavyTest),
    row("go", &["mod|get|work"], Install),
    row("go gofmt goimports", &[], Runtime),
    row("golangci-lint staticcheck", &[], HeavyBuild),
    // C and C++
    row("gcc g++ cc c++ clang clang++ cpp ld lld mold as", &[], SmallBuild),
    row("make gmake cmake meson configure autoreconf qmake", &[], SmallBuild),
    row("make gmake", &["-j|--jobs"], Build),
    row("cmake", &["--build"], Build),
    row("meson", &["compile|test|install"], Build),
    row("ninja samu just scons", &[], Build),
    row("bazel bazelisk buck2 emcc em++", &[], HeavyBuild),
    row("ctest", &[], Test),
    row("valgrind gdb clang-tidy cppcheck", &[], Lint),
    row("clang-format", &[], Script),
    // JVM, .NET, Swift, Zig
    row("java javac jar jshell kotlin kotlinc scala scalac groovy ant", &[], Jvm),
    row("mvn mvnw gradle gradlew sbt mill lein", &[], HeavyBuild),
    row("dotnet", &["build|publish|run|pack|msbuild"], HeavyBuild),
    row("dotnet", &["test"], HeavyTest),
    row("dotnet", &["restore|add|tool|workload"], Install),
    row("dotnet", &[], Jvm),
    row("swift zig", &["build|test|run|build-exe|build-lib"], HeavyBuild),
    row("swift swiftc zig xcodebuild", &[], Build),
    // Ruby and PHP
    row("bundle bundler gem composer", &["install|update|add|require|create-project"], Install),
    row("bundle bundler gem rake rails composer artisan", &[], Runtime),
    row("rspec minitest cucumber phpunit pest paratest", &[], Test),
    row("rubocop phpstan psalm", &[], Lint),
    // System packages
    row("apt apt-get apk dnf yum pacman brew nix", &[], Install),
    // Media and documents
    row("ffmpeg ffprobe pandoc convert magick pdflatex xelatex latexmk", &[], Media),
    row("gs inkscape soffice libreoffice dot", &[], Media),
];

/// Where a wrapper keeps the command that it runs.
#[derive(Clone, Copy)]
pub(super) enum Holds {
    /// After its options and this many operands of its own.
    Operands(usize),
    /// In the operands, put together as shell text.
    Joined,
    /// In the first operand, as shell text, when `-c` is among the options.
    Text,
    /// The value of `-m` and all that follows.
    Module,
    /// The value of `-S`, to be split, and all that follows.
    Split,
    /// After `-exec` and its like.
    Exec,
}

/// A program that runs another. `class` is what it needs itself while it waits; `None` if next to nothing.
pub(super) struct Wrapper {
    pub(super) programs: &'static str,
    pub(super) words: &'static [&'static str],
    pub(super) holds: Holds,
    pub(super) class: Option<Class>,
}

const fn wrapper(
    programs: &'static str,
    words: &'static [&'static str],
    holds: Holds,
    class: Option<Class>,
) -> Wrapper {
    Wrapper { programs, words, holds, class }
}

/// What the shell itself adds to a script.
pub(super) const SHELL: Class = Trivial;

pub(super) const WRAPPERS: &[Wrapper] = &[
    wrapper("env", &[], Holds::Split, None),
    wrapper("env cross-env time nice ionice nohup stdbuf", &[], Holds::Operands(0), None),
    wrapper("setsid exec command builtin sudo doas xargs", &[], Holds::Operands(0), None),
    wrapper("busybox ccache sccache distcc unbuffer", &[], Holds::Operands(0), None),
    wrapper("timeout gtimeout flock taskset chrt", &[], Holds::Operands(1), None),
    wrapper("eval", &[], Holds::Joined, None),
    wrapper(SHELLS, &[], Holds::Text, Some(SHELL)),
    wrapper("find", &[], Holds::Exec, Some(Files)),
    wrapper("fd fdfind", &[], Holds::Exec, Some(Search)),
    wrapper("python pypy", &[], Holds::Module, Some(Script)),
    wrapper("npx bunx yarn pnpm", &[], Holds::Operands(0), Some(Runtime)),
    wrapper(PACKAGERS, &["exec|x|dlx"], Holds::Operands(0), Some(Runtime)),
    wrapper("yarn pnpm bun", &["run"], Holds::Operands(0), Some(Runtime)),
    wrapper("uv conda mamba", &["run"], Holds::Operands(0), Some(Script)),
    wrapper(PROJECTS, &["run"], Holds::Operands(0), Some(Script)),
    wrapper("bundle bundler", &["exec"], Holds::Operands(0), Some(Script)),
    wrapper("uvx", &[], Holds::Operands(0), Some(Install)),
    wrapper("pipx", &["run"], Holds::Operands(0), Some(Install)),
    wrapper("mise asdf", &["exec|x"], Holds::Operands(0), None),
    wrapper("rustup", &["run"], Holds::Operands(1), None),
];

/// Options that take the next argument as their value, as far as they may stand before what is looked for.
pub(super) const VALUED: &[(&str, &[&str])] = &[
    ("env", &["-u", "--unset", "-C", "--chdir", "-S", "--split-string"]),
    ("time", &["-f", "--format", "-o", "--output"]),
    ("nice", &["-n", "--adjustment"]),
    ("ionice", &["-c", "--class", "-n", "--classdata", "-p", "--pid"]),
    ("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"]),
    ("timeout gtimeout", &["-s", "--signal", "-k", "--kill-after"]),
    ("flock", &["-w", "--timeout", "-E", "--conflict-exit-code"]),
    ("exec", &["-a"]),
    // `command -v x` only says where x is: taking x as a value leaves nothing that would run.
    ("command", &["-v", "-V"]),
    ("sudo", &["-u", "--user", "-g", "--group", "-h", "-p", "-C", "-T", "-r", "-t", "-D", "--chdir", "-R"]),
    ("doas", &["-u", "-C"]),
    ("xargs", &["-n", "-P", "-I", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs", "--delimiter"]),
    (SHELLS, &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"]),
    ("python pypy", &["-m", "-c", "-W", "-X", "--check-hash-based-pycs"]),
    ("npm", &["-w", "--workspace", "--prefix", "-C", "--loglevel", "-p", "--package"]),
    ("npx", &["-p", "--package", "-w", "--workspace"]),
    ("pnpm", &["-F", "--filter", "-C", "--dir", "--package"]),
    ("yarn", &["--cwd", "-p", "--package"]),
    ("bun", &["--cwd", "--filter"]),
    ("uv uvx", &["-p", "--python", "--with", "--from", "--extra", "--group", "--directory", "--project"]),
    ("pipx", &["--spec", "--python"]),
    ("conda mamba", &["-n", "--name", "-p", "--prefix", "--cwd"]),
    ("poetry", &["-C", "--directory", "-P", "--project"]),
    ("pdm hatch", &["-p", "--project", "-e", "--env"]),
    ("bundle bundler", &["--gemfile"]),
    ("git", &["-C", "-c", "--git-dir", "--work-tree", "--namespace"]),
    ("cargo", &["-C", "--manifest-path", "--config", "--color", "-Z", "--target-dir"]),
    ("go", &["-C"]),
    ("meson", &["-C"]),
];

/// What starts a command among the arguments of `find` and `fd`.
pub(super) const EXEC: &[&str] =
    &["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];

/// All that the tables say about one program.
#[derive(Default)]
pub(super) struct Known {
    pub(super) rows: Vec<&'static Row>,
    pub(super) wrappers: Vec<&'static Wrapper>,
    pub(super) valued: &'static [&'static str],
}

/// All about `program`, if anything is. The tables are scanned: most runs ask once, and an index of them all would cost
/// more than the scan.
fn known(program: &str) -> Option<(&'static str, Known)> {
    let mut name = None;
    let mut names = |programs: &'static str| {
        let found = programs.split_ascii_whitespace().find(|known| *known == program);
        name = name.or(found);
        found.is_some()
    };
    let rows = ROWS.iter().filter(|row| names(row.programs)).collect();
    let wrappers = WRAPPERS.iter().filter(|wrapper| names(wrapper.programs)).collect();
    let valued =
        VALUED.iter().rev().find(|(programs, _)| names(programs)).map_or(&[][..], |(_, valued)| valued);
    name.map(|name| (name, Known { rows, wrappers, valued }))
}

/// The entry for `/usr/bin/python3.11`, `clang++-14` or `jest@29`.
pub(super) fn look_up(program: &str) -> Option<(&'static str, Known)> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let unversioned = || {
        let name = name.split('@').next().unwrap_or(name);
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        known(name).or_else(|| known(stem.strip_suffix('-').unwrap_or(stem)))
    };
    known(name).or_else(unversioned)
}
