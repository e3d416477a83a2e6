//! A policy that was merely found, whatever its text, never permits more than the profile beneath it.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use pinfold_core::control::{Control, Requirement};
use pinfold_core::path::AbsPath;
use pinfold_core::plan::{Plan, Reads, ZoneSource};
use pinfold_core::request::{Request, Surroundings};
use pinfold_policy::document::Base;
use pinfold_policy::layer::{Layer, LayerKind, Settled, Trust, settle};
use pinfold_policy::planner::{LimitsMode, plan};
use pinfold_policy::problem::Source;

fuzz_target!(|text: &str| -> Corpus {
    let directory = AbsPath::new("/home/me/project").expect("absolute");
    let home = AbsPath::new("/home/me").expect("absolute");
    let base = Base { directory: &directory, home: Some(&home) };
    // A file that a document extends holds that document's own second part.
    let (text, extended) = text.split_once("\n#extended\n").unwrap_or((text, "version: 1\n"));
    let source = Source::new("sandbox.policy.yaml", text);
    let read = |_: &AbsPath| Ok(extended.to_owned());
    let layers = match Layer::load(LayerKind::Workspace, Trust::NarrowOnly, source, base, &read) {
        Ok(layers) => layers,
        Err(problems) => {
            assert!(!problems.is_empty());
            let shown = problems.to_string();
            assert!(shown.chars().all(|c| c == '\n' || !pinfold_core::text::is_hidden(c)), "{shown:?}");
            return Corpus::Keep;
        }
    };
    let Ok(settled) = settle(&layers) else { return Corpus::Keep };
    let alone = settle(&[]).expect("the profile alone");
    let request = Request {
        command: vec!["cargo".into(), "build".into()],
        workspace: directory.clone(),
        directory: directory.clone(),
        terminal: false,
        surroundings: Surroundings { home: Some(home.clone()), user: "me".into(), ..Default::default() },
    };
    for mode in [LimitsMode::Policy, LimitsMode::Auto] {
        let permitted = plan(&request, &alone, mode).expect("the profile plans");
        if let Ok(plan) = plan(&request, &settled, mode) {
            narrower(&plan, &permitted, &settled);
        }
    }
    Corpus::Keep
});

/// Asserts that `plan` permits nothing that `permitted` does not.
fn narrower(plan: &Plan, permitted: &Plan, settled: &Settled) {
    assert!(!plan.network.enabled && plan.network.allow.is_empty() && plan.network.rules.is_empty());
    assert!(plan.files.read.is_empty() && plan.files.write.is_empty());
    assert!(plan.files.reads <= Reads::System);
    assert_eq!(plan.files.protect.names, permitted.files.protect.names);
    for zone in &plan.files.zones {
        match &zone.source {
            ZoneSource::Host { .. } => {
                assert!(permitted.files.zones.contains(zone) || zone.name == "workspace");
            }
            ZoneSource::Tmpfs { size_mb } => assert!(*size_mb <= plan.limits.max_memory_mb.value),
        }
    }
    assert!(plan.environment.pass.is_empty());
    assert!(settled.policy.env.pass.value.is_empty());
    let limits = |plan: &Plan| {
        let limits = &plan.limits;
        [
            limits.max_cpu_seconds.value,
            limits.max_memory_mb.value,
            limits.max_disk_mb.value,
            limits.timeout_ms.value,
            limits.max_processes.value,
            limits.max_file_descriptors.value,
            limits.max_output_bytes.value,
        ]
    };
    assert!(limits(plan).iter().zip(limits(permitted)).all(|(new, old)| *new <= old));
    assert!(plan.limits.on_output_limit <= permitted.limits.on_output_limit);
    assert!(plan.wall.isolation.satisfies(permitted.wall.isolation));
    assert_eq!(plan.wall.image, permitted.wall.image);
    assert_eq!(plan.wall.runtime, permitted.wall.runtime);
    let privileges = &plan.privileges;
    assert!(privileges.drop_capabilities && privileges.no_new_privileges && privileges.non_root);
    assert_eq!(privileges.user_id, permitted.privileges.user_id);
    for control in Control::ALL {
        let (new, old) = (plan.requirement(*control), permitted.requirement(*control));
        assert!(new >= old || old == Requirement::BestEffort, "{control}: {new:?} is less than {old:?}");
    }
}
