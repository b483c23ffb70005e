//! What the race and kill tests share: a home of their own with the real `drowse` in it, seeded chance, a look at
//! which processes there are, and the audit of what the fixture servers wrote into their journals.
//!
//! Everything here runs real processes. Each [`World`](world::World) marks all of its processes, so that a test finds
//! every one of them whatever became of its parents, and leaves none behind.

pub mod audit;
pub mod chance;
pub mod outcome;
pub mod processes;
pub mod rounds;
pub mod world;
