//! Topics, the skill file, and manual pages.

use std::fs;
use std::process::Command;

use drowse_tests::harness::Home;

fn help(home: &Home, topic: &str) -> String {
    home.run(["help", topic]).ok().out
}

#[test]
fn topics_are_listed_and_explained() {
    let home = Home::new();
    let overview = home.run(["help"]).ok().out;
    for topic in ["activity", "states", "agents", "json", "config"] {
        assert!(overview.contains(&format!("\n  {topic} ")), "{overview}");
        assert!(help(&home, topic).len() > 200, "{topic}");
    }
    let activity = help(&home, "activity");
    let rows = drowse_core::activity::rules().count();
    assert_eq!(activity.matches("starts a sleeping server:").count(), rows, "the core's table");
    for state in drowse_core::lifecycle::PublicState::ALL {
        assert!(help(&home, "states").contains(&format!("\n{state}: ")), "{state}");
    }
    assert_eq!(help(&home, "exit-codes"), help(&home, "json"));
    let connect = home.run(["connect", "--help"]).ok().out;
    for word in ["counts as use", "defer", "--auto-restart", "--idle-timeout", "help activity"] {
        assert!(connect.contains(word), "{word}: {connect}");
    }
}

#[test]
fn agents_get_the_skill_file() {
    let home = Home::new();
    let agents = help(&home, "agents");
    let skill = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../SKILL.md")).unwrap();
    assert!(skill.ends_with(&agents) && skill.starts_with("---\nname: drowse\ndescription: "), "{agents}");
    assert!(skill.split_whitespace().count() < 400);
}

#[test]
fn manual_pages_are_clean_roff() {
    let home = Home::new();
    let directory = home.path().join("man1");
    let out = home.run(["man", "-o", directory.to_str().unwrap(), "--json"]).ok().json();
    let files: Vec<&str> = out.as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert!(files.len() > 20 && files[0].ends_with("/drowse.1"), "{files:?}");
    assert_eq!(home.run(["man"]).ok().out, fs::read_to_string(files[0]).unwrap());
    let call = fs::read_to_string(directory.join("drowse-tools-call.1")).unwrap();
    assert_eq!(home.run(["man", "tools-call"]).ok().out, call);
    // The structure is checked beside the code; here, that a formatter has nothing to say.
    let Ok(probe) = Command::new("groff").arg("--version").output() else {
        eprintln!("groff is not there: pages are not formatted");
        return;
    };
    assert!(probe.status.success());
    let mut groff = Command::new("groff");
    let formatted = groff.args(["-ww", "-man", "-Tutf8", "-P-c"]).args(&files).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&formatted.stderr), "");
    let text = String::from_utf8(formatted.stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["--idle-timeout", "key:=json", "drowse help activity", "{…}"] {
        assert!(text.contains(word), "{word}");
    }
    let _ = home.run(["man", "tools-call", "-o", "x", "--json"]).fails(1);
    fs::write(home.path().join("file"), "").unwrap();
    let _ = home.run(["man", "-o", "file", "--json"]).fails(1);
}
