//! The walls that the suite runs on. A new one adds itself here and nowhere else: its name, and how to find
//! out whether it can be used on this host by this caller.

use crate::Place;

/// A wall, by the name that `--backend` takes.
#[derive(Debug)]
pub struct Backend {
    /// The name.
    pub name: &'static str,
    /// Why it cannot be used here, if so.
    probe: fn(&Place, &str) -> Option<String>,
}

/// Every wall.
pub const ALL: &[Backend] = &[Backend { name: "namespace", probe: ask_doctor }];

impl Backend {
    /// Why this wall cannot be used here by the caller of `place`, if so.
    pub fn unavailable(&self, place: &Place) -> Option<String> {
        (self.probe)(place, self.name)
    }
}

/// What `pinfold doctor` says of it.
fn ask_doctor(place: &Place, name: &str) -> Option<String> {
    let output = place.pinfold(&["doctor", "--backend", name, "--json"]).output().expect("start pinfold");
    assert!(output.status.success(), "pinfold doctor failed: {}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("doctor prints JSON");
    let wall = &said["backends"][0];
    assert_eq!(wall["backend"], name, "doctor speaks of another backend");
    match wall["usable"].as_bool() {
        Some(true) => None,
        _ => Some(wall["reason"].as_str().unwrap_or("no reason given").to_owned()),
    }
}
