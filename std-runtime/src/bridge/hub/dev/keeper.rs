//! A process of ours that serves at a URL: its exchanges are as to any such server, its end is the process's.

use super::super::streams::how_it_ended;
use super::*;
use tokio::io::AsyncReadExt as _;

/// How long it has to end after TERM.
const GRACE: Duration = Duration::from_secs(1);

impl Hub {
    /// Takes what it writes, and notices its end.
    pub(in super::super) fn watch_keeper(
        &self,
        generation: u64,
        output: Box<dyn AsyncRead + Unpin>,
        errors: Option<Box<dyn AsyncRead + Unpin>>,
        control: Rc<dyn Control>,
    ) {
        for stream in [Some(output), errors].into_iter().flatten() {
            let hub = self.clone();
            spawn_local(async move { hub.log_stream(stream).await });
        }
        let hub = self.clone();
        spawn_local(async move {
            let exit = control.exited().await;
            hub.with(|hub, inner, now| {
                if inner.remote.as_ref().is_none_or(|remote| remote.generation() != generation) {
                    return;
                }
                if !inner.server.is_stopping() {
                    let text = how_it_ended(exit);
                    inner.host.note(&text);
                    inner.failure = Some(text);
                }
                inner.server.handle_exited(now, exit);
                hub.drive(inner, None);
            });
        });
    }

    async fn log_stream(&self, mut stream: Box<dyn AsyncRead + Unpin>) {
        let mut buffer = vec![0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.with(|_, inner, _| inner.take_errors(buffer.get(..read).unwrap_or_default()));
        }
    }

    /// Nothing is under way any more: the process is ended, and then the generation is over.
    pub(in super::super) fn end_keeper(&self, generation: u64, keeper: Rc<dyn Control>) {
        let hub = self.clone();
        spawn_local(async move {
            keeper.terminate();
            let gone = keeper.gone();
            tokio::pin!(gone);
            if tokio::time::timeout(GRACE, &mut gone).await.is_err() {
                keeper.kill();
                gone.await;
            }
            hub.with(|hub, inner, now| {
                if inner.remote.as_ref().is_some_and(|remote| remote.generation() == generation) {
                    inner.remote = None;
                    inner.server.handle_tree_gone(now);
                    hub.drive(inner, None);
                }
            });
        });
    }
}

impl Inner {
    /// The number of the server's process, if it is one of ours.
    pub(in super::super) fn server_pid(&self) -> Option<u32> {
        let running = self.running.as_ref().map(|running| &running.control);
        let keeper = self.remote.as_ref().and_then(|remote| remote.keeper.as_ref());
        running.or(keeper).and_then(|control| control.pid())
    }
}
