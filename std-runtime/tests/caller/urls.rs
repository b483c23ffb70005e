//! Servers behind URLs: what their bridges are told, and what credentials that are refused lead to.

use std::fs;

use drowse_runtime::caller::{Environment, ExitClass, Outcome, Pin, Wanted, WantedTarget};
use drowse_runtime::lock::Lock;
use drowse_runtime::record::{OnExpiry, State, StateRecord};
use drowse_runtime::remote::Header;
use drowse_runtime::wire::{Kind, Ran};

use crate::fake::{Life, World, long, name, wanted};

fn header(name: &str, value: &str) -> Header {
    Header { name: name.into(), value: value.into() }
}

fn at(url: &str) -> Wanted {
    Wanted { target: WantedTarget::Url { url: url.into() }, ..wanted("s") }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Every file of the home but the credentials.
fn on_disk(world: &World) -> String {
    let files = fs::read_dir(world.home().session(&name("s"))).unwrap().map(|file| file.unwrap().path());
    let plain = files.filter(|path| path.is_file() && !path.ends_with("credentials.json"));
    plain.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()).collect()
}

#[test]
fn a_bridge_is_told_where_the_server_is_and_how_to_reach_it() {
    let world = World::new();
    let ca = world.dir.path().join("ca.pem");
    fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
    let mut first = at("localhost:8080/mcp");
    first.headers = vec![header("Authorization", "Bearer s3cret"), header("X-A", "1"), header("x-a", "2")];
    first.settings.cacert = Some(ca.clone());
    first.settings.proxy = Some("http://proxy:3128".into());
    first.settings.keepalive_secs = Some(1);
    first.settings.auto_restart = Some(true);
    first.settings.on_expiry = Some(OnExpiry::Fail);
    first.environment = [("NO_PROXY".into(), "localhost".into())].into_iter().collect();
    assert_eq!(world.connect(&first).unwrap().outcome, Outcome::Created);
    let config = world.config(0);
    let remote = config.remote.unwrap();
    assert_eq!((remote.url.as_str(), remote.insecure), ("http://localhost:8080/mcp", false));
    let sent = pairs(&[("Authorization", "Bearer s3cret"), ("X-A", "1"), ("x-a", "2")]);
    assert_eq!(remote.headers, sent);
    assert_eq!((remote.cacert, remote.proxy.as_deref()), (Some(ca), Some("http://proxy:3128")));
    assert_eq!((config.keepalive_secs, config.auto_restart, config.fail_on_expiry), (Some(1), true, true));
    assert_eq!((config.command.as_str(), config.args.len()), ("", 0));
    assert_eq!(config.env, pairs(&[("NO_PROXY", "localhost")]));
    assert!(!on_disk(&world).contains("s3cret"));

    // The same address, however it is written: nothing is changed but what is given.
    let mut second = at("http://LOCALHOST:8080/mcp");
    assert_eq!(world.connect(&second).unwrap().outcome, Outcome::AlreadyAwake);
    second.headers = vec![header("x-A", "3")];
    second.settings.insecure = Some(true);
    second.settings.keepalive_secs = Some(0);
    second.settings.on_expiry = Some(OnExpiry::Fresh);
    assert_eq!(world.connect(&second).unwrap().outcome, Outcome::Restarted);
    let config = world.config(1);
    assert_eq!((config.keepalive_secs, config.auto_restart, config.fail_on_expiry), (Some(0), true, false));
    let remote = config.remote.unwrap();
    assert_eq!(remote.headers, pairs(&[("Authorization", "Bearer s3cret"), ("x-A", "3")]));
    assert_eq!((remote.url.as_str(), remote.insecure), ("http://localhost:8080/mcp", true));

    let error = world.connect(&at("http://localhost:8080/other")).unwrap_err();
    assert_eq!((error.kind(), error.exit()), (Kind::NameTaken, ExitClass::Usage));
    assert!(error.to_string().contains("http://localhost:8080/mcp"), "{error}");
    world.call().unwrap();
    world.sessions.close(&name("s"), long()).unwrap();
}

#[test]
fn an_entrys_headers_are_expanded_for_the_bridge_alone() {
    let world = World::new();
    let file = world.dir.path().join("mcp.json");
    let write = |entry: &str| fs::write(&file, format!(r#"{{"mcpServers":{{"e":{entry}}}}}"#)).unwrap();
    write(
        r#"{"url":"https://${HOST}/mcp","headers":{"Authorization":"Bearer ${TOKEN}","X-Lit":"lit-s3cret"},
        "keepaliveSecs":5,"onExpiry":"fail","autoRestart":true}"#,
    );
    let mut wanted = wanted("s");
    wanted.target = WantedTarget::Entry { file: file.clone(), entry: "e".into() };
    wanted.environment = [("HOST", "h.example"), ("TOKEN", "tok-s3cret\n")]
        .map(|(n, v)| (n.into(), v.into()))
        .into_iter()
        .collect();
    wanted.settings.auto_restart = Some(false);
    world.connect(&wanted).unwrap();
    let config = world.config(0);
    assert_eq!((config.keepalive_secs, config.auto_restart, config.fail_on_expiry), (Some(5), false, true));
    let remote = config.remote.unwrap();
    assert_eq!(remote.url, "https://h.example/mcp");
    let sent = [("Authorization", "Bearer tok-s3cret"), ("X-Lit", "lit-s3cret")];
    assert_eq!(remote.headers, pairs(&sent));
    assert!(!on_disk(&world).contains("s3cret"), "{}", on_disk(&world));

    // One that is given stands for the entry's, also when the entry is read again.
    wanted.headers = vec![header("authorization", "Basic given-s3cret")];
    world.connect(&wanted).unwrap();
    let sent = [("X-Lit", "lit-s3cret"), ("authorization", "Basic given-s3cret")];
    assert_eq!(world.config(1).remote.unwrap().headers, pairs(&sent));
    write(r#"{"url":"https://other.example","headers":{"X-New":"n"}}"#);
    let restart = || world.sessions.restart(&name("s"), &Environment::default(), long());
    restart().unwrap();
    let remote = world.config(2).remote.unwrap();
    assert_eq!(remote.url, "https://other.example");
    assert_eq!(remote.headers, pairs(&[("X-New", "n"), ("authorization", "Basic given-s3cret")]));

    // A command again. A header that was given waits for the entry to become a URL once more.
    write(r#"{"command":"run"}"#);
    restart().unwrap();
    let config = world.config(3);
    assert_eq!((config.command.as_str(), config.remote.is_none()), ("run", true));
}

#[test]
fn a_variable_that_was_pinned_anew_is_checked_before_it_is_sent() {
    let world = World::new();
    let file = world.dir.path().join("mcp.json");
    fs::write(&file, r#"{"mcpServers":{"e":{"url":"https://h","headers":{"X-A":"${TOKEN}"}}}}"#).unwrap();
    let mut wanted = wanted("s");
    wanted.target = WantedTarget::Entry { file, entry: "e".into() };
    wanted.pins = vec![Pin::Value("TOKEN".into(), "one".into())];
    wanted.lazy = Some(true);
    world.connect(&wanted).unwrap();
    wanted.pins = vec![Pin::Value("TOKEN".into(), "hush\r\nX-B: two".into())];
    world.connect(&wanted).unwrap();
    let error = world.call().unwrap_err();
    assert_eq!((error.kind(), error.ran()), (Kind::Config, Some(Ran::No)));
    let text = error.to_string();
    assert!(
        text.contains("@s, headers.X-A") && text.contains("line break") && !text.contains("hush"),
        "{text}"
    );
    assert_eq!(world.launches(), 0);
}

/// A session whose server refused it. Its bridge is gone.
fn refused(world: &World) {
    world
        .connect(&Wanted { lazy: Some(true), headers: vec![header("X-Key", "old")], ..at("https://h") })
        .unwrap();
    world.write_state(&StateRecord {
        generation: 3,
        state: State::Unauthorized,
        message: Some("HTTP 401: token expired".into()),
        ..StateRecord::dormant()
    });
}

#[test]
fn refused_credentials_are_not_tried_again_by_calls() {
    let world = World::new();
    refused(&world);
    for _ in 0..2 {
        let error = world.call().unwrap_err();
        assert_eq!((error.kind(), error.ran()), (Kind::Unauthorized, Some(Ran::No)));
        assert_eq!(error.exit(), ExitClass::Authorization);
        let text = error.to_string();
        assert!(text.contains("token expired") && text.contains("drowse restart @s"), "{text}");
    }
    assert_eq!(world.launches(), 0);
    assert_eq!(world.sessions.get(&name("s")).unwrap().state, State::Unauthorized);
    assert!(world.sessions.clean(false, long()).unwrap().removed.is_empty());
}

#[test]
fn connect_and_restart_try_refused_credentials_again() {
    let world = World::new();
    refused(&world);
    let mut again = at("https://h");
    again.headers = vec![header("x-key", "new")];
    assert_eq!(world.connect(&again).unwrap().outcome, Outcome::Woken);
    let config = world.config(0);
    assert_eq!((config.generation, config.remote.unwrap().headers), (3, pairs(&[("x-key", "new")])));
    world.call().unwrap();
    world.sessions.close(&name("s"), long()).unwrap();

    // Whoever connects has had it mended on the other side, perhaps.
    refused(&world);
    assert_eq!(world.connect(&at("https://h")).unwrap().outcome, Outcome::Woken);
    world.sessions.close(&name("s"), long()).unwrap();

    refused(&world);
    let restarted = world.sessions.restart(&name("s"), &Environment::default(), long());
    assert_eq!(restarted.unwrap().outcome, Outcome::Restarted);
    world.call().unwrap();
    world.sessions.close(&name("s"), long()).unwrap();

    // New ones, to be used later.
    refused(&world);
    let lazy = Wanted { lazy: Some(true), ..again };
    assert_eq!(world.connect(&lazy).unwrap().outcome, Outcome::Updated);
    assert_eq!(world.state().unwrap().state, State::Idle);
    world.call().unwrap();
}

#[test]
fn a_connect_that_is_refused_again_keeps_the_session_and_says_so() {
    let world = World::new();
    refused(&world);
    world.next(Life::Fails("HTTP 403"));
    assert!(world.connect(&at("https://h")).unwrap_err().to_string().contains("HTTP 403"));
    assert!(world.sessions.get(&name("s")).is_ok());
    world.connect(&at("https://h")).unwrap();
    world.call().unwrap();
}

#[test]
fn an_expired_session_is_begun_anew_unless_the_user_wants_to_know() {
    for (on_expiry, fails) in [(None, false), (Some(OnExpiry::Fresh), false), (Some(OnExpiry::Fail), true)] {
        let world = World::new();
        let mut wanted = Wanted { lazy: Some(true), ..at("https://h") };
        wanted.settings.on_expiry = on_expiry;
        world.connect(&wanted).unwrap();
        world.write_state(&StateRecord { state: State::Expired, ..StateRecord::dormant() });
        match world.call() {
            Ok(_) => assert!(!fails),
            Err(error) => {
                assert!(fails && error.to_string().contains("drowse restart @s"), "{error}");
                assert_eq!((error.kind(), error.ran()), (Kind::Expired, Some(Ran::No)));
                assert_eq!(error.exit(), ExitClass::Server);
                world.sessions.restart(&name("s"), &Environment::default(), long()).unwrap();
                world.call().unwrap();
            }
        }
        assert_eq!(world.executed(), 1);
    }
}

#[test]
fn a_first_connect_that_is_refused_leaves_nothing() {
    let world = World::new();
    world.next(Life::Fails("HTTP 401"));
    let mut wanted = at("https://h");
    wanted.headers = vec![header("X-Key", "s3cret")];
    assert!(world.connect(&wanted).is_err());
    assert!(!world.home().session(&name("s")).exists());
    drop(Lock::acquire(&world.home().start_lock(&name("s")), long()).unwrap());
}
