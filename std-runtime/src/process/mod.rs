//! Server processes: start one, and end all that came of it.
//!
//! What [`launch()`] starts is the *leader* of a [`Tree`]; the tree is the leader and everything below it, whatever
//! group or session it moved to, whoever its parent is by now. A tree is *gone* when no process of it runs
//! (zombies do not run). Here is how to end one, not when: the time given to end of input, to TERM, to KILL is the
//! caller's to decide.
//!
//! A process that starts trees should call [`become_subreaper`] first. Then the kernel hands it whatever loses its
//! parent in a tree, nothing can leave, and "gone" is the kernel's own answer. It must not start children in any
//! other way after that, as it could not tell them from what it was handed. Without it, processes that lose their
//! parent are still found, by their marker, unless they cleared their environment.
//!
//! Nothing is ever signalled by its number alone: it is held by a pidfd, then looked at, then signalled.
//! [`sweep`] ends what a killed bridge left behind, [`ProcessIdentity`] is a process beyond its number.

mod footprint;
mod identity;
mod launch;
mod marker;
mod memory;
pub(crate) mod survey;
mod tree;

pub use crate::sys::descriptors::{adopt_descriptor, close_descriptors_from, detach_standard_streams};
pub use footprint::memory_below;
pub use identity::ProcessIdentity;
pub use launch::{Launch, LaunchError, launch};
pub use marker::{GENERATION_VARIABLE, SESSION_VARIABLE, Swept, marked, new_marker, sweep};
pub(crate) use marker::{carrying, sweep_found};
pub use memory::{Measure, Memory};
pub use tree::{Tree, TreeControl, become_subreaper};
