//! The acceptance matrix on the bridge: its hub between in-memory streams, on tokio's paused clock, in both eras,
//! and behind a URL with an in-memory server there.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod bridge;

/// Makes a test of each row in each era: `legacy::row` and `modern::row`.
macro_rules! in_both_eras {
    ($($row:ident)+) => {
        mod legacy {
            $(#[test]
            fn $row() {
                crate::bridge::play(async || super::$row(drowse_core::era::Era::Legacy).await);
            })+
        }
        mod modern {
            $(#[test]
            fn $row() {
                crate::bridge::play(async || super::$row(drowse_core::era::Era::Modern).await);
            })+
        }
    };
}

/// Makes a test of each row in each era, with a server that is a process and with one behind a URL.
macro_rules! by_process_and_url {
    ($($row:ident)+) => { over_both_transports! {
        legacy: Peer::Process(drowse_core::era::Era::Legacy);
        modern: Peer::Process(drowse_core::era::Era::Modern);
        http_session: Peer::Session;
        http_modern: Peer::Modern;
        = { $($row)+ }
    } };
}

/// Makes a test of each row for each kind of server: a process of either era, and four behind a URL; or, of rows that
/// need some time to let a server go, for those that take it.
macro_rules! over_both_transports {
    ($($row:ident)+) => { over_both_transports! {
        legacy: Peer::Process(drowse_core::era::Era::Legacy);
        modern: Peer::Process(drowse_core::era::Era::Modern);
        http_session: Peer::Session;
        http_stateless: Peer::Stateless;
        http_old: Peer::Old;
        http_modern: Peer::Modern;
        = { $($row)+ }
    } };
    (lingering: $($row:ident)+) => { over_both_transports! {
        legacy: Peer::Process(drowse_core::era::Era::Legacy);
        modern: Peer::Process(drowse_core::era::Era::Modern);
        http_session: Peer::Session;
        = { $($row)+ }
    } };
    ($($module:ident: $peer:expr;)+ = $rows:tt) => {
        $(over_both_transports! { @ $module $peer; $rows })+
    };
    (@ $module:ident $peer:expr; { $($row:ident)+ }) => {
        mod $module {
            use crate::bridge::Peer;

            $(#[test]
            fn $row() {
                crate::bridge::play(async || super::$row($peer).await);
            })+
        }
    };
}

mod matrix {
    mod activity;
    mod caching;
    mod deferral;
    mod draining;
    mod http;
    mod http_faults;
    mod idle;
    mod keeping;
    mod legacy;
    mod life;
    mod logging;
    mod port;
    mod questions;
    mod relay;
    mod requests;
    mod settings;
    mod snapshots;
    mod states;
    mod stopping;
    mod subscriptions;
    mod tasks;
    mod translation;
    mod wanted;
}
