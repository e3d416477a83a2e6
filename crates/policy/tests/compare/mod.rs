//! Whether one policy permits only what another does, asked of what is permitted: each host and port, each path, each
//! tool. Written without a look at how the engine compares values.

use pinfold_core::control::Control;
use pinfold_core::host::Host;
use pinfold_core::plan::{BackendChoice, IsolationLevel, Plan};
use pinfold_policy::document::{Method, NetEntry, NetPolicy, Policy, SeccompChoice, ToolsPolicy, ZoneMode};

type Verdict = Result<(), String>;

fn hold(holds: bool, what: &str) -> Verdict {
    if holds { Ok(()) } else { Err(format!("{what} is widened")) }
}

/// Whether `new` permits only what `old` does.
pub(crate) fn policies(new: &Policy, old: &Policy) -> Verdict {
    sandbox(new, old)?;
    files(new, old)?;
    network(&new.net, &old.net)?;
    limits(new, old)?;
    security(new, old)?;
    let (pass, passed) = (&new.env.pass.value, &old.env.pass.value);
    hold(pass.iter().all(|name| passed.contains(name)), "env.pass")?;
    let (set, was) = (&new.env.set.value, &old.env.set.value);
    hold(was.iter().all(|(name, value)| set.get(name) == Some(value)), "env.set")?;
    tools(&new.tools, &old.tools)
}

/// The levels of wall that will do.
fn accepted(asked: IsolationLevel) -> &'static [IsolationLevel] {
    use IsolationLevel::{Container, None, Process, Vm, Wasm};
    match asked {
        None => &[None, Process, Container, Vm, Wasm],
        Process => &[Process, Container, Vm, Wasm],
        Container => &[Container, Vm, Wasm],
        Vm => &[Vm],
        Wasm => &[Wasm],
    }
}

fn sandbox(new: &Policy, old: &Policy) -> Verdict {
    let (new, old) = (&new.sandbox, &old.sandbox);
    let before = accepted(old.isolation_level.value);
    hold(
        accepted(new.isolation_level.value).iter().all(|level| before.contains(level)),
        "sandbox.isolationLevel",
    )?;
    hold(
        old.backend.value == BackendChoice::Auto || new.backend.value == old.backend.value,
        "sandbox.backend",
    )?;
    hold(new.image.value == old.image.value, "sandbox.image")?;
    hold(new.runtime.value == old.runtime.value, "sandbox.runtime")?;
    hold(new.prove_on_boot.value || !old.prove_on_boot.value, "sandbox.proveOnBoot")?;
    for zone in new.zones.value.iter().filter(|zone| zone.mode != ZoneMode::Tmpfs) {
        let shown = old.zones.value.iter().any(|other| {
            let access = other.mode == zone.mode || (other.mode == ZoneMode::Rw && zone.mode == ZoneMode::Ro);
            other.name == zone.name && other.host_path == zone.host_path && access
        });
        hold(shown, "sandbox.zones")?;
    }
    Ok(())
}

fn files(new: &Policy, old: &Policy) -> Verdict {
    let (new, old) = (&new.fs, &old.fs);
    hold(new.workspace.value as u8 <= old.workspace.value as u8, "fs.workspace")?;
    hold(new.deps.value.is_none() || new.deps.value == old.deps.value, "fs.deps")?;
    hold(new.reads.value as u8 <= old.reads.value as u8, "fs.reads")?;
    for (key, new, old) in [
        ("fs.allowedReadPaths", &new.allowed_read_paths, &old.allowed_read_paths),
        ("fs.allowedWritePaths", &new.allowed_write_paths, &old.allowed_write_paths),
    ] {
        hold(new.value.iter().all(|path| old.value.contains(path)), key)?;
    }
    for (key, new, old) in [("fs.deny", &new.deny, &old.deny), ("fs.protect", &new.protect, &old.protect)] {
        hold(old.value.iter().all(|glob| new.value.contains(glob)), key)?;
    }
    Ok(())
}

/// What may be said to one host at one port: nothing, or the methods, with `None` for all of them and all paths.
fn said(net: &NetPolicy, host: &Host, port: u16) -> Option<Vec<Option<Method>>> {
    let blocked = net.blocklist.value.iter().any(|destination| destination.matches(host, port));
    let listed = net.allowlist.value.iter().any(|entry| match entry {
        NetEntry::Destination(destination) => destination.matches(host, port),
        NetEntry::Registries => host.to_string() == "registry.example",
    });
    let rules: Vec<_> = net.rules.value.iter().filter(|rule| rule.host == *host).collect();
    let ruled = port == 443 && !rules.is_empty();
    if !net.enabled.value || blocked || !(listed || ruled) {
        return None;
    }
    let bounding: Vec<_> =
        rules.iter().filter(|rule| !rule.methods.is_empty() || !rule.paths.is_empty()).collect();
    if bounding.is_empty() {
        return Some(vec![None]);
    }
    Some(bounding.iter().flat_map(|rule| rule.methods.iter().copied().map(Some)).collect())
}

fn network(new: &NetPolicy, old: &NetPolicy) -> Verdict {
    for host in [
        "example.com",
        "api.example.com",
        "a.b.example.com",
        "b.example",
        "evil.example",
        "registry.example",
        "10.0.0.1",
        "10.1.2.3",
        "127.0.0.1",
    ] {
        let host = Host::parse(host).map_err(|error| error.to_string())?;
        for port in [1, 80, 443, 1000, 8080] {
            let Some(now) = said(new, &host, port) else { continue };
            let before = said(old, &host, port).ok_or_else(|| format!("{host}:{port} is opened"))?;
            let within = before.contains(&None) || now.iter().all(|method| before.contains(method));
            hold(within, &format!("what may be said to {host}:{port}"))?;
        }
    }
    let secrets = |net: &NetPolicy| {
        net.rules
            .value
            .iter()
            .filter_map(|rule| rule.credential.clone().map(|secret| (rule.host.clone(), secret)))
            .collect::<Vec<_>>()
    };
    let before = secrets(old);
    hold(secrets(new).iter().all(|secret| before.contains(secret)), "a credential")
}

fn limits(new: &Policy, old: &Policy) -> Verdict {
    let (new, old) = (&new.proc, &old.proc);
    for (key, new, old) in [
        ("proc.maxCpuSeconds", &new.max_cpu_seconds, &old.max_cpu_seconds),
        ("proc.maxMemoryMB", &new.max_memory_mb, &old.max_memory_mb),
        ("proc.maxDiskMB", &new.max_disk_mb, &old.max_disk_mb),
        ("proc.timeoutMs", &new.timeout_ms, &old.timeout_ms),
        ("proc.maxProcesses", &new.max_processes, &old.max_processes),
        ("proc.maxFileDescriptors", &new.max_file_descriptors, &old.max_file_descriptors),
        ("proc.maxOutputBytes", &new.max_output_bytes, &old.max_output_bytes),
    ] {
        hold(new.value.get() <= old.value.get(), key)?;
    }
    let busy =
        |policy: &pinfold_policy::document::ProcPolicy| policy.cpus.value.map_or(1e9, |cpus| cpus.get());
    hold(busy(new) <= busy(old), "proc.cpus")?;
    hold(new.on_output_limit.value as u8 <= old.on_output_limit.value as u8, "proc.onOutputLimit")
}

/// The tables that refuse at least as much as one does.
fn at_least(table: &SeccompChoice, other: &SeccompChoice) -> bool {
    match other {
        SeccompChoice::Debug => true,
        SeccompChoice::Default => *table != SeccompChoice::Debug,
        SeccompChoice::Strict | SeccompChoice::File(_) => table == other,
    }
}

fn security(new: &Policy, old: &Policy) -> Verdict {
    let (new, old) = (&new.security, &old.security);
    for (key, new, old) in [
        ("security.dropCapabilities", &new.drop_capabilities, &old.drop_capabilities),
        ("security.runAsNonRoot", &new.run_as_non_root, &old.run_as_non_root),
        ("security.readOnlyRootFilesystem", &new.read_only_root_filesystem, &old.read_only_root_filesystem),
        ("security.noNewPrivileges", &new.no_new_privileges, &old.no_new_privileges),
    ] {
        hold(new.value || !old.value, key)?;
    }
    hold(new.user_id.value == old.user_id.value, "security.userId")?;
    hold(at_least(&new.seccomp_profile.value, &old.seccomp_profile.value), "security.seccompProfile")
}

/// Whether a command runs (0), is asked about (1) or is denied (2).
fn decided(tools: &ToolsPolicy, command: &str) -> u8 {
    let commands = &tools.commands.value;
    let means = |words: &str| command == words || command.starts_with(&format!("{words} "));
    match () {
        () if commands.deny.iter().any(|rule| means(&rule.matches)) => 2,
        () if commands.ask.iter().any(|rule| means(&rule.matches)) => 1,
        () if commands.allow.is_empty() || commands.allow.iter().any(|rule| means(&rule.matches)) => 0,
        () => 1,
    }
}

fn tools(new: &ToolsPolicy, old: &ToolsPolicy) -> Verdict {
    for tool in ["read", "write", "bash", "browser", "fetch"] {
        let may = |tools: &ToolsPolicy| {
            let has = |list: &[String]| list.iter().any(|name| name == tool);
            (tools.allow.value.is_empty() || has(&tools.allow.value)) && !has(&tools.deny.value)
        };
        hold(!may(new) || may(old), &format!("tool {tool}"))?;
    }
    for command in ["git", "git push origin", "git status", "rm -rf /", "ls", "other"] {
        hold(decided(new, command) >= decided(old, command), &format!("command {command}"))?;
    }
    let (patterns, were) = (&new.patterns.value.deny, &old.patterns.value.deny);
    hold(were.iter().all(|pattern| patterns.contains(pattern)), "tools.patterns")
}

/// Whether `new` insists on as much and gives no more than `old`.
pub(crate) fn plans(new: &Plan, old: &Plan) -> Verdict {
    for control in Control::ALL {
        // Without a secret to broker there is nothing to insist on.
        if *control != Control::NetworkCredentials {
            hold(new.requirement(*control) >= old.requirement(*control), control.name())?;
        }
    }
    for (key, new, old) in [
        ("CPU time", &new.limits.max_cpu_seconds, &old.limits.max_cpu_seconds),
        ("memory", &new.limits.max_memory_mb, &old.limits.max_memory_mb),
        ("disk", &new.limits.max_disk_mb, &old.limits.max_disk_mb),
        ("time", &new.limits.timeout_ms, &old.limits.timeout_ms),
        ("processes", &new.limits.max_processes, &old.limits.max_processes),
        ("descriptors", &new.limits.max_file_descriptors, &old.limits.max_file_descriptors),
        ("output", &new.limits.max_output_bytes, &old.limits.max_output_bytes),
    ] {
        hold(new.value <= old.value, key)?;
    }
    Ok(())
}
