//! What a configuration may say, and the many ways to say something else.

use super::*;

const CLONED: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
                      [remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                      [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A B\n\temail = a@b.c\n";

fn rest(text: &str) -> String {
    match judge(text.as_bytes()) {
        Verdict::Inert => panic!("inert: {text:?}"),
        Verdict::Active { rest, .. } => rest,
    }
}

#[test]
fn what_git_writes_for_init_and_clone_is_inert() {
    assert_eq!(judge(CLONED.as_bytes()), Verdict::Inert);
    assert_eq!(judge(b""), Verdict::Inert);
    for url in
        ["git@example.org:a/b.git", "/srv/git/a.git", "../other", "ssh://h/x", "file:///srv/x", "host:path"]
    {
        assert_eq!(judge(format!("[remote \"o\"]\n\turl = {url}\n").as_bytes()), Verdict::Inert, "{url}");
    }
}

#[test]
fn every_key_that_runs_a_program_is_active() {
    for setting in [
        "[core]\n\tfsmonitor = /tmp/x",
        "[core]\n\thooksPath = .h",
        "[core]\n\teditor = x",
        "[core]\n\tpager = x",
        "[core]\n\tsshCommand = x",
        "[core]\n\tgitProxy = x",
        "[core]\n\taskPass = x",
        "[core]\n\tworktree = /",
        "[core]\n\talternateRefsCommand = x",
        "[diff]\n\texternal = x",
        "[diff \"a\"]\n\tcommand = x",
        "[diff \"a\"]\n\ttextconv = x",
        "[filter \"a\"]\n\tclean = x",
        "[filter \"a\"]\n\tsmudge = x",
        "[filter \"a\"]\n\tprocess = x",
        "[merge \"a\"]\n\tdriver = x",
        "[alias]\n\tst = !x",
        "[include]\n\tpath = x",
        "[includeIf \"gitdir:/\"]\n\tpath = x",
        "[credential]\n\thelper = x",
        "[gpg]\n\tprogram = x",
        "[gpg \"ssh\"]\n\tprogram = x",
        "[protocol \"ext\"]\n\tallow = always",
        "[remote \"o\"]\n\tuploadpack = x",
        "[remote \"o\"]\n\treceivepack = x",
        "[remote \"o\"]\n\tvcs = x",
        "[submodule \"a\"]\n\tupdate = !x",
        "[sequence]\n\teditor = x",
        "[pager]\n\tlog = x",
        "[browser \"a\"]\n\tcmd = x",
        "[man \"a\"]\n\tcmd = x",
        "[sendemail]\n\tsmtpServer = x",
        "[uploadpack]\n\tpackObjectsHook = x",
        "[url \"ext::sh -c x\"]\n\tinsteadOf = h",
        "[extensions]\n\tworktreeConfig = true",
        "[remote \"o\"]\n\turl = ext::sh -c x",
        "[remote \"o\"]\n\turl = -oProxyCommand=x",
        "[remote \"o\"]\n\turl = ssh://-oProxyCommand=x/y",
        "[branch \"m\"]\n\tremote = ext::sh",
        "[interactive]\n\tdiffFilter = x",
        "[web]\n\tbrowser = x",
        "[mergetool \"a\"]\n\tcmd = x",
        "[difftool \"a\"]\n\tcmd = x",
        "[maintenance]\n\trepo = /",
        "[log]\n\tx = y",
        "[trailer \"a\"]\n\tcommand = x",
        "[tar \"a\"]\n\tcommand = x",
        "[safe]\n\tdirectory = *",
    ] {
        assert_eq!(rest(&format!("{setting}\n")).trim(), "", "{setting}");
        assert!(rest(&format!("{CLONED}{setting}\n")).starts_with("[core]\n"), "{setting}");
        assert_eq!(judge(rest(&format!("{CLONED}{setting}\n")).as_bytes()), Verdict::Inert, "{setting}");
    }
}

#[test]
fn what_another_reader_could_see_differently_is_not_trusted() {
    for text in [
        // A value that goes on in the next line would hide a key from a reader by lines.
        "[user]\n\tname = a \\\n[core]\n\tbare = false\n",
        "[core] fsmonitor = x\n",
        "[core]\n\tbare = false # [x]\n",
        "[core]\n\tbare = \"false\n\tfsmonitor = x\"\n",
        "[core]\r\n\tbare = false\r\n\tfsmonitor = x\r\n",
        "[core]\n\tbare = false\rfsmonitor = x\n",
        "\u{feff}[core]\n\tfsmonitor = x\n",
        "[core\n\tbare = false\n",
        "[core \"a\\\"b\"]\n\tbare = x\n",
        "[core.x]\n\tfsmonitor = y\n",
        "\tbare = false\n",
        "[user]\n\tname\n",
        "[user]\n\tname = a\0b\n",
    ] {
        let left = rest(text);
        assert!(!left.contains("fsmonitor"), "{text:?} {left:?}");
        assert_eq!(judge(left.as_bytes()), Verdict::Inert, "{text:?} {left:?}");
    }
    assert!(matches!(judge(b"[user]\n\tname = \xff\n"), Verdict::Active { .. }));
    // The settings of a header that was not understood belong to no other.
    assert_eq!(rest("[user]\n[alias]x=!y\n\tname = z\n"), "");
}

#[test]
fn where_hooks_and_includes_are_is_found_in_any_writing() {
    let text = b"[Core]\n\thooksPath = .husky/_\n[include]\n path=\"../x.cfg\"\n[includeIf \"gitdir:~/a/\"]\n\tPath = y\n[core] HOOKSPATH=z\n";
    let found = points_to(text);
    let hooks = |path: &str| (Points::Hooks, PathBuf::from(path));
    let include = |path: &str| (Points::Include, PathBuf::from(path));
    assert_eq!(found, [hooks(".husky/_"), include("../x.cfg"), include("y"), hooks("z")]);
}
