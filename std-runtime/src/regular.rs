//! Opening files of our own: in their place may stand whatever somebody put there.
//!
//! On a pipe an open would wait for its other end, and what a device holds has no end. So only a file is opened.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file to read it.
///
/// # Errors
/// If there is none, or something else stands there: [`is_something_else`].
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(File::options().read(true), path)
}

/// Opens a file as the options say.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match options.custom_flags(flags).open(path) {
        Ok(file) => file,
        // A pipe that nobody reads, and a socket.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Err(error) => return Err(error),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Whether an error of [`open`] says that what stands there is no file.
pub(crate) fn is_something_else(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || error.kind() == io::ErrorKind::IsADirectory
}

/// The first bytes of a file.
///
/// # Errors
/// If it cannot be opened or read.
pub(crate) fn start_of(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    open(path)?.take(bytes).read_to_end(&mut start)?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "abc").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        assert_eq!(start_of(&path("link"), 2).unwrap(), b"ab");
        assert_eq!(open(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::create_dir(path("directory")).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), pipe, rustix::fs::Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
        for name in ["directory", "pipe", "socket", "device"] {
            assert!(is_something_else(&open(&path(name)).unwrap_err()), "{name}");
            let error = open_with(File::options().append(true), &path(name)).unwrap_err();
            assert!(is_something_else(&error), "{name}");
        }
    }
}
