//! The address at which a session is shared, while its bridge lives: taken, changed and given up.
//!
//! The host decides, and the loop that owns the bridge serves: what one has for the other is kept here.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Hub;
use crate::serve::{self, Stop};
use crate::share::{Share, Sharing, Taken};

/// The address of one session.
#[derive(Default)]
pub(super) struct Front {
    /// What listens, for another one at the same address.
    held: RefCell<Option<Held>>,
    /// What is to be served from now on, if that has changed.
    next: RefCell<Option<Option<Taken>>>,
    changed: Notify,
    is_changed: Cell<bool>,
}

struct Held {
    share: Share,
    port: u16,
    listener: TcpListener,
}

/// What is served.
#[derive(Default)]
pub(super) struct Served(Option<(Rc<Stop>, JoinHandle<()>)>);

impl Front {
    /// It was taken before there was a bridge.
    pub(super) fn begin(&self, sharing: &Sharing, taken: Taken) {
        self.put(Some((sharing, taken)));
    }

    /// Shares the session otherwise, or no more. Answers where clients find it.
    ///
    /// # Errors
    /// Why not, for people: then all is as it was.
    pub(super) fn share(&self, wanted: Option<&Sharing>) -> Result<Option<String>, String> {
        let Some(sharing) = wanted else {
            self.put(None);
            return Ok(None);
        };
        let taken = sharing.take_by(|| match &*self.held.borrow() {
            Some(held) if sharing.is_at(&held.share, held.port) => held.listener.try_clone(),
            _ => sharing.bind(),
        })?;
        let url = taken.url.clone();
        self.put(Some((sharing, taken)));
        Ok(Some(url))
    }

    fn put(&self, new: Option<(&Sharing, Taken)>) {
        let address = new.as_ref().and_then(|(_, taken)| taken.listener.local_addr().ok());
        if let Some(held) = self.held.take()
            && held.listener.local_addr().ok() != address
        {
            // Whoever is told that it is no more finds nobody, though it is some other task that has it.
            let _ = rustix::net::shutdown(&held.listener, rustix::net::Shutdown::Both);
        }
        let held = new.as_ref().and_then(|(sharing, taken)| {
            let listener = taken.listener.try_clone().ok()?;
            let port = listener.local_addr().ok()?.port();
            Some(Held { share: sharing.share.clone(), port, listener })
        });
        *self.held.borrow_mut() = held;
        *self.next.borrow_mut() = Some(new.map(|(_, taken)| taken));
        self.is_changed.set(true);
        self.changed.notify_one();
    }

    /// Gives the address up: nobody is to find it when the bridge is gone.
    pub(super) fn give_up(&self) {
        *self.held.borrow_mut() = None;
        *self.next.borrow_mut() = None;
    }

    /// Resolves when something else is to be served.
    pub(super) async fn changed(&self) {
        while !self.is_changed.get() {
            self.changed.notified().await;
        }
    }

    /// Serves what is to be served now, and ends what was.
    ///
    /// # Errors
    /// If the listener cannot be waited for.
    pub(super) fn serve(&self, hub: &Hub, served: &mut Served) -> io::Result<()> {
        self.is_changed.set(false);
        let Some(next) = self.next.borrow_mut().take() else { return Ok(()) };
        if let Some((stop, _)) = served.0.take() {
            stop.say();
        }
        if let Some(Taken { listener, options, .. }) = next {
            let (hub, listener) = (hub.clone(), tokio::net::TcpListener::from_std(listener)?);
            let stop = Rc::<Stop>::default();
            let until = Rc::clone(&stop);
            let task = tokio::task::spawn_local(async move {
                let _ = serve::http_until(&hub, listener, options, until).await;
            });
            served.0 = Some((stop, task));
        }
        Ok(())
    }
}

impl Served {
    /// Waits for its end, which is that of the hub.
    pub(super) async fn ended(self, limit: Duration) {
        if let Some((_, task)) = self.0 {
            let _ = tokio::time::timeout(limit, task).await;
        }
    }
}
