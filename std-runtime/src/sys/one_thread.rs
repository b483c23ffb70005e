//! A program all of whose tasks are on one thread.

use std::future::Future;

use tokio::runtime::Runtime;
use tokio::task::{LocalSet, spawn_local};

/// Runs a program to the end of its main loop, which may spawn tasks on this thread and is one of them itself: what a
/// [`LocalSet`] waits for is polled whenever anything on the thread wakes, so for each message that passes through.
pub(crate) fn block_on<T: 'static>(runtime: &Runtime, main: impl Future<Output = T> + 'static) -> T {
    LocalSet::new().block_on(runtime, async {
        match spawn_local(main).await {
            Ok(output) => output,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::Poll;

    use super::*;

    #[test]
    fn the_main_loop_is_polled_for_what_wakes_it_only() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let polled = Rc::new(Cell::new(0));
        let counted = Rc::clone(&polled);
        let output = block_on(&runtime, async move {
            let other = spawn_local(async {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            });
            let mut other = pin!(other);
            std::future::poll_fn(|context| {
                counted.set(counted.get() + 1);
                if other.as_mut().poll(context).is_ready() { Poll::Ready(7) } else { Poll::Pending }
            })
            .await
        });
        assert_eq!((output, polled.get()), (7, 2));
    }
}
