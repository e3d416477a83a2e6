//! Promises about files: `files.outside`, `files.zones`, `files.deny`, `files.protected`, `files.self`,
//! `privileges.setid`, `root.readonly`.
//!
//! Of the catalogue's classes 1 to 22, these are not here, because the product has no such part yet: 3 and
//! the file tool's half of 2 (nothing copies files in or out), 4 (no exec into a live sandbox), 15 (no
//! images), 20 (no archives).

mod deny;
mod devices;
mod git;
mod hostile;
mod mounts;
mod outside;
mod own;
mod payload;
mod placeholders;
mod planted;
mod protected;
mod repositories;
mod setid;
mod symlinks;
mod zones;
