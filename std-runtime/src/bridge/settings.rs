//! How a server is kept, from what a bridge is told of its session's settings.

use drowse_core::link::Allowance;
use drowse_core::server::Kept;
use drowse_core::time::Duration;

use crate::wire::BridgeSettings;

/// How long a server behind a URL that keeps a session may be silent, unless the session says otherwise.
const SESSION_KEEPALIVE: Duration = Duration::from_secs(30);

/// The machine's view of the settings.
pub(super) fn kept(settings: &BridgeSettings) -> Kept {
    let (secs, millis) = (Duration::from_secs, Duration::from_millis);
    let period = |number: u64| (number > 0).then(|| secs(number));
    let grace = millis(settings.stop_grace_ms);
    Kept {
        idle: period(settings.idle_timeout_secs),
        input_grace: grace,
        terminate_grace: grace,
        auto_restart: settings.auto_restart,
        fail_on_expiry: settings.fail_on_expiry,
        connect: millis(settings.connect_timeout_ms),
        allowance: Allowance {
            quiet: millis(settings.timeout_ms),
            total: millis(settings.max_timeout_ms.max(settings.timeout_ms)),
        },
        keepalive: settings.keepalive_secs.and_then(period),
        session_keepalive: settings.keepalive_secs.map_or(Some(SESSION_KEEPALIVE), period),
    }
}
