//! How a lower layer's value meets the one in force: what holds afterwards, and whether that allows more.
//!
//! One type per meaning, so that the table of keys names it beside each key.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;

use pinfold_core::plan::{BackendChoice, IsolationLevel};

use crate::document::{
    Commands, Cpus, EnvMap, EnvName, NetEntry, NetRule, Patterns, PolicyPath, SeccompChoice, ZoneEntry,
    ZoneMode,
};

/// What a layer's lists do to those above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lists {
    /// They stand in their place, as in a document.
    Replace,
    /// They come on top, as options on a command line do.
    Extend,
}

/// How values of one key meet.
pub(crate) trait Rule<T> {
    /// True where lower layers add to what is above and can take nothing away.
    const ADDS: bool = false;

    /// What holds once a lower layer says `new`.
    fn merge(current: &T, new: T, lists: Lists) -> T;

    /// Why `new` allows more than `current`, if it does. What cannot be compared counts as more.
    fn widens(current: &T, new: &T) -> Option<String>;
}

/// Declares rules for single values, which replace the one above.
macro_rules! single {
    ($($(#[$doc:meta])* $rule:ident<$t:ident: $bound:path> = |$current:ident, $new:ident| $widens:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $rule;

        impl<$t: $bound + Display> Rule<$t> for $rule {
            fn merge(_: &$t, new: $t, _: Lists) -> $t {
                new
            }

            fn widens($current: &$t, $new: &$t) -> Option<String> {
                $widens
            }
        }
    )*};
}

single! {
    /// Less is narrower.
    AtMost<T: Ord> = |current, new| (new > current).then(|| format!("{new} is more than {current}"));
    /// More is narrower.
    AtLeast<T: Ord> = |current, new| (new < current).then(|| format!("{new} is less than {current}"));
    /// Nothing but the same is narrower.
    Same<T: PartialEq> = |current, new| (new != current).then(|| format!("`{new}` is not `{current}`"));
}

/// `true` is narrower.
pub(crate) struct On;

impl Rule<bool> for On {
    fn merge(_: &bool, new: bool, _: Lists) -> bool {
        new
    }

    fn widens(current: &bool, new: &bool) -> Option<String> {
        (*current && !*new).then(|| "it is switched off".to_owned())
    }
}

/// `false` is narrower.
pub(crate) struct Off;

impl Rule<bool> for Off {
    fn merge(_: &bool, new: bool, _: Lists) -> bool {
        new
    }

    fn widens(current: &bool, new: &bool) -> Option<String> {
        (!*current && *new).then(|| "it is switched on".to_owned())
    }
}

/// A level that satisfies the one in force is narrower. Not the order of the levels: `wasm` stands beside `vm`.
pub(crate) struct Stronger;

impl Rule<IsolationLevel> for Stronger {
    fn merge(_: &IsolationLevel, new: IsolationLevel, _: Lists) -> IsolationLevel {
        new
    }

    fn widens(current: &IsolationLevel, new: &IsolationLevel) -> Option<String> {
        (!new.satisfies(*current)).then(|| format!("`{new}` does not satisfy `{current}`"))
    }
}

/// A choice of wall takes nothing away, for the controls decide; a choice already made stays.
pub(crate) struct Chosen;

impl Rule<BackendChoice> for Chosen {
    fn merge(_: &BackendChoice, new: BackendChoice, _: Lists) -> BackendChoice {
        new
    }

    fn widens(current: &BackendChoice, new: &BackendChoice) -> Option<String> {
        (*current != BackendChoice::Auto && new != current).then(|| format!("`{new}` is not `{current}`"))
    }
}

/// Fewer CPUs is narrower; none stated means all.
pub(crate) struct Fewer;

impl Rule<Option<Cpus>> for Fewer {
    fn merge(_: &Option<Cpus>, new: Option<Cpus>, _: Lists) -> Option<Cpus> {
        new
    }

    fn widens(current: &Option<Cpus>, new: &Option<Cpus>) -> Option<String> {
        let all = |cpus: &Option<Cpus>| cpus.map_or(f64::INFINITY, Cpus::get);
        (all(new) > all(current)).then(|| format!("{} is more than {}", all(new), all(current)))
    }
}

/// A path that grants something: nothing but the same is narrower, for a link below could lead anywhere.
pub(crate) struct SamePath;

impl Rule<Option<PolicyPath>> for SamePath {
    fn merge(_: &Option<PolicyPath>, new: Option<PolicyPath>, _: Lists) -> Option<PolicyPath> {
        new
    }

    fn widens(current: &Option<PolicyPath>, new: &Option<PolicyPath>) -> Option<String> {
        let path = new.as_ref()?;
        (new != current).then(|| format!("{path} is shown"))
    }
}

/// The stricter table is narrower; a file can only refuse more than the default does. A file and the strict table
/// cannot be compared: a file may refuse what pure computation uses.
pub(crate) struct Stricter;

impl Rule<SeccompChoice> for Stricter {
    fn merge(_: &SeccompChoice, new: SeccompChoice, _: Lists) -> SeccompChoice {
        new
    }

    fn widens(current: &SeccompChoice, new: &SeccompChoice) -> Option<String> {
        let refuses_less = match (current, new) {
            (current, new) if current == new => false,
            (SeccompChoice::Debug, _) => false,
            (SeccompChoice::Default, SeccompChoice::Strict | SeccompChoice::File(_)) => false,
            _ => true,
        };
        refuses_less.then(|| format!("`{new}` refuses less than `{current}`"))
    }
}

/// A list that denies: layers add to it and take nothing away.
pub(crate) struct Adds;

impl<T: Clone + Eq + Hash> Rule<Vec<T>> for Adds {
    const ADDS: bool = true;

    fn merge(current: &Vec<T>, new: Vec<T>, _: Lists) -> Vec<T> {
        union(current, new)
    }

    fn widens(_: &Vec<T>, _: &Vec<T>) -> Option<String> {
        None
    }
}

impl Rule<Patterns> for Adds {
    const ADDS: bool = true;

    fn merge(current: &Patterns, new: Patterns, _: Lists) -> Patterns {
        Patterns { deny: union(&current.deny, new.deny) }
    }

    fn widens(_: &Patterns, _: &Patterns) -> Option<String> {
        None
    }
}

fn union<T: Clone + Eq + Hash>(current: &[T], new: Vec<T>) -> Vec<T> {
    let mut seen: HashSet<T> = current.iter().cloned().collect();
    let mut all = current.to_vec();
    all.extend(new.into_iter().filter(|item| seen.insert(item.clone())));
    all
}

/// A list that grants: a document's replaces the one above, an option's comes on top. Fewer is narrower.
pub(crate) struct Grants;

/// Whether everything that `other` grants is granted by `self` already.
pub(crate) trait Covers: Clone + Eq + Hash + Display {
    fn covers(&self, other: &Self) -> bool {
        self == other
    }
}

impl Covers for EnvName {}
/// No prefix match: a link below an allowed directory could lead anywhere.
impl Covers for PolicyPath {}

impl Covers for NetEntry {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Destination(wide), Self::Destination(narrow)) => wide.covers(narrow),
            (Self::Registries, Self::Registries) => true,
            _ => false,
        }
    }
}

impl<T: Covers> Rule<Vec<T>> for Grants {
    fn merge(current: &Vec<T>, new: Vec<T>, lists: Lists) -> Vec<T> {
        match lists {
            Lists::Replace => new,
            Lists::Extend => union(current, new),
        }
    }

    fn widens(current: &Vec<T>, new: &Vec<T>) -> Option<String> {
        let same: HashSet<&T> = current.iter().collect();
        let covered = |item: &T| same.contains(item) || current.iter().any(|wide| wide.covers(item));
        let extra = new.iter().find(|item| !covered(item))?;
        Some(format!("`{extra}` is added"))
    }
}

/// A rule opens its host and may carry a secret, so none may be added; and it bounds what is said to a host that the
/// allow list may open as well, so none that bounds anything may go.
impl Rule<Vec<NetRule>> for Grants {
    fn merge(current: &Vec<NetRule>, new: Vec<NetRule>, lists: Lists) -> Vec<NetRule> {
        match lists {
            Lists::Replace => new,
            Lists::Extend => union(current, new),
        }
    }

    fn widens(current: &Vec<NetRule>, new: &Vec<NetRule>) -> Option<String> {
        let (before, after): (HashSet<&NetRule>, HashSet<&NetRule>) =
            (current.iter().collect(), new.iter().collect());
        if let Some(extra) = new.iter().find(|rule| !before.contains(rule)) {
            return Some(format!("a rule for {} is added", extra.host));
        }
        let gone = current.iter().find(|rule| rule.bounds() && !after.contains(rule))?;
        Some(format!("the rule for {} is removed, and with it what bounds that host", gone.host))
    }
}

/// Zones meet by name. One that shows a host path grants; memory of its own does not.
impl Rule<Vec<ZoneEntry>> for Grants {
    fn merge(current: &Vec<ZoneEntry>, new: Vec<ZoneEntry>, _: Lists) -> Vec<ZoneEntry> {
        let mut all = current.clone();
        let mut places: HashMap<_, _> =
            current.iter().enumerate().map(|(i, zone)| (zone.name.clone(), i)).collect();
        for zone in new {
            match places.get(&zone.name) {
                Some(&place) => all[place] = zone,
                None => {
                    places.insert(zone.name.clone(), all.len());
                    all.push(zone);
                }
            }
        }
        all
    }

    fn widens(current: &Vec<ZoneEntry>, new: &Vec<ZoneEntry>) -> Option<String> {
        let before: HashMap<_, _> = current.iter().map(|zone| (&zone.name, zone)).collect();
        let extra = new.iter().find(|zone| grants_more(before.get(&zone.name).copied(), zone))?;
        Some(match &extra.host_path {
            Some(path) => format!("zone {} shows {path}", extra.name),
            None => format!("zone {} may grow", extra.name),
        })
    }
}

/// Whether `zone` gives what the zone of its name did not.
fn grants_more(current: Option<&ZoneEntry>, zone: &ZoneEntry) -> bool {
    match (current, zone.mode) {
        (Some(current), _) if current == zone => false,
        (Some(current), ZoneMode::Ro) => current.mode != ZoneMode::Rw || current.host_path != zone.host_path,
        (Some(current), ZoneMode::Tmpfs) if current.mode == ZoneMode::Tmpfs => {
            // Without a size it is a share of the memory, which another layer may set.
            !matches!((current.size_mb, zone.size_mb), (Some(current), Some(new)) if new <= current)
        }
        (_, ZoneMode::Tmpfs) => false,
        (_, ZoneMode::Ro | ZoneMode::Rw) => true,
    }
}

/// Variables meet by name. Setting one grants nothing of the host's; changing one that is set does count.
impl Rule<EnvMap> for Grants {
    fn merge(current: &EnvMap, new: EnvMap, _: Lists) -> EnvMap {
        let mut all = current.clone();
        all.extend(new);
        all
    }

    fn widens(current: &EnvMap, new: &EnvMap) -> Option<String> {
        let (name, _) =
            current.iter().find(|(name, value)| new.get(name).is_some_and(|new| new != *value))?;
        Some(format!("{name} is changed"))
    }
}

/// An allow list in which nothing stated means everything.
pub(crate) struct AllowList;

impl Rule<Vec<String>> for AllowList {
    fn merge(_: &Vec<String>, new: Vec<String>, _: Lists) -> Vec<String> {
        new
    }

    fn widens(current: &Vec<String>, new: &Vec<String>) -> Option<String> {
        if current.is_empty() {
            return None;
        }
        if new.is_empty() {
            return Some("everything is allowed".to_owned());
        }
        let extra = new.iter().find(|tool| !current.contains(tool))?;
        Some(format!("`{extra}` is added"))
    }
}

/// Rules to ask and to deny add up; rules to allow are an allow list.
impl Rule<Commands> for AllowList {
    fn merge(current: &Commands, new: Commands, _: Lists) -> Commands {
        Commands {
            allow: if new.allow.is_empty() { current.allow.clone() } else { new.allow },
            ask: union(&current.ask, new.ask),
            deny: union(&current.deny, new.deny),
        }
    }

    fn widens(current: &Commands, new: &Commands) -> Option<String> {
        let words =
            |commands: &Commands| commands.allow.iter().map(|rule| rule.matches.clone()).collect::<Vec<_>>();
        <Self as Rule<Vec<String>>>::widens(&words(current), &words(new))
    }
}
