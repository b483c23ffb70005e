//! Drives the real `drowse` in homes of its own.

#![allow(missing_docs)]

mod awake;
mod bridge;
mod home;
mod usage;
