//! Room for what is long: pipes that are made larger as soon as a long message goes through them.

use std::io;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::pipe::fcntl_setpipe_size;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is longer than this is long: as much as an ordinary pipe holds.
const LONG: usize = 64 << 10;
/// The size of a pipe with long messages. Many of the largest that there may be would leave the user's other programs
/// with the smallest.
const ENOUGH: usize = 256 << 10;
/// A pipe that is made larger by the first long message.
#[derive(Debug)]
pub(super) struct Roomy<P> {
    pipe: P,
    grown: bool,
}

impl<P: AsFd> Roomy<P> {
    pub(super) const fn new(pipe: P) -> Self {
        Self { pipe, grown: false }
    }

    fn grow_for(&mut self, length: usize) {
        if length > LONG && !self.grown {
            self.grown = true;
            // What is no pipe, or must not be larger, stays as it is; never smaller than somebody made it.
            if rustix::pipe::fcntl_getpipe_size(&self.pipe).is_ok_and(|size| size < ENOUGH) {
                let _ = fcntl_setpipe_size(&self.pipe, ENOUGH);
            }
        }
    }
}

impl<P: AsyncRead + AsFd + Unpin> AsyncRead for Roomy<P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // So much is asked for when a long message has begun to come.
        self.grow_for(buffer.remaining());
        Pin::new(&mut self.pipe).poll_read(context, buffer)
    }
}

impl<P: AsyncWrite + AsFd + Unpin> AsyncWrite for Roomy<P> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.grow_for(bytes.len());
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.grow_for(slices.iter().map(|slice| slice.len()).sum());
        Pin::new(&mut self.pipe).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.pipe.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{fcntl_getpipe_size, pipe};
    use tokio::io::AsyncWriteExt;
    use tokio::net::unix::pipe::Sender;

    #[test]
    fn only_long_messages_make_a_pipe_larger() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (_reader, writer) = pipe().unwrap();
            rustix::io::ioctl_fionbio(&writer, true).unwrap();
            let mut writer = Roomy::new(Sender::from_owned_fd(writer).unwrap());
            let before = fcntl_getpipe_size(&writer.pipe).unwrap();
            assert_eq!(writer.write(&vec![0; 1000]).await.unwrap(), 1000);
            assert_eq!(fcntl_getpipe_size(&writer.pipe).unwrap(), before);
            let long = vec![0; LONG + 1];
            assert_eq!(
                writer.write_vectored(&[IoSlice::new(&long), IoSlice::new(&long)]).await.unwrap(),
                long.len() * 2
            );
            assert!(fcntl_getpipe_size(&writer.pipe).unwrap() >= ENOUGH);
        });
    }
}
