//! Runs one command behind the native wall and exits as it did: for tests,
//! which are threaded and may not fork themselves.
//!
//!     launch [--id HEX] [--workspace DIR] [--read PATH]… [--write PATH]… [--tmpfs PATH=MB]… [--deny GLOB]… [--protect NAME]…
//!          [--own PATH]… [--directory PATH] [--timeout MS] [--memory MB] [--cpu S] [--cpus N]
//!          [--disk MB] [--processes N] [--user ID] [--env K=V]… [--minimal]
//!          [--readonly-root] [--profile default|strict|debug] [--capture] [--report] -- COMMAND…
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use pinfold_core::control::{Control, Requirement};
use pinfold_core::id::SandboxId;
use pinfold_core::origin::Origin;
use pinfold_core::outcome::{Exit, LimitKind};
use pinfold_core::path::AbsPath;
use pinfold_core::plan::{
    Asked, BackendChoice, Environment, Files, IsolationLevel, Limit, Limits, Network, OnOutputLimit, Plan,
    Privileges, Protect, Reads, SeccompProfile, Wall, Zone, ZoneSource,
};
use pinfold_core::zone::Access;
use pinfold_linux::backend::namespace::{Running, Turn, Until, start};
use pinfold_linux::backend::{Launch, RunError, Stdio, Task};

fn main() -> ExitCode {
    match launch() {
        Ok(code) => ExitCode::from(code),
        Err(text) => {
            eprintln!("launch: {text}");
            ExitCode::from(125)
        }
    }
}

struct Options {
    id: SandboxId,
    plan: Plan,
    command: Vec<OsString>,
    stdio: Stdio,
    report: bool,
    state: AbsPath,
}

fn launch() -> Result<u8, String> {
    let options = parse()?;
    let environment =
        pinfold_linux::environment::resolve(&options.plan.environment, |name| std::env::var_os(name));
    let launch = Launch {
        id: options.id,
        plan: &options.plan,
        task: Task::Command { words: &options.command, stdio: options.stdio },
        environment: &environment,
        state: &options.state,
        sweeps: true,
    };
    let mut running = start(&launch).map_err(words)?;
    drive(&mut running).map_err(words)?;
    let finished = running.finish().map_err(words)?;
    if let Some(error) = &finished.not_started {
        eprintln!("launch: {}: {error}", options.command[0].display());
    }
    if options.report {
        eprintln!("{finished:?}");
    }
    let code = match (finished.limit, finished.exit) {
        (Some(LimitKind::Wall), _) => 124,
        (Some(_), _) => 137,
        (None, Exit::Code(code)) => code as u8,
        (None, Exit::Signal(signal)) => 128 + signal as u8,
    };
    Ok(code)
}

/// Turns until the end; captured output is passed on with a mark, so that tests see that it was captured.
fn drive(running: &mut Running) -> Result<(), RunError> {
    let (stdout, stderr) = running.take_output();
    let mut pipes: Vec<_> = [stdout, stderr].into_iter().flatten().collect();
    loop {
        let fds: Vec<_> =
            pipes.iter().map(|pipe| (std::os::fd::AsFd::as_fd(pipe), Until::Readable)).collect();
        let Turn::Going { ready } = running.turn(&fds)? else { break };
        for at in ready.into_iter().rev() {
            if !pass_on(&pipes[at]) {
                pipes.remove(at);
            }
        }
    }
    for pipe in &pipes {
        while pass_on(pipe) {}
    }
    Ok(())
}

fn pass_on(pipe: &std::os::fd::OwnedFd) -> bool {
    let mut chunk = [0; 4096];
    let length = rustix::io::read(pipe, &mut chunk).unwrap_or(0);
    length > 0 && std::io::stdout().write_all(&chunk[..length]).is_ok()
}

fn words(error: RunError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(&error);
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

fn parse() -> Result<Options, String> {
    let mut plan = plan();
    let (mut stdio, mut report, mut command) = (Stdio::Inherit, false, Vec::new());
    let mut state = AbsPath::new("/tmp/pinfold-launch-state").map_err(|error| error.to_string())?;
    let mut name = [0; 8];
    rustix::rand::getrandom(&mut name, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| format!("cannot name the sandbox: {error}"))?;
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let option = word.to_string_lossy().into_owned();
        let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
        let path = |value: OsString| AbsPath::new(value).map_err(|error| error.to_string());
        let text = |value: OsString| value.into_string().map_err(|_| "not UTF-8".to_owned());
        let number = |value: OsString| text(value)?.parse::<u64>().map_err(|error| error.to_string());
        let files = &mut plan.files;
        match option.as_str() {
            "--id" => {
                let digits = u64::from_str_radix(&text(value()?)?, 16);
                name = digits.map_err(|error| error.to_string())?.to_be_bytes();
            }
            "--workspace" => {
                files.zones[0].source = ZoneSource::Host { path: path(value()?)?, access: Access::ReadWrite }
            }
            "--workspace-ro" => {
                files.zones[0].source = ZoneSource::Host { path: path(value()?)?, access: Access::ReadOnly }
            }
            "--read" => files.read.push(path(value()?)?),
            "--write" => files.write.push(path(value()?)?),
            "--own" => files.own.push(path(value()?)?),
            "--zone" => {
                let value = text(value()?)?;
                let (inside, host) = value.split_once('=').ok_or("--zone INSIDE=HOST")?;
                files.zones.push(Zone {
                    name: inside.to_owned(),
                    inside: path(inside.into())?,
                    source: ZoneSource::Host { path: path(host.into())?, access: Access::ReadWrite },
                });
            }
            "--tmpfs" => {
                let value = text(value()?)?;
                let (inside, size) = value.split_once('=').ok_or("--tmpfs PATH=MB")?;
                let size_mb = size.parse().map_err(|_| "--tmpfs PATH=MB")?;
                files.zones.push(Zone {
                    name: inside.to_owned(),
                    inside: path(inside.into())?,
                    source: ZoneSource::Tmpfs { size_mb },
                });
            }
            "--deny" => files.deny.push(text(value()?)?.parse().map_err(|error| format!("{error}"))?),
            "--protect" => files.protect.names.push(text(value()?)?),
            "--directory" => plan.directory = path(value()?)?,
            "--timeout" => plan.limits.timeout_ms.value = number(value()?)?,
            "--memory" => plan.limits.max_memory_mb.value = number(value()?)?,
            "--cpu" => plan.limits.max_cpu_seconds.value = number(value()?)?,
            "--disk" => plan.limits.max_disk_mb.value = number(value()?)?,
            "--cpus" => {
                let cpus = text(value()?)?.parse().map_err(|_| "--cpus NUMBER")?;
                plan.limits.cpus = Some(Limit { value: cpus, because: Origin::Rule("the example") });
            }
            "--processes" => plan.limits.max_processes.value = number(value()?)?,
            "--user" => plan.privileges.user_id = number(value()?)? as u32,
            "--env" => {
                let value = text(value()?)?;
                let (name, value) = value.split_once('=').ok_or("--env K=V")?;
                plan.environment.set.insert(name.to_owned(), value.to_owned());
            }
            "--minimal" => files.reads = Reads::Minimal,
            "--readonly-root" => files.readonly_root = true,
            "--profile" => {
                plan.privileges.seccomp = match text(value()?)?.as_str() {
                    "strict" => SeccompProfile::Strict,
                    "debug" => SeccompProfile::Debug,
                    _ => SeccompProfile::Default,
                }
            }
            "--capture" => stdio = Stdio::Capture,
            "--report" => report = true,
            "--state" => state = path(value()?)?,
            "--" => command.extend(words.by_ref()),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    // Without a workspace there is no such zone.
    if matches!(plan.files.zones[0].source, ZoneSource::Tmpfs { size_mb: 0 }) {
        plan.files.zones.remove(0);
        if plan.directory.as_path() == std::path::Path::new("/workspace") {
            plan.directory = AbsPath::root();
        }
    }
    Ok(Options { id: SandboxId::from_random(name), plan, command, stdio, report, state })
}

/// Much as the default profile gives it.
fn plan() -> Plan {
    let because = || Origin::Rule("the example");
    let limit = |value| Limit { value, because: because() };
    let inside = |path: &str| AbsPath::new(path).unwrap_or_else(|_| AbsPath::root());
    let set = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/scratch/home"),
        ("USER", "pinfold"),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
        ("PINFOLD", "1"),
    ];
    Plan {
        wall: Wall {
            isolation: IsolationLevel::Process,
            because: because(),
            backend: BackendChoice::Auto,
            image: String::new(),
            runtime: None,
            prove_on_boot: false,
        },
        directory: inside("/workspace"),
        files: Files {
            reads: Reads::System,
            zones: vec![
                Zone {
                    name: "workspace".to_owned(),
                    inside: inside("/workspace"),
                    source: ZoneSource::Tmpfs { size_mb: 0 },
                },
                Zone {
                    name: "scratch".to_owned(),
                    inside: inside("/scratch"),
                    source: ZoneSource::Tmpfs { size_mb: 64 },
                },
                Zone {
                    name: "tmp".to_owned(),
                    inside: inside("/tmp"),
                    source: ZoneSource::Tmpfs { size_mb: 64 },
                },
            ],
            read: Vec::new(),
            write: Vec::new(),
            deny: Vec::new(),
            protect: Protect { names: Vec::new(), git: Vec::new(), extra: Vec::new() },
            own: Vec::new(),
            readonly_root: false,
        },
        network: Network { enabled: false, allow: Vec::new(), block: Vec::new(), rules: Vec::new() },
        privileges: Privileges {
            drop_capabilities: true,
            no_new_privileges: true,
            non_root: true,
            user_id: 65534,
            seccomp: SeccompProfile::Default,
        },
        environment: Environment {
            set: set.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            pass: vec!["TERM".to_owned()],
        },
        limits: Limits {
            max_cpu_seconds: limit(30),
            cpus: None,
            max_memory_mb: limit(256),
            max_disk_mb: limit(512),
            timeout_ms: limit(60_000),
            max_processes: limit(10),
            max_file_descriptors: limit(256),
            max_output_bytes: limit(65_536),
            on_output_limit: OnOutputLimit::Kill,
        },
        controls: Control::ALL
            .iter()
            .map(|control| Asked {
                control: *control,
                requirement: Requirement::Required,
                because: because(),
            })
            .collect(),
    }
}
