//! Subscriptions end to end: the command, the bridge and servers of both eras, over their pipes and over HTTP. The
//! servers announce only what was subscribed to.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod subscriptions {
    mod command;
    mod deferral;
    mod eras;
    mod files;

    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Stdio};
    use std::sync::mpsc::{self, Receiver};
    use std::thread;

    use drowse_tests::harness::{ERAS, Home, HttpServer, LIMIT, Session, at_once};
    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::Value;

    /// A resource of the fixture, and the tool that changes it.
    const COUNTER: &str = "counter://main";
    const TOUCH: &str = "touch";

    /// A command that runs until it is interrupted, and what it prints.
    struct Subscriber {
        child: Child,
        lines: Receiver<String>,
        errors: Receiver<String>,
    }

    impl Subscriber {
        /// Starts `drowse @s resources-subscribe …`.
        fn start(home: &Home, words: &[&str]) -> Self {
            let mut command = home.command(words);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
            let lines = |pipe: Box<dyn std::io::Read + Send>| {
                let (sender, receiver) = mpsc::channel();
                thread::spawn(move || {
                    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                        let _ = sender.send(line);
                    }
                });
                receiver
            };
            Self { child, lines: lines(Box::new(out)), errors: lines(Box::new(err)) }
        }

        /// Subscribes with `--json`, and waits until the server knows.
        fn json(session: &Session<'_>, home: &Home) -> Self {
            let name = session.listed()["name"].as_str().unwrap().to_owned();
            let subscriber = Self::start(home, &[&name, "resources-subscribe", COUNTER, "--json"]);
            session.wait_for(|entries| {
                entries.iter().any(|entry| {
                    entry.is("in", "method", "resources/subscribe")
                        || entry.is("in", "method", "subscriptions/listen")
                })
            });
            subscriber
        }

        #[track_caller]
        fn line(&self) -> String {
            self.lines.recv_timeout(LIMIT).expect("a line")
        }

        /// The next document: the content of the resource, and whether it was subscribed to anew.
        #[track_caller]
        fn update(&self) -> (String, bool) {
            let document: Value = serde_json::from_str(&self.line()).expect("a JSON document a line");
            assert_eq!(document["_drowse"]["uri"], COUNTER);
            assert!(document["_drowse"]["at"].is_u64());
            let text = document["contents"][0]["text"].as_str().expect("a text").to_owned();
            (text, document["_drowse"]["resubscribed"] == true)
        }

        /// What it says on stderr next.
        #[track_caller]
        fn says(&self) -> String {
            self.errors.recv_timeout(LIMIT).expect("a word on stderr")
        }

        fn interrupt(&self) {
            let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
            kill_process(pid, Signal::INT).unwrap();
        }

        /// Its exit status.
        #[track_caller]
        fn ends(mut self) -> i32 {
            // What it has still to say says that it ended.
            while self.lines.recv_timeout(LIMIT).is_ok() {}
            self.child.wait().unwrap().code().unwrap_or(-1)
        }

        #[track_caller]
        fn ends_after_ctrl_c(self) {
            self.interrupt();
            assert_eq!(self.ends(), 0);
        }
    }

    impl Drop for Subscriber {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// How often the server was asked to announce updates of the counter, and what drowse itself wants to hear of: for a
    /// difference, once that is asked for.
    fn asked(session: &Session<'_>) -> usize {
        let methods = session.methods();
        let asks =
            |method: &&String| ["resources/subscribe", "subscriptions/listen"].contains(&method.as_str());
        methods.iter().filter(asks).count()
    }

    /// A session on each kind of server: either era, over pipes and over HTTP.
    fn everywhere(flags: &[&str], test: impl Fn(&Home, Session<'_>, Option<&HttpServer>) + Sync) {
        let cases = ERAS.into_iter().flat_map(|era| [false, true].map(|http| (era, http)));
        let named =
            cases.map(|(era, http)| (format!("{era}, {}", if http { "HTTP" } else { "stdio" }), (era, http)));
        at_once(named, |(era, http)| {
            let home = Home::new();
            if http {
                let server = HttpServer::start(&["--era", era]);
                test(&home, home.connect_http("@s", flags, &server), Some(&server));
                let _ = home.run(["close", "@s"]);
            } else {
                test(&home, home.connect("@s", flags, &["--era", era]), None);
            }
        });
    }
}
