//! One planner case: the documents and the request of a directory, run through the whole engine.

mod print;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pinfold_core::destination::Destination;
use pinfold_core::path::AbsPath;
use pinfold_core::request::{Request, Surroundings, Toolchain};
use pinfold_policy::document::Base;
use pinfold_policy::estimate::History;
use pinfold_policy::layer::{Layer, LayerKind, Trust, settle};
use pinfold_policy::options::{OptionValue, PolicyOption, layer as options_layer, query};
use pinfold_policy::planner::{LimitsMode, plan};
use pinfold_policy::problem::{Problems, Source};
use serde::Deserialize;

/// What `request.json` may say; what it leaves out is an ordinary request.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    command: Vec<String>,
    workspace: AbsPath,
    directory: Option<AbsPath>,
    home: Option<AbsPath>,
    terminal: bool,
    environment: BTreeMap<String, String>,
    toolchains: Vec<Tools>,
    registries: Vec<Destination>,
    limits: String,
    options: Vec<Typed>,
    /// Whether the plan is shown with the built-in protected names.
    full: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            command: vec!["true".into()],
            workspace: path("/home/me/project"),
            directory: None,
            home: Some(path("/home/me")),
            terminal: false,
            environment: BTreeMap::new(),
            toolchains: Vec::new(),
            registries: Vec::new(),
            limits: "auto".into(),
            options: Vec::new(),
            full: false,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tools {
    name: String,
    read: Vec<AbsPath>,
    path: Vec<AbsPath>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

/// One option: exactly one of `value`, `item` and `text`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    typed: String,
    key: String,
    value: Option<serde_json::Value>,
    item: Option<serde_json::Value>,
    text: Option<String>,
}

/// The documents of a case: the file, its place among the layers, its trust, and where it is said to lie.
const DOCUMENTS: &[(&str, LayerKind, Trust, &str)] = &[
    ("machine.yaml", LayerKind::Machine, Trust::Full, "/etc/pinfold"),
    ("user.yaml", LayerKind::User, Trust::Full, "/home/me/.config/pinfold"),
    ("policy.yaml", LayerKind::File, Trust::Full, "/home/me/project"),
    ("workspace.yaml", LayerKind::Workspace, Trust::NarrowOnly, "/home/me/project"),
    ("session.yaml", LayerKind::Session, Trust::Full, "/home/me/project"),
    ("query.yaml", LayerKind::Query, Trust::Full, "/home/me/project"),
];

fn path(text: &str) -> AbsPath {
    AbsPath::new(text).unwrap()
}

/// The files of one directory.
pub(crate) struct Case {
    files: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Case {
    pub(crate) fn read(directory: &Path) -> Self {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.insert(name, std::fs::read_to_string(&path).unwrap());
        }
        Self { files, used: RefCell::default() }
    }

    fn file(&self, name: &str) -> Option<&str> {
        let text = self.files.get(name)?;
        self.used.borrow_mut().insert(name.to_owned());
        Some(text)
    }

    /// The plan as text, or the error as a person sees it.
    pub(crate) fn run(&self) -> Result<String, String> {
        let asked: Asked = match self.file("request.json") {
            Some(text) => serde_json::from_str(text).unwrap(),
            None => Asked::default(),
        };
        // Every document counts as read, also when an earlier one is refused.
        for (name, ..) in DOCUMENTS {
            let _ = self.file(name);
        }
        let shown = |problems: Problems| format!("{problems}\n");
        let layers = self.layers(&asked).map_err(shown)?;
        let settled = settle(&layers).map_err(shown)?;
        let history = self.file("history.json").map(|text| History::from_json(text.as_bytes()).unwrap());
        let history = history.unwrap_or_default();
        let mode = match asked.limits.as_str() {
            "auto" => LimitsMode::Auto,
            "learned" => LimitsMode::Learned(&history),
            "policy" => LimitsMode::Policy,
            other => panic!("limits: {other}"),
        };
        let full = asked.full;
        let plan = plan(&asked.request(), &settled, mode)
            .map_err(|error| format!("error[{}]: {error}\n = hint: {}\n", error.code(), error.hint()))?;
        Ok(print::plan(&plan, full))
    }

    fn layers(&self, asked: &Asked) -> Result<Vec<Layer>, Problems> {
        let mut layers = Vec::new();
        for (name, kind, trust, directory) in DOCUMENTS {
            let Some(text) = self.file(name) else { continue };
            let directory = path(directory);
            let base = Base { directory: &directory, home: asked.home.as_ref() };
            let source = Source::new(*name, text);
            if *kind == LayerKind::Query {
                layers.push(query(source, base)?);
                continue;
            }
            layers.extend(Layer::load(*kind, *trust, source, base, &|path| {
                let name = path.as_path().file_name().unwrap_or_default().to_string_lossy();
                self.file(&name).map(str::to_owned).ok_or_else(|| "no such file".to_owned())
            })?);
        }
        if !asked.options.is_empty() {
            let base = Base { directory: &asked.workspace, home: asked.home.as_ref() };
            let options: Vec<PolicyOption> = asked.options.iter().map(Typed::option).collect();
            layers.push(options_layer(&options, base)?);
        }
        Ok(layers)
    }

    /// Files that nothing read, and expectations that nothing gives.
    pub(crate) fn stale(&self, expectation: &str) -> Vec<&str> {
        let used = self.used.borrow();
        self.files
            .keys()
            .map(String::as_str)
            .filter(|name| *name != expectation && !used.contains(*name))
            .collect()
    }
}

impl Typed {
    fn option(&self) -> PolicyOption {
        let value = match (&self.value, &self.item, &self.text) {
            (Some(value), None, None) => OptionValue::One(value.clone()),
            (None, Some(item), None) => OptionValue::Item(item.clone()),
            (None, None, Some(text)) => OptionValue::Text(text.clone()),
            _ => panic!("{}: one of value, item and text", self.typed),
        };
        PolicyOption { typed: self.typed.clone(), key: self.key.clone(), value }
    }
}

impl Asked {
    fn request(self) -> Request {
        let toolchain = |tools: Tools| Toolchain {
            name: tools.name,
            read: tools.read,
            path: tools.path,
            environment: tools.environment,
        };
        Request {
            command: self.command.into_iter().map(Into::into).collect(),
            directory: self.directory.unwrap_or_else(|| self.workspace.clone()),
            workspace: self.workspace,
            terminal: self.terminal,
            surroundings: Surroundings {
                home: self.home,
                user: "me".into(),
                environment: self.environment,
                toolchains: self.toolchains.into_iter().map(toolchain).collect(),
                registries: self.registries,
                own: vec![path("/home/me/.local/state/pinfold"), path("/home/me/.config/pinfold")],
            },
        }
    }
}
