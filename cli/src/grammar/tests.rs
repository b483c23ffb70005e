//! The table against the commands, and typos.

use super::*;

#[test]
fn commands_are_sound_and_agree_with_the_list_of_value_flags() {
    let mut seen: Vec<String> = Vec::new();
    for verb in VERBS {
        let mut command = command(verb);
        command.build();
        command.clone().debug_assert();
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let names = arg.get_long().map(|long| format!("--{long}"));
            for name in names.into_iter().chain(arg.get_short().map(|short| format!("-{short}"))) {
                assert_eq!(takes_value(&name), arg.get_action().takes_values(), "{} {name}", verb.name);
                seen.push(name);
            }
        }
    }
    for flag in VALUE_FLAGS.iter().copied() {
        assert!(seen.iter().any(|name| name == flag), "{flag} belongs to no command");
    }
    for flag in LATER_FLAGS {
        assert!(!seen.iter().any(|name| name == flag), "{flag} exists by now");
    }
    for later in LATER_VERBS {
        assert!(verb(later).is_none(), "{later} exists by now");
    }
}

#[test]
fn typos_reversed_names_and_habits_find_their_verb() {
    for (typed, meant) in [
        ("list-tools", "tools-list"),
        ("call-tools", "tools-call"),
        ("read-resources", "resources-read"),
        ("tools_list", "tools-list"),
        ("tool-list", "tools-list"),
        ("toolslist", "tools-list"),
        ("tools-lsit", "tools-list"),
        ("tools-cal", "tools-call"),
        ("conect", "connect"),
        ("resart", "restart"),
        ("tools", "tools-list"),
        ("stop", "close"),
    ] {
        assert_eq!(similar_verb(typed), Some(meant), "{typed}");
    }
    for stranger in ["banana", "x", "list", "bridge-serv"] {
        assert_eq!(similar_verb(stranger), None, "{stranger}");
    }
}

#[test]
fn the_overview_names_every_visible_verb_and_no_hidden_one() {
    let text = overview();
    for verb in VERBS {
        assert_eq!(text.contains(&format!(" {} ", verb.name)), !verb.about.is_empty(), "{}", verb.name);
    }
}
