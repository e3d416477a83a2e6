//! Programs that people run, behind the filter: a refusal that breaks them would be switched off, and then
//! refuse nothing.

use std::process::Command;

use super::runner::{User, Wall, answer, command};
use super::users;

/// Where every user finds programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Name, script, what it must print, the profiles it must work in.
const PROGRAMS: &[(&str, &str, &str, &[Wall])] = &[
    (
        "sh",
        "echo one two | tr ' ' '\\n' | sort -r | head -1",
        "two",
        &[Wall::Default, Wall::Strict, Wall::Debug],
    ),
    ("python3", THREAD, "42", &[Wall::Default, Wall::Strict, Wall::Debug]),
    ("python3", SUBPROCESS, "sub", &[Wall::Default, Wall::Strict]),
    ("python3", SERVER, "served", &[Wall::Default]),
    ("python3", POOL, "3", &[Wall::Default]),
    ("node", HASH, "e3b0", &[Wall::Default, Wall::Strict]),
    ("node", CHILD, "child", &[Wall::Default]),
    ("git", GIT, "first", &[Wall::Default]),
    (
        "gcc",
        "printf '#include <stdio.h>\\nint main(void){puts(\"built\");}' > m.c && gcc -O1 -o m m.c && ./m",
        "built",
        &[Wall::Default],
    ),
    (
        "tar",
        "mkdir d && echo hi > d/f && tar czf d.tgz d && rm -r d && tar xzf d.tgz && cat d/f",
        "hi",
        &[Wall::Default, Wall::Strict],
    ),
    (
        "cp",
        "echo hi > a && cp -a a b && mv b c && ln c e && ln -s e g && chmod 755 g && cat g",
        "hi",
        &[Wall::Default, Wall::Strict],
    ),
    ("strace", "strace -f -o log true && grep -c exit_group log", "1", &[Wall::Debug]),
    (
        "gdb",
        "gdb -nx -batch -ex 'break main' -ex run -ex 'print 40+2' ./target 2>&1 | grep -o '= 42'",
        "= 42",
        &[Wall::Debug],
    ),
];

const THREAD: &str = "python3 -c '
import threading
thread = threading.Thread(target=print, args=(6 * 7,))
thread.start()
thread.join()'";
const SUBPROCESS: &str = r#"python3 -c '
import subprocess
print(subprocess.run(["echo", "sub"], capture_output=True).stdout.decode())'"#;
const SERVER: &str = r#"python3 -c '
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"served")).start()
print(socket.create_connection(("localhost", server.getsockname()[1])).recv(9).decode())'"#;
const POOL: &str = "python3 -c '
import multiprocessing
print(sum(multiprocessing.Pool(2).map(abs, [-1, -2])))'";
const HASH: &str = r#"node -e '
console.log(require("crypto").createHash("sha256").update("").digest("hex").slice(0, 4))'"#;
const CHILD: &str = r#"node -e '
console.log(require("child_process").execSync("echo child").toString().trim());
require("fs").promises.readFile("/etc/passwd")'"#;
const GIT: &str = "git init -q r && cd r && git config user.email a@b && git config user.name a
echo x > f && git add f && git commit -qm first && cd .. && git clone -q r s && git -C s log --format=%s";

#[test]
fn what_people_run_still_runs() {
    for user in users() {
        for (index, (program, _, expected, walls)) in PROGRAMS.iter().enumerate() {
            if !installed(program) {
                answer("skipped", format!("{program} is not installed"));
                continue;
            }
            for wall in walls.iter().chain([&Wall::None]) {
                let directory = tempfile::tempdir().unwrap();
                prepare(directory.path(), program, user);
                let mut command = command(&format!("program {index}"), *wall, user);
                command.current_dir(directory.path()).env("HOME", directory.path()).env("PATH", PATH);
                let output = command.output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    said.contains(&format!("answer {index}: {expected}\n")),
                    "{program} behind {wall:?} as {user:?}: {said}"
                );
            }
        }
    }
}

fn installed(program: &str) -> bool {
    PATH.split(':').any(|directory| std::path::Path::new(directory).join(program).exists())
}

fn prepare(directory: &std::path::Path, program: &str, user: User) {
    if user == User::Nobody {
        std::os::unix::fs::chown(directory, Some(super::runner::NOBODY), Some(super::runner::NOBODY))
            .unwrap();
    }
    if program == "gdb" {
        std::fs::write(directory.join("target.c"), "int main(void){return 0;}").unwrap();
        let built =
            Command::new("gcc").args(["-g", "-o", "target", "target.c"]).current_dir(directory).status();
        assert!(built.unwrap().success());
    }
}

/// Runs one of the programs behind whatever is up.
pub(crate) fn inside(what: &str) {
    let index: usize = what.strip_prefix("program ").and_then(|index| index.parse().ok()).unwrap();
    let output = Command::new("/bin/sh").args(["-c", PROGRAMS[index].1]).output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    answer(&index.to_string(), format!("{}\n{failed}", said.trim()));
}
