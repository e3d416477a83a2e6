//! A value in force together with who stated it.

use pinfold_core::origin::Origin;
use serde::Serialize;

use crate::document::Row;

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Who stated it, and what. Where layers add up: everyone who did, in order.
    stated: Vec<(T, Origin)>,
}

impl<T> Setting<T> {
    /// A value that nobody stated.
    pub(crate) fn new(value: T) -> Self {
        Self { value, stated: Vec::new() }
    }

    /// The one to name when asked who stated it: the lowest layer that did.
    pub fn origin(&self) -> &Origin {
        self.stated.last().map_or(&Origin::Rule("built in"), |(_, origin)| origin)
    }

    /// What each layer stated, for those whose statements are part of the value, in order.
    pub(crate) fn stated(&self) -> impl Iterator<Item = (&T, &Origin)> {
        self.stated.iter().map(|(value, origin)| (value, origin))
    }

    /// A layer stated `value` in place of what was.
    pub(crate) fn replace(&mut self, value: T, origin: Origin)
    where
        T: Clone,
    {
        self.value = value.clone();
        self.stated = vec![(value, origin)];
    }

    /// A layer added `stated` to what was; `value` is the sum.
    pub(crate) fn add(&mut self, value: T, stated: T, origin: Origin) {
        self.value = value;
        self.stated.push((stated, origin));
    }
}

impl<T: Serialize> Setting<T> {
    pub(crate) fn row(&self, key: &str) -> Row {
        // Every value of a policy serialises to JSON: names, numbers, text, and lists and maps of them.
        let value = serde_json::to_value(&self.value).unwrap_or(serde_json::Value::Null);
        Row {
            key: key.to_owned(),
            value,
            origins: self.stated.iter().map(|(_, origin)| origin.clone()).collect(),
        }
    }
}

impl<T: Default> Default for Setting<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
