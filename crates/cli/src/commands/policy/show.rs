//! `pinfold policy show`.

use std::process::ExitCode;

use clap::Args;
use pinfold_core::text::visible;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::output::{self, bold};

#[derive(Args, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    options: RunOptions,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let resolved = self.options.resolve(Vec::new(), false)?;
        let rows = resolved.settled.policy.rows();
        if self.json {
            let mut keys = Map::new();
            for row in rows {
                let origins: Vec<String> = row.origins.iter().map(ToString::to_string).collect();
                keys.insert(row.key, json!({ "value": row.value, "origins": origins }));
            }
            let shown = json!({ "profile": resolved.settled.profile.name(), "keys": keys });
            output::data(&format!("{shown:#}\n"));
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = String::new();
        for section in sections(&rows) {
            text.push_str(&format!("{}\n", bold(section)));
            let lines: Vec<Vec<String>> = rows
                .iter()
                .filter(|row| section_of(&row.key) == section)
                .map(|row| {
                    let origins: Vec<String> = row.origins.iter().map(ToString::to_string).collect();
                    let key = row.key.split_once('.').map_or(row.key.as_str(), |(_, key)| key);
                    vec![key.to_owned(), short(&row.value), origins.join(", ")]
                })
                .collect();
            text.push_str(&output::table(&lines));
        }
        output::data(&text);
        Ok(ExitCode::SUCCESS)
    }
}

fn section_of(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn sections(rows: &[pinfold_policy::document::Row]) -> Vec<&str> {
    let mut sections: Vec<&str> = Vec::new();
    for row in rows {
        let section = section_of(&row.key);
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    sections
}

/// A value on one line; long lists are counted.
fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Array(items) if items.len() > 6 => format!("{} items", items.len()),
        other => other.to_string(),
    };
    visible(&text).into_owned()
}
