//! Requests of clients that servers answer, and requests that no server hears of.

use drowse_core::method::Method;

use super::{About, Row};

/// What a request and its answer are made of: members without braces.
struct Carried {
    method: &'static str,
    params: &'static str,
    result: &'static str,
}

/// Strings with escapes, numbers of every form, white space: what a reader of JSON would write otherwise.
const CARRIED: [Carried; 8] = [
    Carried {
        method: "tools/list",
        params: r#""cursor":"\u00e9\/\"""#,
        result: r#""tools":[ {"name":"t","inputSchema":{"type":"object"}} ],"nextCursor":"c\u0041""#,
    },
    Carried {
        method: "tools/call",
        params: r#""name":"e\u0063ho","arguments":{"n":[1.50,-0,1E2,12345678901234567890],"😀":"\ud83d\ude00\n", "a" : null}"#,
        result: r#""content":[{"type":"text","text":"\u2028\\"}],"structuredContent":{"x":1.0},"isError":true"#,
    },
    Carried {
        method: "resources/list",
        params: r#""cursor":"""#,
        result: r#""resources":[{"uri":"a:1","name":"\t"}],"nextCursor":"""#,
    },
    Carried {
        method: "resources/templates/list",
        params: r#""cursor":"c""#,
        result: r#""resourceTemplates":[{"uriTemplate":"a:{x}","name":"n"}]"#,
    },
    Carried {
        method: "resources/read",
        params: r#""uri":"a:\u0031""#,
        result: r#""contents":[{"uri":"a:1","blob":"AA=="}]"#,
    },
    Carried {
        method: "prompts/list",
        params: r#""cursor":"c""#,
        result: r#""prompts":[{"name":"p","arguments":[]}]"#,
    },
    Carried {
        method: "prompts/get",
        params: r#""name":"p","arguments":{"a":"\"b\""}"#,
        result: r#""messages":[{"role":"user","content":{"type":"text","text":"x"}}],"description":"d""#,
    },
    Carried {
        method: "completion/complete",
        params: r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"},"context":{"arguments":{"b":"c"}}"#,
        result: r#""completion":{"values":["v"],"total":1,"hasMore":false}"#,
    },
];

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = CARRIED.iter().map(carried).collect();
    rows.extend(CARRIED.iter().map(bare));
    rows.extend(CARRIED.iter().flat_map(errors));
    rows.extend(tasks());
    rows.push(task_of_the_other_era());
    rows.extend(refused());
    rows
}

/// With metadata of the client's own, which stays, and a progress token of its own, which becomes one of drowse's.
fn carried(Carried { method, params, result }: &Carried) -> Row {
    let name = Method::from_name(method);
    let fresh = if name.is_cacheable() { r#","ttlMs":7,"cacheScope":"public""# } else { "" };
    let supplied = if name.is_cacheable() { r#","ttlMs":0,"cacheScope":"private""# } else { "" };
    let line = |id: &str, meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params},"_meta":{{{meta}}}}}}}"#
        )
    };
    let answer = |id: &str, members: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members},"_meta":{{"k\u0020":[ ]}}}}}}"#)
    };
    let own = r#""io.example/k\u006b":[1, 2],"traceparent":"00""#;
    let token = r#""progressToken":<w>"#;
    let level = r#""io.modelcontextprotocol/logLevel":"info""#;
    // An id and a token that are no numbers, and one that is nought.
    let (old_id, new_id) = (r#""x\u0022""#, "0");
    let old = line(old_id, &format!(r#""progressToken":"t\n",{own}"#));
    let new = line(new_id, &format!(r#"@NEW,"progressToken":0,{own}"#));
    let modern = format!(r#""resultType":"complete",{result}{fresh}"#);
    let cells = [
        (&old, line("<w>", &format!("{token},{own}")), answer("<w>", result), answer(old_id, result)),
        (
            &old,
            line("<w>", &format!("{token},{level},@OLD,{own}")),
            answer("<w>", &modern),
            answer(old_id, result),
        ),
        (
            &new,
            line("<w>", &format!("{token},{own}")),
            answer("<w>", result),
            answer(new_id, &format!(r#""resultType":"complete"{supplied},{result}"#)),
        ),
        (&new, line("<w>", &format!("{token},@NEW,{own}")), answer("<w>", &modern), answer(new_id, &modern)),
    ];
    let progress = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":1.0,"progressToken":{token},"total":2,"message":"\u00e9"}}}}"#
        )
    };
    let cells = cells.map(|(sent, arrives, answered, told)| {
        let of = if told.contains(old_id) { r#""t\n""# } else { "0" };
        format!(
            "C> {sent}\nS< {arrives}\nS> {}\nC< {}\nS> {answered}\nC< {told}",
            progress("<w>"),
            progress(of)
        )
    });
    Row::new(About::Request(name), *method, cells)
}

/// With nothing that can be left out.
fn bare(Carried { method, result, .. }: &Carried) -> Row {
    let name = Method::from_name(method);
    let supplied = if name.is_cacheable() { r#","ttlMs":0,"cacheScope":"private""# } else { "" };
    let token = if name == Method::ToolsCall { r#""progressToken":<w>,"# } else { "" };
    let meta = if name == Method::ToolsCall { r#","params":{"_meta":{"progressToken":<w>}}"# } else { "" };
    let level = r#""io.modelcontextprotocol/logLevel":"info""#;
    let line = |id: &str, more: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{more}}}"#);
    let new = format!(r#"{{"method":"{method}","params":{{"_meta":{{@NEW}}}},"id":-7,"jsonrpc":"2.0"}}"#);
    let emptied = if name == Method::ToolsCall { r#"{"progressToken":<w>}"# } else { "{}" };
    let answer = |id: &str, members: &str| format!(r#"{{"result":{{{members}}},"id":{id},"jsonrpc":"2.0"}}"#);
    // A server that forgets what every result has to have is taken for one that does not know it.
    let forgot = format!(r#""resultType":"complete"{supplied},{result}"#);
    let at_server = |meta: &str| {
        format!(r#"{{"method":"{method}","params":{{"_meta":{meta}}},"id":<w>,"jsonrpc":"2.0"}}"#)
    };
    let told = format!(r#","params":{{"_meta":{{{token}{level},@OLD}}}}"#);
    let cells = [
        [
            line("9007199254740993", ""),
            line("<w>", meta),
            answer("<w>", result),
            answer("9007199254740993", result),
        ],
        [
            line(r#""""#, r#","params":{}"#),
            line("<w>", &told),
            answer("<w>", result),
            answer(r#""""#, result),
        ],
        [new.clone(), at_server(emptied), answer("<w>", result), answer("-7", &forgot)],
        [new, at_server(&format!("{{{token}@NEW}}")), answer("<w>", result), answer("-7", &forgot)],
    ];
    let cells =
        cells.map(|[sent, arrives, said, heard]| format!("C> {sent}\nS< {arrives}\nS> {said}\nC< {heard}"));
    Row::new(About::More, format!("{method}, bare"), cells)
}

/// Errors keep their meaning: not found is the only one that has another code, and what the modern era does not allow.
fn errors(Carried { method, .. }: &Carried) -> Vec<Row> {
    let name = Method::from_name(method);
    let call = name == Method::ToolsCall;
    let mut rows = Vec::new();
    // Said by the server; heard on each pair.
    for (code, heard) in [
        (-32002, [-32002, -32002, -32602, -32002]),
        (-32602, [-32602, if name == Method::ResourcesRead { -32002 } else { -32602 }, -32602, -32602]),
        (-32603, [-32603; 4]),
        (-32055, [-32055, -32055, -32603, -32055]),
        (-32021, [-32021; 4]),
        (-32001, [-32001; 4]),
        (7, [7; 4]),
    ] {
        let error = |id: &str, code: i32| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"n\u006f","data":{{"uri":"a"}}}}}}"#
            )
        };
        let token = if call { r#""progressToken":<w>"# } else { "" };
        let comma = if call { "," } else { "" };
        let level = r#""io.modelcontextprotocol/logLevel":"info""#;
        let metas = [
            token.to_owned(),
            format!("{token}{comma}{level},@OLD"),
            token.to_owned(),
            format!("{token}{comma}@NEW"),
        ];
        let line = |id: &str, meta: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{{meta}}}}}}}"#)
        };
        let cells = std::array::from_fn(|at| {
            let sent = line("1", if at < 2 { "" } else { "@NEW" });
            format!(
                "C> {sent}\nS< {}\nS> {}\nC< {}",
                line("<w>", &metas[at]),
                error("<w>", code),
                error("1", heard[at])
            )
        });
        rows.push(Row::new(About::More, format!("{method}, error {code}"), cells));
    }
    rows
}

/// An error of drowse's own, as it stands on the wire.
fn own_error(id: &str, code: i32, kind: &str, message: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}","data":{{"drowse":{{"kind":"{kind}","ran":"no"}}}}}}}}"#
    )
}

/// Tasks are not the same in the two eras. What one has that the other lacks is for the server to refuse.
fn tasks() -> Vec<Row> {
    let refused = own_error(
        r#""x""#,
        -32601,
        "unsupported",
        "the tasks of a server of this era cannot be had by a client of another",
    );
    let row = |method: &str| {
        let line = |id: &str, meta: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"taskId":"7"{meta}}}}}"#)
        };
        let answer = |id: &str, kind: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"taskId":"7","status":"working","ttl":5}}}}"#
            )
        };
        let old = line(r#""x""#, "");
        let new = line(r#""x""#, r#","_meta":{@NEW}"#);
        let modern = r#""resultType":"complete","#;
        let cells = [
            format!(
                "C> {old}\nS< {}\nS> {}\nC< {}",
                line("<w>", ""),
                answer("<w>", ""),
                answer(r#""x""#, "")
            ),
            format!("C> {old}\nC< {refused}"),
            format!("C> {new}\nC< {refused}"),
            format!(
                "C> {new}\nS< {}\nS> {}\nC< {}",
                line("<w>", r#","_meta":{@NEW}"#),
                answer("<w>", modern),
                answer(r#""x""#, modern)
            ),
        ];
        let about = if method == "tasks/get" { About::Request(Method::Tasks) } else { About::More };
        Row::new(about, method, cells)
    };
    ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"].map(row).into()
}

/// Who asks for a call to become a task asks its own era's servers. Others are called as if it had not.
fn task_of_the_other_era() -> Row {
    let line = |id: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{params}}}}}"#)
    };
    let answer = |id: &str, kind: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"content":[],"task":1}}}}"#)
    };
    let task = r#""task":{"ttl":60000}"#;
    let token = r#""progressToken":<w>"#;
    let level = r#""io.modelcontextprotocol/logLevel":"info""#;
    let modern = r#""resultType":"complete","#;
    let cells = [
        (
            line("1", &format!(r#""name":"t",{task}"#)),
            line("<w>", &format!(r#""_meta":{{{token}}},"name":"t",{task}"#)),
            ["", ""],
        ),
        (
            line("1", &format!(r#""name":"t",{task}"#)),
            line("<w>", &format!(r#""_meta":{{{token},{level},@OLD}},"name":"t""#)),
            [modern, ""],
        ),
        (
            line("1", &format!(r#"{task},"name":"t","_meta":{{@NEW}}"#)),
            line("<w>", &format!(r#""name":"t","_meta":{{{token}}}"#)),
            ["", modern],
        ),
        // In this era it is a member that nobody knows, and servers have to ignore it themselves.
        (
            line("1", &format!(r#"{task},"name":"t","_meta":{{@NEW}}"#)),
            line("<w>", &format!(r#"{task},"name":"t","_meta":{{{token},@NEW}}"#)),
            [modern, modern],
        ),
    ];
    let cells = cells.map(|(sent, arrives, [said, heard])| {
        format!("C> {sent}\nS< {arrives}\nS> {}\nC< {}", answer("<w>", said), answer("1", heard))
    });
    Row::new(About::More, "tools/call that is to become a task", cells)
}

/// What there is not.
fn refused() -> Vec<Row> {
    let row = |about: About, method: &str| {
        let line = |meta: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":"x","method":"{method}","params":{{"a":1{meta}}}}}"#)
        };
        let (old, new) = (line(""), line(r#","_meta":{@NEW}"#));
        let refused = own_error(r#""x""#, -32601, "unsupported", "there is no such method here");
        let cells = [&old, &old, &new, &new].map(|sent| format!("C> {sent}\nC< {refused}"));
        Row::new(about, if method.is_empty() { "no name" } else { method }, cells)
    };
    let mut rows: Vec<Row> = Method::all()
        .filter(|method| method.is_drowses())
        .map(|method| row(About::Request(method), method.name()))
        .collect();
    rows.push(row(About::Request(Method::Other), "no/such"));
    rows.push(row(About::More, "tools\\u002fcall2"));
    rows.push(row(About::More, ""));
    rows
}
