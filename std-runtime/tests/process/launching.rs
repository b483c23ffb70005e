//! Starting: the state a server finds itself in, and what is said if it cannot be started.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use drowse_runtime::process::{LaunchError, launch};
use tokio::io::{AsyncWriteExt, BufReader};

use crate::alone::{NOBODY, alone, children, line, program, rest, script, soon, start, stat};

alone! {
    async fn bytes_go_in_and_out_and_the_end_of_input_ends_it() {
        let mut tree = start(&script("cat; echo done >&2; exit 7"));
        tree.stdin.write_all(b"hello\n").await.unwrap();
        let mut output = BufReader::new(&mut tree.stdout);
        assert_eq!(line(&mut output).await, "hello");
        assert!(!tree.control.is_gone());
        drop(tree.stdin);
        assert_eq!(rest(&mut tree.stdout).await, "");
        assert_eq!(rest(&mut tree.stderr).await, "done\n");
        assert_eq!(soon("exit", tree.control.exited()).await.code(), Some(7));
        soon("gone", tree.control.gone()).await;
        assert!(tree.control.is_gone());
        assert_eq!(tree.control.exited().await.code(), Some(7), "still known after it was reaped");
        assert_eq!(tree.control.survivors(), NOBODY);
    }

    async fn a_signal_that_ends_it_is_told() {
        let tree = start(&script("kill -HUP $$"));
        let status = soon("exit", tree.control.exited()).await;
        assert_eq!((status.code(), status.signal()), (None, Some(1)));
        soon("gone", tree.control.gone()).await;
    }

    async fn the_environment_is_what_was_given_and_nothing_else() {
        let mut wanted = program("env", &[]);
        for (name, value) in [("A", "first"), ("SPACED", " a = b\nc "), ("A", "last"), ("DROWSE_GENERATION", "x")] {
            wanted.env.push((name.to_owned(), value.to_owned()));
        }
        let mut tree = start(&wanted);
        let text = rest(&mut tree.stdout).await;
        soon("gone", tree.control.gone()).await;
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let marker = format!("DROWSE_GENERATION={}", wanted.marker);
        let mut expected = ["A=last", &marker, "PATH=/usr/local/bin:/usr/bin:/bin", "SPACED= a = b", "c "];
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }

    async fn arguments_and_the_name_it_is_called_by_arrive_as_given() {
        let mut tree = start(&program("sh", &["-c", r#"echo "$0|$1|$2"; tr '\0' '|' < /proc/$$/cmdline"#, "a b", "", "'"]));
        assert!(rest(&mut tree.stdout).await.starts_with("a b||'\nsh|-c|"));
        soon("gone", tree.control.gone()).await;
    }

    async fn it_starts_in_its_directory_and_finds_relative_programs_there() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        executable(&place.join("bin/server"), "#!/bin/sh\npwd -P\n");
        for (command, path) in [("bin/server", "/nowhere"), ("./bin/server", "/nowhere"), ("server", "/nowhere:bin")] {
            let mut wanted = program(command, &[]);
            wanted.cwd = place.clone();
            wanted.env = vec![("PATH".to_owned(), path.to_owned())];
            let mut tree = start(&wanted);
            assert_eq!(rest(&mut tree.stdout).await.trim_end(), place.to_str().unwrap(), "{command}");
            soon("gone", tree.control.gone()).await;
        }
    }

    async fn it_leads_its_own_group_in_our_session() {
        let mut tree = start(&script("read line"));
        let pid = tree.control.pid();
        assert_eq!(stat(pid, 5), Some(pid.to_string()));
        assert_eq!(stat(pid, 6), stat(std::process::id(), 6));
        tree.stdin.write_all(b"\n").await.unwrap();
        soon("gone", tree.control.gone()).await;
    }

    async fn no_descriptor_but_the_standard_three_is_inherited() {
        // One that exec would hand on, as a careless library might have it.
        let careless = rustix::io::dup(std::io::stderr()).unwrap();
        rustix::io::fcntl_setfd(&careless, rustix::io::FdFlags::empty()).unwrap();
        // The list itself is what the shell's expansion has open meanwhile: so count with stat, one by one.
        let text = "for number in $(seq 0 200); do test -e /proc/$$/fd/$number && echo $number; done; exit 0";
        let mut tree = start(&script(text));
        assert_eq!(rest(&mut tree.stdout).await, "0\n1\n2\n");
        soon("gone", tree.control.gone()).await;
    }

    async fn an_unwritten_pipe_of_ours_does_not_block_the_server_s_own_end() {
        // O_NONBLOCK (04000) is on our ends only: a server that does not expect it would fail with EAGAIN.
        let text = "for number in 0 1 2; do sed -n 's/^flags:\t*//p' /proc/$$/fdinfo/$number; done";
        let mut tree = start(&script(text));
        for flags in rest(&mut tree.stdout).await.lines() {
            assert_eq!(u32::from_str_radix(flags, 8).unwrap() & 0o4000, 0, "{flags}");
        }
        soon("gone", tree.control.gone()).await;
    }

    async fn what_cannot_be_started_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        let plain = place.join("plain");
        std::fs::write(&plain, "no program").unwrap();
        executable(&place.join("orphan"), "#!/nowhere/interpreter\n");
        executable(&place.join("garbage"), "\u{7f}ELF");

        let mut wanted = program("no-such-server", &[]);
        let error = launch(&wanted).unwrap_err();
        assert!(matches!(&error, LaunchError::NotFound { path: Some(path), .. } if path.contains("/usr/bin")));
        assert!(error.to_string().contains("connect again"), "{error}");

        wanted.env.clear();
        wanted.command = "sh".to_owned();
        let tree = start(&wanted);
        drop(tree.stdin);
        soon("gone", tree.control.gone()).await;
        wanted.env.push(("PATH".to_owned(), String::new()));
        assert!(matches!(launch(&wanted), Err(LaunchError::NotFound { .. })), "only the pinned PATH counts");

        wanted.command = String::new();
        assert!(matches!(launch(&wanted), Err(LaunchError::NotFound { .. })));
        wanted.command = "/nowhere/server".to_owned();
        assert!(matches!(launch(&wanted), Err(LaunchError::NotFound { path: None, .. })));

        wanted.command = plain.to_str().unwrap().to_owned();
        let error = launch(&wanted).unwrap_err();
        assert!(matches!(&error, LaunchError::NotExecutable(path) if *path == plain));
        assert!(error.to_string().contains("chmod +x"), "{error}");
        wanted.env = vec![("PATH".to_owned(), place.to_str().unwrap().to_owned())];
        wanted.command = "plain".to_owned();
        assert!(matches!(launch(&wanted), Err(LaunchError::NotExecutable(path)) if path == plain));
        wanted.command = place.to_str().unwrap().to_owned();
        assert!(matches!(launch(&wanted), Err(LaunchError::NotExecutable(_))), "a directory");
        wanted.command = "orphan".to_owned();
        assert!(matches!(launch(&wanted), Err(LaunchError::NoInterpreter(_))));

        wanted.command = "/bin/sh".to_owned();
        wanted.cwd = place.join("nowhere");
        let error = launch(&wanted).unwrap_err();
        assert!(matches!(&error, LaunchError::NoDirectory(cwd) if *cwd == wanted.cwd));
        assert!(error.to_string().contains("nowhere"), "{error}");
        wanted.cwd = plain;
        assert!(matches!(launch(&wanted), Err(LaunchError::NoDirectory(_))));

        wanted.cwd = place;
        wanted.env.push(("A=B".to_owned(), String::new()));
        assert!(matches!(launch(&wanted), Err(LaunchError::BadVariable(name)) if name == "A=B"));
        wanted.env.pop();
        wanted.args = vec!["a\0b".to_owned()];
        assert!(matches!(launch(&wanted), Err(LaunchError::Io { .. })));
        wanted.args = vec!["x".repeat(1 << 22)];
        assert!(matches!(launch(&wanted), Err(LaunchError::Io { .. })), "too long for the system");

        assert_eq!(children(), NOBODY, "a start that failed leaves no zombie");
    }
}

/// Signals that our own starter ignores, or has blocked, are the server's defaults all the same.
#[test]
fn signals_are_at_their_defaults_and_unblocked() {
    const INNER: &str = "process::launching::signals_of_a_server";
    let inner = crate::alone::again(INNER);
    let mut outer = std::process::Command::new("env");
    outer.args(["--ignore-signal=HUP,INT,QUIT,PIPE,USR1,CHLD,RTMIN", "--block-signal=TERM,USR2"]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = outer.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

alone! {
    async fn signals_of_a_server() {
        let mut tree = start(&program("grep", &["-E", "^Sig(Blk|Ign)", "/proc/self/status"]));
        let text = rest(&mut tree.stdout).await;
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            assert_eq!(line.split_once('\t').unwrap().1, "0000000000000000", "{line}");
        }
        soon("gone", tree.control.gone()).await;
    }
}

fn executable(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}
