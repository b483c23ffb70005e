//! Who listens at a port of this machine, as far as the kernel tells.

use std::fs;
use std::path::Path;

use super::procfs;

/// The state of a socket that listens, in `/proc/net/tcp` (the kernel's `TCP_LISTEN`).
const LISTENING: &str = "0A";

/// A process that listens at this port, and the name of its program. Those of other users cannot be seen.
pub(crate) fn holder(port: u16) -> Option<(u32, String)> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| table.lines().filter_map(|line| listener(line, port).map(link)).collect::<Vec<_>>())
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| holds(*pid, &sockets))?;
    let words = procfs::command_line(pid).unwrap_or_default();
    let name = words
        .first()
        .and_then(|word| Path::new(word).file_name())
        .map(|name| name.to_string_lossy().into_owned());
    Some((pid, name.unwrap_or_else(|| "unknown".to_owned())))
}

/// The inode of the socket in a line of the table, if it listens at that port.
fn listener(line: &str, port: u16) -> Option<&str> {
    let mut fields = line.split_ascii_whitespace();
    let (_, local) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    (u16::from_str_radix(local, 16) == Ok(port) && state == LISTENING).then_some(inode)
}

/// What a descriptor of a socket leads to.
fn link(inode: &str) -> String {
    format!("socket:[{inode}]")
}

fn holds(pid: u32, sockets: &[String]) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|to| to.to_str().is_some_and(|to| sockets.iter().any(|socket| socket == to)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_line_of_the_table_is_read() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0";
        assert_eq!(listener(line, 8080), Some("4711"));
        assert_eq!(listener(line, 8081), None);
        assert_eq!(listener(&line.replace(" 0A ", " 01 "), 8080), None);
        assert_eq!(listener("  sl  local_address rem_address   st", 1), None);
        assert_eq!(listener("", 1), None);
    }

    #[test]
    fn this_process_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let port = socket.local_addr().unwrap().port();
            assert_eq!(holder(port).map(|(pid, _)| pid), Some(std::process::id()));
            drop(socket);
            assert_eq!(holder(port), None);
        }
    }
}
