//! How a value type travels: as the one text that its `Display` writes and its `FromStr` reads.
//!
//! Owns the serde and JSON Schema forms shared by every such type. What the text means is the business of the
//! type's own file.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

/// Reads a string and parses it, so that a value from a file passes the same border as one from an argument.
pub(crate) fn deserialize_written<'de, D, T>(deserializer: D, what: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    deserializer.deserialize_str(Written { what, parsed: PhantomData })
}

/// The visitor of [`deserialize_written`]; needs no copy of a borrowed string.
struct Written<T> {
    what: &'static str,
    parsed: PhantomData<T>,
}

impl<T> Visitor<'_> for Written<T>
where
    T: FromStr<Err: fmt::Display>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Gives a type with `Display` and `FromStr` its serde form, and with the `schema` feature an inlined JSON
/// Schema of a string. `kind` becomes the format `pinfold-<kind>`; more keywords may follow.
macro_rules! written_as_text {
    (
        $type:ty, kind: $kind:literal, what: $what:literal, description: $description:literal,
        examples: [$($example:literal),+ $(,)?] $(, $keyword:literal: $value:tt)* $(,)?
    ) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::deserialize_written(deserializer, $what)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "format": concat!("pinfold-", $kind),
                    "description": $description,
                    "examples": [$($example),+]
                    $(, $keyword: $value)*
                })
            }
        }
    };
}

pub(crate) use written_as_text;

#[cfg(all(test, feature = "schema"))]
mod tests {
    use schemars::{JsonSchema, SchemaGenerator};

    /// The format that a type's schema states, once it is known to be an inlined string with examples that
    /// parse.
    fn format<T: JsonSchema + std::str::FromStr>() -> String {
        let schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
        assert!(T::inline_schema());
        assert_eq!(schema["type"], "string");
        assert!(schema["description"].is_string());
        let examples = schema["examples"].as_array().cloned().unwrap_or_default();
        assert!(!examples.is_empty());
        assert!(examples.iter().all(|text| text.as_str().is_some_and(|text| text.parse::<T>().is_ok())));
        schema["format"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn schemas_state_their_format() {
        assert_eq!(format::<crate::host::Host>(), "pinfold-host");
        assert_eq!(format::<crate::destination::Destination>(), "pinfold-destination");
        assert_eq!(format::<crate::glob::Glob>(), "pinfold-glob");
        assert_eq!(format::<crate::zone::ZoneName>(), "pinfold-zone-name");
        assert_eq!(format::<crate::zone::Access>(), "pinfold-access");
        assert_eq!(format::<crate::quantity::Size>(), "pinfold-size");
        assert_eq!(format::<crate::quantity::Span>(), "pinfold-span");
    }
}
