//! A file of the host with random content. An attack that is refused leaves it as it was in every respect
//! that an attack could change.

use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Caller;

/// A file, and what it was when it was made.
#[derive(Debug)]
pub struct Canary {
    path: PathBuf,
    secret: String,
    was: Traits,
}

/// Everything about a file that an attack could change. Reading it changes none of these.
#[derive(Debug, PartialEq, Eq)]
struct Traits {
    content: Option<Vec<u8>>,
    inode: u64,
    links: u64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
}

impl Traits {
    fn of(path: &Path) -> Option<Self> {
        let found: Metadata = fs::symlink_metadata(path).ok()?;
        Some(Self {
            content: fs::read(path).ok(),
            inode: found.ino(),
            links: found.nlink(),
            mode: found.mode(),
            owner: (found.uid(), found.gid()),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

impl Canary {
    /// Makes one that belongs to `caller`, so that nothing but the wall keeps its commands from it.
    pub fn new(path: PathBuf, caller: Caller) -> Self {
        let secret = random();
        fs::write(&path, format!("canary {secret}\n")).expect("write a canary");
        caller.own(&path);
        Self::watch(path, secret)
    }

    /// Takes the present state of an existing file for the right one.
    pub fn of(path: PathBuf) -> Self {
        let secret = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).trim().to_owned();
        Self::watch(path, secret)
    }

    fn watch(path: PathBuf, secret: String) -> Self {
        let was = Traits::of(&path).expect("a canary");
        Self { path, secret, was }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What nobody inside may learn.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Whether anything about it changed.
    pub fn is_changed(&self) -> bool {
        Traits::of(&self.path).as_ref() != Some(&self.was)
    }

    /// Fails if anything about it changed.
    pub fn assert_unchanged(&self) {
        let now = Traits::of(&self.path);
        assert_eq!(now.as_ref(), Some(&self.was), "the canary {} changed", self.path.display());
    }
}

/// Sixteen random bytes, in letters.
pub fn random() -> String {
    let mut bytes = [0; 16];
    let mut source = fs::File::open("/dev/urandom").expect("open /dev/urandom");
    source.read_exact(&mut bytes).expect("read /dev/urandom");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
