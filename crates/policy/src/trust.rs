//! What it means to have trusted a policy: its exact content, and that of every file it extends.

use sha2::{Digest as _, Sha256};

use crate::layer::Layer;

/// A digest of the layers that one policy file gives, in lower-case hex.
///
/// Each text goes in with its length, so that no two lists of texts can look alike.
pub fn digest(layers: &[Layer]) -> String {
    let mut hash = Sha256::new();
    for layer in layers {
        let text = layer.source().text.as_bytes();
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
