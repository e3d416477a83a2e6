//! A tree of values as a serde source: typed values out of [`Node`]s, errors with their place.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::problem::{Code, Problem, Source, Span};
use crate::yaml::{Entry, Node, Value};

/// Reads a `T` out of `node`, or says what is wrong at which place of `source`.
pub(crate) fn read<'de, T: Deserialize<'de>>(node: &'de Node, source: &Source) -> Result<T, Problem> {
    T::deserialize(node).map_err(|error| {
        Problem::new(Code::BadValue, error.message).at(source, error.span.unwrap_or(node.span))
    })
}

/// Why a value could not be read. The innermost place wins.
#[derive(Debug)]
pub(crate) struct ReadError {
    message: String,
    span: Option<Span>,
}

impl ReadError {
    fn at(mut self, span: Span) -> Self {
        self.span.get_or_insert(span);
        self
    }
}

impl std::error::Error for ReadError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(items) => visitor.visit_seq(Items(items.iter())),
            Value::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
        }
        .map_err(|error| error.at(self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        // A key with nothing after it is a slip, not a wish for the default.
        visitor.visit_some(self).map_err(|error: ReadError| error.at(self.span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self).map_err(|error: ReadError| error.at(self.span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_map(visitor)
    }

    /// A section whose every line is commented out is an empty section. A list is never taken for a map: derived
    /// readers would fill in the keys by their order.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Null => visitor.visit_map(Entries { entries: [].iter(), value: None }),
            Value::Map(_) => self.deserialize_any(visitor),
            other => Err(ReadError::custom(format!("expected a map, found {}", other.kind())).at(self.span)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Null => visitor.visit_seq(Items([].iter())),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Text(name) => visitor.visit_enum(Name(name)),
            other => Err(de::Error::custom(format!("expected a name, found {}", other.kind()))),
        }
        .map_err(|error| error.at(self.span))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct identifier ignored_any
    }
}

struct Items<'de>(std::slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        self.0.next().map(|node| seed.deserialize(node)).transpose()
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, Entry>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.node);
        let key: StrDeserializer<'_, ReadError> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|error| error.at(entry.key_span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let node =
            self.value.take().ok_or_else(|| de::Error::custom("a value was asked for before its key"))?;
        seed.deserialize(node)
    }
}

struct Name<'de>(&'de str);

impl<'de> EnumAccess<'de> for Name<'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ReadError> {
        let name: StrDeserializer<'_, ReadError> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Name<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, ReadError> {
        Err(de::Error::custom("expected a plain name"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, ReadError> {
        Err(de::Error::custom("expected a plain name"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, ReadError> {
        Err(de::Error::custom("expected a plain name"))
    }
}
