//! `pinfold explain`: what would be enforced, and where each number came from. Runs nothing.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use pinfold_core::control::Requirement;
use pinfold_core::coverage::{ReceiptLine, Status};
use pinfold_core::plan::{BackendChoice, Limit, Plan, ZoneSource};
use pinfold_core::text::{visible, visible_bytes};
use pinfold_engine::select::{self, Chosen, Refused};
use pinfold_policy::document::NetEntry;
use pinfold_policy::layer::{Layer, Trust};
use serde_json::json;

use crate::failure::Failure;
use crate::options::{Resolved, RunOptions};
use crate::output::{self, bold, table};

#[derive(Args, Debug)]
pub(crate) struct Explain {
    #[command(flatten)]
    options: RunOptions,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Explain {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let resolved = self.options.resolve(self.command, false)?;
        let plan = resolved.plan()?;
        let chosen = select::choose(&plan);
        let text = match self.json {
            true => as_json(&resolved, &plan, &chosen),
            false => as_text(&resolved, &plan, &chosen),
        };
        output::data(&text);
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(resolved: &Resolved, plan: &Plan, chosen: &Result<Chosen, Refused>) -> String {
    let command: Vec<_> = resolved.request.command.iter().map(|word| word.to_string_lossy()).collect();
    let layers: Vec<_> = resolved
        .layers
        .iter()
        .map(|layer| {
            let trusted = layer.trust() == Trust::Full;
            json!({ "layer": layer.kind().to_string(), "document": &*layer.source().name, "trusted": trusted })
        })
        .collect();
    let profile = resolved.settled.profile.name();
    let wall = match chosen {
        Ok(chosen) => {
            json!({ "backend": chosen.backend, "runs": chosen.unmet.is_empty(), "receipt": chosen.receipt })
        }
        Err(refused) => json!({ "runs": false, "code": refused.code(), "reason": refused.to_string() }),
    };
    let shown =
        json!({ "command": command, "profile": profile, "layers": layers, "plan": plan, "wall": wall });
    format!("{shown:#}\n")
}

fn as_text(resolved: &Resolved, plan: &Plan, chosen: &Result<Chosen, Refused>) -> String {
    let words: Vec<_> = resolved
        .request
        .command
        .iter()
        .map(|word| visible_bytes(word.as_encoded_bytes()).into_owned())
        .collect();
    let mut text = format!("{}\n", bold(&words.join(" ")));
    let parts: [(&str, Vec<Vec<String>>); 8] = [
        ("policy", policy(resolved)),
        ("wall", wall(plan)),
        ("files", files(plan)),
        ("network", network(resolved, plan)),
        ("limits", limits(plan)),
        ("environment", environment(plan)),
        ("controls", controls(plan)),
        ("coverage", coverage(chosen)),
    ];
    for (title, rows) in parts {
        text.push_str(&format!("\n{}\n{}", bold(title), table(&rows)));
    }
    text
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(|cell| visible(cell).into_owned()).collect()
}

fn policy(resolved: &Resolved) -> Vec<Vec<String>> {
    let mut rows = vec![row(["profile", resolved.settled.profile.name()])];
    let of = |layer: &Layer| {
        let trust = if layer.trust() == Trust::Full { "" } else { "may only narrow" };
        row([&layer.kind().to_string(), &layer.source().name, trust])
    };
    rows.extend(resolved.layers.iter().filter(|layer| layer.source().name.as_ref() != "options").map(of));
    rows
}

fn wall(plan: &Plan) -> Vec<Vec<String>> {
    let backend = match plan.wall.backend {
        BackendChoice::Auto => "the strongest here that covers the plan".to_owned(),
        BackendChoice::Named(backend) => backend.to_string(),
    };
    let privileges = &plan.privileges;
    let said = |on: bool, yes: &'static str, no: &'static str| if on { yes } else { no };
    let seccomp = format!("{:?}", privileges.seccomp).to_lowercase();
    vec![
        row(["isolation", &format!("at least {}", plan.wall.isolation), &plan.wall.because.to_string()]),
        row(["backend", &backend]),
        row([
            "user",
            &format!(
                "{} inside, {}",
                privileges.user_id,
                said(privileges.non_root, "never root", "may be root")
            ),
        ]),
        row(["capabilities", said(privileges.drop_capabilities, "none", "not dropped")]),
        row(["new privileges", said(privileges.no_new_privileges, "never", "possible")]),
        row(["system calls", &format!("table `{seccomp}`")]),
    ]
}

fn files(plan: &Plan) -> Vec<Vec<String>> {
    let mut rows = vec![row(["system", &format!("{}, read-only", plan.files.reads)])];
    for zone in &plan.files.zones {
        let what = match &zone.source {
            ZoneSource::Host { path, access } => format!("{path} ({access})"),
            ZoneSource::Tmpfs { size_mb } => format!("memory, {size_mb} MB"),
        };
        rows.push(row([&zone.inside.to_string(), &what]));
    }
    for path in &plan.files.read {
        rows.push(row([&path.to_string(), "shown read-only"]));
    }
    for path in &plan.files.write {
        rows.push(row([&path.to_string(), "shown writable"]));
    }
    for glob in &plan.files.deny {
        let cost = if glob.needs_walk() { "masked; the zones are walked at start" } else { "masked" };
        rows.push(row([glob.as_str(), cost]));
    }
    let protect = &plan.files.protect;
    let count = format!(
        "{} names, and {} in each git directory, cannot be changed",
        protect.names.len(),
        protect.git.len()
    );
    rows.push(row(["protected", &count]));
    for glob in &protect.extra {
        rows.push(row([glob.as_str(), "protected"]));
    }
    rows.push(row(["starts in", &plan.directory.to_string()]));
    rows
}

fn network(resolved: &Resolved, plan: &Plan) -> Vec<Vec<String>> {
    let network = &plan.network;
    if !network.enabled {
        let because = plan.controls.iter().find(|asked| asked.control.name() == "network.direct");
        let because = because.map(|asked| asked.because.to_string()).unwrap_or_default();
        let mut rows = vec![row(["off", "nothing but loopback", &because])];
        let listed = &resolved.settled.policy.net.allowlist;
        if !listed.value.is_empty() {
            let said = format!("{} destinations are listed; net.enabled is false", listed.value.len());
            rows.push(row(["allowlist", &said, &listed.origin().to_string()]));
        }
        return rows;
    }
    let mut rows = Vec::new();
    for allowed in &network.allow {
        let because = allowed.because.to_string();
        rows.push(row([&allowed.destination.to_string(), allowed.group.unwrap_or("allowed"), &because]));
    }
    let allowlist = &resolved.settled.policy.net.allowlist;
    if allowlist.value.contains(&NetEntry::Registries)
        && !network.allow.iter().any(|allowed| allowed.group.is_some())
    {
        rows.push(row(["@registries", "no registry is known", &allowlist.origin().to_string()]));
    }
    for blocked in &network.block {
        rows.push(row([&blocked.to_string(), "blocked"]));
    }
    if rows.is_empty() {
        rows.push(row(["on", "no destination is allowed"]));
    }
    rows
}

fn limits(plan: &Plan) -> Vec<Vec<String>> {
    let limits = &plan.limits;
    let line = |name: &str, limit: &Limit, unit: &str| {
        row([name, &format!("{} {unit}", limit.value), &limit.because.to_string()])
    };
    let seconds =
        |ms: u64| if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") };
    let mut rows = vec![
        line("CPU time", &limits.max_cpu_seconds, "s"),
        line("memory", &limits.max_memory_mb, "MB"),
        line("disk", &limits.max_disk_mb, "MB"),
        row(["wall time", &seconds(limits.timeout_ms.value), &limits.timeout_ms.because.to_string()]),
        line("processes", &limits.max_processes, "with threads"),
        line("descriptors", &limits.max_file_descriptors, "per process"),
        line("output", &limits.max_output_bytes, &format!("bytes, then {}", limits.on_output_limit)),
    ];
    if let Some(cpus) = &limits.cpus {
        rows.insert(1, row(["CPUs", &cpus.value.to_string(), &cpus.because.to_string()]));
    }
    rows
}

fn environment(plan: &Plan) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = plan.environment.set.iter().map(|(name, value)| row([name, value])).collect();
    rows.extend(plan.environment.pass.iter().map(|name| row([name, "(the caller's, if set)"])));
    rows
}

fn controls(plan: &Plan) -> Vec<Vec<String>> {
    let words = |requirement| match requirement {
        Requirement::Required => "required",
        Requirement::AtLeastPartial => "at least partial",
        Requirement::BestEffort => "best effort",
    };
    plan.controls
        .iter()
        .map(|asked| row([asked.control.name(), words(asked.requirement), &asked.because.to_string()]))
        .collect()
}

fn coverage(chosen: &Result<Chosen, Refused>) -> Vec<Vec<String>> {
    match chosen {
        Ok(chosen) => {
            let mut rows = vec![row(["backend", chosen.backend.name(), ""])];
            rows.extend(receipt_rows(&chosen.receipt));
            let refused = chosen.unmet.first();
            rows.extend(refused.map(|line| row(["would be refused", line.control.name(), &line.detail])));
            rows
        }
        Err(refused) => vec![row(["would be refused", refused.code(), &refused.to_string()])],
    }
}

/// Which mechanism holds each promise, and what is left open.
pub(super) fn receipt_rows(receipt: &[ReceiptLine]) -> Vec<Vec<String>> {
    receipt
        .iter()
        .map(|line| {
            let status = match line.status {
                Status::Enforced => "enforced",
                Status::Partial => "partial",
                Status::Missing => "missing",
            };
            let by = [line.mechanism.as_str(), line.detail.as_str()];
            let by: Vec<&str> = by.into_iter().filter(|part| !part.is_empty()).collect();
            row([line.control.name(), status, &by.join(": ")])
        })
        .collect()
}
