//! A process beyond its number.

use std::process::{Command, Stdio};
use std::time::Duration;

use drowse_runtime::process::ProcessIdentity;

use crate::alone::{alone, children, line, program, runs, script, soon, start, until};

const GRACE: Duration = Duration::from_secs(20);

#[test]
fn we_are_alive_and_written_as_the_records_have_it() {
    let me = ProcessIdentity::of_self().unwrap();
    assert_eq!(me.pid, std::process::id());
    assert!(me.is_alive());
    let text = serde_json::to_value(&me).unwrap();
    let names: Vec<&String> = text.as_object().unwrap().keys().collect();
    assert_eq!(names, ["pid", "started", "bootId", "pidNs"]);
    assert_eq!(serde_json::from_value::<ProcessIdentity>(text).unwrap(), me);
}

#[test]
fn who_does_not_exist_is_not_alive() {
    assert_eq!(ProcessIdentity::of(0).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert!(ProcessIdentity::of(u32::MAX).is_err());
    let mut me = ProcessIdentity::of_self().unwrap();
    me.pid = u32::MAX;
    assert!(!me.is_alive());
    assert!(!me.end(GRACE).unwrap());
}

alone! {
    async fn another_process_with_the_same_number_is_never_touched() {
        let tree = start(&program("sleep", &["1000"]));
        let real = ProcessIdentity::of(tree.control.pid()).unwrap();
        assert!(real.is_alive());
        for other in [
            ProcessIdentity { started: real.started - 1, ..real.clone() },
            ProcessIdentity { boot_id: "another-boot".to_owned(), ..real.clone() },
            ProcessIdentity { pid_ns: real.pid_ns + 1, ..real.clone() },
        ] {
            assert!(!other.is_alive());
            assert!(!other.end(Duration::ZERO).unwrap());
        }
        assert!(runs(real.pid));
        assert!(real.end(GRACE).unwrap());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&tree.control.exited().await), Some(15));
        assert!(!real.is_alive(), "a zombie, or not even that");
        assert!(!real.end(GRACE).unwrap());
        soon("gone", tree.control.gone()).await;
    }

    async fn who_ignores_term_is_killed_after_the_grace() {
        let mut tree = start(&script("trap '' TERM; echo; while :; do sleep 1000; done"));
        line(&mut tokio::io::BufReader::new(&mut tree.stdout)).await;
        let real = ProcessIdentity::of(tree.control.pid()).unwrap();
        assert!(real.end(Duration::from_millis(20)).unwrap());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&tree.control.exited().await), Some(9));
        tree.control.kill();
        soon("gone", tree.control.gone()).await;
    }

    async fn a_zombie_is_not_alive() {
        // Not one of our trees: those are reaped as soon as they are gone.
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let real = ProcessIdentity::of(child.id()).unwrap();
        assert!(real.is_alive());
        child.kill().unwrap();
        until("ended", || !runs(real.pid)).await;
        assert_eq!(children(), [real.pid], "still there, as a zombie");
        assert!(!real.is_alive());
        assert_eq!(ProcessIdentity::of(real.pid).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        child.wait().unwrap();
    }
}
