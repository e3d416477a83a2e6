//! The survey against an attacker: what it says must be covered is mounted in a real mount namespace, and the attack
//! is run there. Each attack is also run without the covers, and must succeed then.
#![allow(clippy::unwrap_used)]

#[path = "survey/bypass.rs"]
mod bypass;
#[path = "survey/deny.rs"]
mod deny;
#[path = "survey/end.rs"]
mod end;
#[path = "survey/inside.rs"]
mod inside;
#[path = "survey/placeholders.rs"]
mod placeholders;
#[path = "survey/protected.rs"]
mod protected;
#[path = "survey/special.rs"]
mod special;
#[path = "survey/watch.rs"]
mod watch;
