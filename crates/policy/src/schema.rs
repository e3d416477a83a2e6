//! The JSON Schema of a policy document, made from the types that read it. Editors complete with it; diagnosis
//! walks it.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::document::{Document, EnvName};

/// The name under which the schema identifies itself.
pub const SCHEMA_ID: &str = "urn:pinfold:sandbox.policy:1";

/// The schema as JSON.
pub fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut schema =
            SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Document>().to_value();
        without_null(&mut schema);
        bounded(&mut schema);
        // The keys of a map are data here, and their type's schema is left out when the map's is made.
        schema["$defs"]["EnvDocument"]["properties"]["set"]["propertyNames"] =
            schemars::schema_for!(EnvName).to_value();
        schema["$id"] = SCHEMA_ID.into();
        schema
    });
    &SCHEMA
}

/// Says in numbers what a format such as `uint32` only names.
fn bounded(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(bounded),
        Value::Object(map) => {
            if map.get("format").is_some_and(|format| format == "uint32") {
                map.insert("maximum".to_owned(), u32::MAX.into());
            }
            map.values_mut().for_each(bounded);
        }
        _ => {}
    }
}

/// The types say "may be missing" with `Option`, which a schema would read as "may be null". It may not: a key
/// with nothing after it is a slip.
fn without_null(schema: &mut Value) {
    let Value::Object(map) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(without_null);
        }
        return;
    };
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(names)) = map.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if choices.len() == 1
            && let Some(Value::Object(only)) = choices.pop()
        {
            map.remove("anyOf");
            for (key, value) in only {
                map.entry(key).or_insert(value);
            }
        }
    }
    map.values_mut().for_each(without_null);
}
