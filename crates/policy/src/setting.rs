//! A value in force together with who stated it.

use pinfold_core::origin::Origin;
use serde::Serialize;

use crate::document::Row;

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Who stated it. Where layers add up: everyone who did, in order.
    origins: Vec<Origin>,
}

impl<T> Setting<T> {
    /// A value that nobody stated.
    pub(crate) fn new(value: T) -> Self {
        Self { value, origins: Vec::new() }
    }

    /// The one to name when asked who stated it: the lowest layer that did.
    pub fn origin(&self) -> &Origin {
        self.origins.last().unwrap_or(&Origin::Rule("built in"))
    }

    /// A layer stated `value` in place of what was.
    pub(crate) fn replace(&mut self, value: T, origin: Origin) {
        self.value = value;
        self.origins = vec![origin];
    }

    /// A layer added to what was; `value` is the sum.
    pub(crate) fn add(&mut self, value: T, origin: Origin) {
        self.value = value;
        self.origins.push(origin);
    }
}

impl<T: Serialize> Setting<T> {
    pub(crate) fn row(&self, key: &str) -> Row {
        // Every value of a policy serialises to JSON: names, numbers, text, and lists and maps of them.
        let value = serde_json::to_value(&self.value).unwrap_or(serde_json::Value::Null);
        Row { key: key.to_owned(), value, origins: self.origins.clone() }
    }
}

impl<T: Default> Default for Setting<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
