//! Skips: what cannot run on this host, with the reason. A skip is one line in the file that
//! `PINFOLD_TEST_SKIPS` names, where `./test` counts it apart from what passed.

use std::io::Write;
use std::path::PathBuf;

/// Says that `case` did not run, and why.
pub fn skip(case: &str, reason: &str) {
    let line = format!("{case}: {}\n", reason.replace('\n', " "));
    if let Some(file) = std::env::var_os("PINFOLD_TEST_SKIPS") {
        let mut file =
            std::fs::OpenOptions::new().append(true).create(true).open(file).expect("open the list of skips");
        // One write of a short line: tests of several processes append to the same file.
        file.write_all(line.as_bytes()).expect("append to the list of skips");
    }
    eprint!("skipped: {line}");
}

/// Where `program` is on the usual path of a system. Skips `case` when it is not there, naming the Debian
/// package.
pub fn needs(case: &str, program: &str, package: &str) -> Option<PathBuf> {
    let found = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"]
        .iter()
        .map(|directory| PathBuf::from(directory).join(program))
        .find(|path| path.exists());
    if found.is_none() {
        skip(case, &format!("{program} is not installed (Debian package {package})"));
    }
    found
}
