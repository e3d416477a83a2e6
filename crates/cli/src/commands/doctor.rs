//! `pinfold doctor`: every wall, usable here or why not, and what it would enforce.

use std::process::ExitCode;

use clap::Args;
use pinfold_core::plan::{BackendName, Plan};
use pinfold_engine::select::{Candidate, candidates};
use serde_json::json;

use super::explain::receipt_rows;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::output::{self, bold, table};

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// One wall, with every control
    #[arg(long, value_name = "NAME")]
    backend: Option<BackendName>,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let resolved = RunOptions::scratch()?.resolve(vec!["true".into()], false)?;
        let plan = resolved.plan()?;
        let mut walls = candidates(&plan);
        walls.retain(|wall| self.backend.is_none_or(|asked| asked == wall.backend));
        let text = match (self.json, self.backend) {
            (true, _) => as_json(&walls, &plan),
            (false, Some(_)) => walls.iter().map(|wall| in_full(wall, &plan)).collect(),
            (false, None) => overview(&walls, &plan),
        };
        output::data(&text);
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(walls: &[Candidate], plan: &Plan) -> String {
    let list: Vec<_> = walls
        .iter()
        .map(|wall| {
            json!({
                "backend": wall.backend,
                "level": wall.backend.level(),
                "usable": wall.unusable.is_none(),
                "reason": wall.unusable,
                "receipt": wall.coverage.receipt(plan),
            })
        })
        .collect();
    format!("{:#}\n", json!({ "backends": list }))
}

fn overview(walls: &[Candidate], plan: &Plan) -> String {
    let rows: Vec<Vec<String>> = walls
        .iter()
        .map(|wall| {
            let level = wall.backend.level().to_string();
            let said = match &wall.unusable {
                Some(why) => format!("no: {why}"),
                None => {
                    let receipt = wall.coverage.receipt(plan);
                    let unmet: Vec<_> = receipt.iter().filter(|line| !line.is_met()).collect();
                    match unmet.first() {
                        None => "yes: holds everything that the default profile asks for".to_owned(),
                        Some(first) => {
                            format!("not for the default profile: {}: {}", first.control, first.detail)
                        }
                    }
                }
            };
            vec![wall.backend.to_string(), level, said]
        })
        .collect();
    format!("{}\n{}", bold("walls"), table(&rows))
}

fn in_full(wall: &Candidate, plan: &Plan) -> String {
    let mut text = format!("{} ({})\n", bold(wall.backend.name()), wall.backend.level());
    if let Some(why) = &wall.unusable {
        text.push_str(&format!("  cannot be used here: {why}\n"));
    }
    text + &table(&receipt_rows(&wall.coverage.receipt(plan)))
}
