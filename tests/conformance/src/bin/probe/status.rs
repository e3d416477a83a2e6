//! What processes inside are: who they are, what they may, what they hold open, in every thread of every
//! process.

use std::fs;
use std::io;
use std::process::Command;

use serde_json::{Value, json};

use crate::answer::Attempt;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("ids", |_| {
        let (mut real, mut effective, mut saved) = (0, 0, 0);
        // SAFETY: all three outlive the call.
        unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
        Ok(json!({ "real": real, "effective": effective, "saved": saved }))
    }),
    ("descriptors", |_| descriptors()),
    // The same in a program that this one starts: what is clean at the first exec must stay so.
    ("descriptors-of-child", |_| {
        let output = Command::new(std::env::current_exe()?).arg("descriptors").output()?;
        let said: Value = serde_json::from_slice(&output.stdout).map_err(io::Error::other)?;
        Ok(said["ok"].clone())
    }),
    ("privileges", |_| privileges()),
    ("environment", |_| {
        let all = std::env::vars_os();
        Ok(all
            .map(|(name, value)| (name.to_string_lossy().into_owned(), Value::from(value.to_string_lossy())))
            .collect::<serde_json::Map<_, _>>()
            .into())
    }),
    ("directory", |_| Ok(std::env::current_dir()?.to_string_lossy().into_owned().into())),
    ("namespaces", |_| {
        let mut found = serde_json::Map::new();
        for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
            let link = fs::read_link(format!("/proc/self/ns/{kind}"))?;
            found.insert(kind.to_owned(), link.to_string_lossy().into_owned().into());
        }
        Ok(found.into())
    }),
    ("host-name", |_| Ok(fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned().into())),
    ("mounts", |_| Ok(fs::read_to_string("/proc/self/mountinfo")?.into())),
];

/// What is open, and where it leads.
fn descriptors() -> io::Result<Value> {
    let mut found = serde_json::Map::new();
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let target = fs::read_link(entry.path()).map(|path| path.to_string_lossy().into_owned());
        // The descriptor that lists the directory is this function's own.
        let own = target.as_ref().is_ok_and(|target| target.starts_with("/proc/") && target.ends_with("/fd"));
        if !own {
            found.insert(name, target.unwrap_or_default().into());
        }
    }
    Ok(found.into())
}

/// The lines that matter of every thread of every process but process 1, which is the wall's own; with a
/// second thread and a grandchild made for the purpose.
fn privileges() -> io::Result<Value> {
    let (told, hear) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || hear.recv());
    let (reader, writer) = io::pipe()?;
    let mut shell = Command::new("sh");
    // The background job's input is the pipe again: a shell would give it none (sh(1), asynchronous lists).
    let mut grandchild = shell
        .args(["-c", "exec 3<&0; read x <&3 & echo; wait"])
        .stdin(reader)
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    if let Some(output) = &mut grandchild.stdout {
        io::Read::read_exact(output, &mut [0])?;
    }
    let wanted =
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups"];
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "1" || name.parse::<i32>().is_err() {
            continue;
        }
        for task in fs::read_dir(entry.path().join("task"))?.flatten() {
            let status = fs::read_to_string(task.path().join("status"))?;
            let mut lines = serde_json::Map::new();
            for line in status.lines() {
                if let Some((key, value)) = line.split_once(':')
                    && wanted.contains(&key)
                {
                    lines.insert(key.to_owned(), value.trim().into());
                }
            }
            lines.insert("task".to_owned(), task.file_name().to_string_lossy().into());
            all.push(Value::from(lines));
        }
    }
    drop(writer);
    grandchild.wait()?;
    drop(told);
    thread.join().map(drop).unwrap_or_default();
    Ok(all.into())
}
