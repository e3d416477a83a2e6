//! Compilers, interpreters and their test runners, with the profiles meant for them. What is not installed is
//! skipped, with the name of its Debian package.

use pinfold_conformance::{Done, Place, case, each, skip};

fn build(place: &Place, script: &str) -> Done {
    place.run().options(["--profile", "build"]).command(["bash", "-c", script])
}

#[test]
fn python_with_an_environment_and_tests() {
    let case = case!("python");
    each(case, |place| {
        if skip::needs(case, "python3", "python3").is_none() {
            return;
        }
        if !std::path::Path::new("/usr/lib/python3/dist-packages").exists() && !has_venv() {
            return skip::skip(case, "python3 cannot make environments (Debian package python3-venv)");
        }
        place.write(
            "workspace/test_it.py",
            "import unittest\nclass T(unittest.TestCase):\n    def \
            test(self):\n        self.assertEqual(6 * 7, 42)\n",
        );
        let script = r"set -e
            PATH=/usr/bin:$PATH
            python3 -m venv --without-pip env
            . env/bin/activate
            python -m unittest -q 2>&1
            python -c 'import sys, multiprocessing, threading, sqlite3, ssl; print(sys.prefix)'";
        let done = build(place, script).ok();
        assert!(
            done.stdout().contains("OK") && done.stdout().contains("/workspace/env"),
            "{}",
            done.stdout()
        );
    });
}

fn has_venv() -> bool {
    let asked = std::process::Command::new("/usr/bin/python3").args(["-c", "import venv"]).status();
    asked.is_ok_and(|status| status.success())
}

#[test]
fn python_processes_and_shared_memory() {
    let case = case!("multiprocessing");
    each(case, |place| {
        if skip::needs(case, "python3", "python3").is_none() {
            return;
        }
        place.write(
            "workspace/pool.py",
            "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n    with \
                m.Pool(3) as p: print(sum(p.map(f, range(10))))\n",
        );
        assert_eq!(build(place, "/usr/bin/python3 pool.py").ok().stdout(), "285\n");
    });
}

#[test]
fn cargo_build_of_a_crate_without_dependencies() {
    let case = case!("cargo");
    each(case, |place| {
        // The toolchain of whoever runs the tests: found through HOME, as on anyone's machine.
        let home = std::env::var("CARGO_HOME")
            .map(std::path::PathBuf::from)
            .ok()
            .and_then(|path| path.parent().map(Into::into));
        let home = home.or_else(std::env::home_dir).filter(|home| home.join(".cargo/bin/cargo").exists());
        let usable = |home: &std::path::PathBuf| {
            place
                .host("test")
                .args(["-x", &home.join(".cargo/bin/cargo").display().to_string()])
                .status()
                .is_ok_and(|s| s.success())
        };
        let Some(home) = home.filter(usable) else {
            return skip::skip(
                &format!("{case} as {}", place.caller),
                "no cargo that this caller can reach (rustup, or Debian package cargo)",
            );
        };
        place.write(
            "workspace/hello/Cargo.toml",
            "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        );
        place.write(
            "workspace/hello/src/main.rs",
            "fn main() {\n    println!(\"built \
            inside\");\n}\n\n#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n",
        );
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", home.join(".cargo/bin").display());
        let run = place.run().options(["--profile", "build"]).variable("HOME", &home).variable("PATH", path);
        let done = run.directory(place.workspace("hello")).command(["cargo", "run", "--quiet", "--offline"]);
        assert_eq!((done.status, done.stdout()), (Some(0), "built inside\n"), "{done:?}");
        assert!(place.exists("workspace/hello/target/debug/hello"), "nothing was built in the workspace");
    });
}

#[test]
fn node_and_npm_test() {
    let case = case!("node");
    each(case, |place| {
        if skip::needs(case, "node", "nodejs").is_none() {
            return;
        }
        let done = build(place, "node -e 'console.log([1, 2].map(x => x + 1).join())'").ok();
        assert_eq!(done.stdout(), "2,3\n");
        if skip::needs(case, "npm", "npm").is_none() {
            return;
        }
        place.write(
            "workspace/package.json",
            "{\"name\": \"small\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node test.js\"}}",
        );
        place.write("workspace/test.js", "require('assert').strictEqual(6 * 7, 42); console.log('tested');");
        let done = build(place, "npm test --silent").ok();
        assert!(done.stdout().contains("tested"), "{done:?}");
    });
}

#[test]
fn gcc_and_make() {
    let case = case!("gcc");
    each(case, |place| {
        for (program, package) in [("gcc", "gcc"), ("make", "make")] {
            if skip::needs(case, program, package).is_none() {
                return;
            }
        }
        place.write(
            "workspace/hello.c",
            "#include <stdio.h>\n#include <pthread.h>\nstatic void *f(void *x) \
            { return x; }\nint main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); \
            puts(\"built inside\"); return 0; }\n",
        );
        place.write(
            "workspace/Makefile",
            "hello: hello.c\n\tgcc -O1 -pthread -o hello hello.c\ntest: hello\n\t./hello\n",
        );
        let done = build(place, "make -s -j4 test").ok();
        assert_eq!(done.stdout(), "built inside\n");
    });
}

#[test]
fn a_server_on_localhost_and_its_client() {
    let case = case!("server");
    each(case, |place| {
        if skip::needs(case, "python3", "python3").is_none() {
            return;
        }
        place.write("workspace/page", "served");
        let script = r"
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
page = 'http://localhost:%d/page' % server.server_port
print(urllib.request.urlopen(page).read().decode())";
        let done = place.run().options(["--profile", "test"]).command(["/usr/bin/python3", "-c", script]);
        assert_eq!((done.status, done.stdout()), (Some(0), "served\n"), "{done:?}");
    });
}
