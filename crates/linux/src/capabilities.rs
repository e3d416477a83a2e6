//! Empties every capability set of the calling thread, so that what it starts has none and can get none. Ids
//! and no_new_privs belong elsewhere.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, no_new_privs, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits,
};

/// Why capabilities could not be given up for good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// The sets could not be read.
    #[error("cannot read the capability sets")]
    Read(#[source] Errno),
    /// A capability could not be taken out of the bounding set.
    #[error("cannot drop capability {number} from the bounding set")]
    Bounding {
        /// The capability's number.
        number: u32,
        /// What the system said.
        source: Errno,
    },
    /// The secure bits could not be locked.
    #[error("cannot lock the secure bits")]
    SecureBits(#[source] Errno),
    /// The ambient set could not be cleared.
    #[error("cannot clear the ambient capabilities")]
    Ambient(#[source] Errno),
    /// The permitted, effective and inheritable sets could not be emptied.
    #[error("cannot empty the capability sets")]
    Empty(#[source] Errno),
    /// Something is left although every call succeeded.
    #[error("capabilities are left after dropping all: {left:#x}")]
    Left {
        /// What is left in any set, one bit per capability.
        left: u64,
    },
    /// The bounding set is out of reach, and no_new_privs is not set: a set-id program would give
    /// capabilities back.
    #[error("cannot empty the bounding set without CAP_SETPCAP, and no_new_privs is not set")]
    Regainable,
}

/// Root is no one special (capabilities(7)), nothing survives a change of ids, and neither can be undone.
const LOCKED: CapabilitiesSecureBits = CapabilitiesSecureBits::NO_ROOT
    .union(CapabilitiesSecureBits::NO_ROOT_LOCKED)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP)
    .union(CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED)
    .union(CapabilitiesSecureBits::KEEP_CAPS_LOCKED)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

const NONE: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// Empties the bounding, ambient, permitted, effective and inheritable sets, locks the secure bits, and reads the
/// last three back.
///
/// The bounding set comes first, while there still is the right to change it. A process that never had
/// `CAP_SETPCAP` keeps its bounding set, which is harmless only under no_new_privs: without that, this is an
/// error.
pub fn drop_all() -> Result<(), CapabilityError> {
    let before = capabilities(None).map_err(CapabilityError::Read)?;
    let may_bound = before.effective.contains(CapabilitySet::SETPCAP);
    if may_bound {
        for number in 0..u64::BITS {
            match remove_capability_from_bounding_set(capability(number)) {
                Ok(()) => {}
                // One past the last that this kernel has; it has at least one.
                Err(Errno::INVAL) if number > 0 => break,
                Err(source) => return Err(CapabilityError::Bounding { number, source }),
            }
        }
        set_capabilities_secure_bits(LOCKED).map_err(CapabilityError::SecureBits)?;
    }
    clear_ambient_capability_set().map_err(CapabilityError::Ambient)?;
    if before != NONE {
        set_capabilities(None, NONE).map_err(CapabilityError::Empty)?;
    }

    let after = capabilities(None).map_err(CapabilityError::Read)?;
    // The ambient set is within the permitted and the inheritable one by the kernel's own rule
    // (capabilities(7)).
    let left = after.effective | after.permitted | after.inheritable;
    if !left.is_empty() {
        return Err(CapabilityError::Left { left: left.bits() });
    }
    // The kernel answered for each capability that it is out of the bounding set, and nothing puts one back: to ask
    // again for each would double the calls.
    if !may_bound && !no_new_privs().map_err(CapabilityError::Read)? && !bounding_set()?.is_empty() {
        return Err(CapabilityError::Regainable);
    }
    Ok(())
}

/// The bounding set: what a program could still gain by being executed.
pub fn bounding_set() -> Result<CapabilitySet, CapabilityError> {
    let mut set = CapabilitySet::empty();
    for number in 0..u64::BITS {
        match capability_is_in_bounding_set(capability(number)) {
            Ok(true) => set |= capability(number),
            Ok(false) => {}
            Err(Errno::INVAL) if number > 0 => break,
            Err(source) => return Err(CapabilityError::Read(source)),
        }
    }
    Ok(set)
}

/// By number, so that capabilities newer than any list of names go too.
fn capability(number: u32) -> CapabilitySet {
    CapabilitySet::from_bits_retain(1 << number)
}
