//! How a state packs into 128 bits, and back.
//!
//! Owns the layout, which is 127 bits wide. Loses nothing but who is who among the callers.

use super::world::{
    At, BRIDGES, Bridge, CALLERS, COMMANDS, Caller, Command, CommandAt, Conn, Down, Op, Phase, Record, Sock,
    Tree, Up, Wanted, World,
};

const _: () = assert!(BRIDGES == 2, "a bridge's number has one bit");
const _: () = assert!(CALLERS * 18 + BRIDGES * 9 + COMMANDS * 11 + 15 <= 128, "a state has 128 bits");

impl World {
    /// Packs a normalized state. Callers are interchangeable, so they are sorted: states that differ only in who is
    /// who are one.
    pub(super) fn pack(&self) -> u128 {
        let mut callers = self.callers.map(pack_caller);
        callers.sort_unstable();
        let mut bits = Bits::default();
        for caller in callers {
            bits.push(caller, 18);
        }
        for bridge in self.bridges {
            bits.push(bridge.phase as u32, 5);
            bits.flag(bridge.has_l);
            bits.flag(bridge.has_b);
            bits.flag(bridge.old_lock);
            bits.flag(bridge.wedged);
        }
        for command in self.commands {
            bits.push(command.at as u32, 5);
            bits.push(command.conn.code(), 2);
            bits.push(command.starts as u32, 1);
            bits.flag(command.created);
            bits.flag(command.undoes);
            bits.flag(command.old_lock);
        }
        bits.push(self.tree.code(), 3);
        bits.push(self.sock.code(), 2);
        bits.push(self.wanted as u32, 2);
        bits.push(self.record as u32, 3);
        bits.flag(self.named);
        bits.flag(self.ended);
        bits.push(u32::from(self.faults), 2);
        bits.flag(self.flaky);
        bits.word
    }

    pub(super) fn unpack(word: u128) -> Self {
        let mut bits = Bits { word, at: 0 };
        Self {
            callers: std::array::from_fn(|_| unpack_caller(bits.pull(18))),
            bridges: std::array::from_fn(|_| Bridge {
                phase: Phase::decode(bits.pull(5)),
                has_l: bits.pull_flag(),
                has_b: bits.pull_flag(),
                old_lock: bits.pull_flag(),
                wedged: bits.pull_flag(),
            }),
            commands: std::array::from_fn(|_| Command {
                at: CommandAt::decode(bits.pull(5)),
                conn: Conn::decode(bits.pull(2)),
                starts: bits.pull(1) as usize,
                created: bits.pull_flag(),
                undoes: bits.pull_flag(),
                old_lock: bits.pull_flag(),
            }),
            tree: Tree::decode(bits.pull(3)),
            sock: Sock::decode(bits.pull(2)),
            wanted: Wanted::decode(bits.pull(2)),
            record: Record::decode(bits.pull(3)),
            named: bits.pull_flag(),
            ended: bits.pull_flag(),
            faults: bits.pull(2) as u8,
            flaky: bits.pull_flag(),
            violation: None,
            overflow: false,
        }
    }
}

fn pack_caller(caller: Caller) -> u32 {
    (caller.at as u32)
        | caller.conn.code() << 5
        | (caller.up as u32) << 7
        | (caller.down as u32) << 9
        | (caller.op as u32) << 13
        | u32::from(caller.ran) << 15
        | (caller.starts as u32) << 16
        | u32::from(caller.old_lock) << 17
}

fn unpack_caller(word: u32) -> Caller {
    Caller {
        at: At::decode(word & 31),
        conn: Conn::decode(word >> 5 & 3),
        up: Up::decode(word >> 7 & 3),
        down: Down::decode(word >> 9 & 15),
        op: Op::decode(word >> 13 & 3),
        ran: word >> 15 & 1 == 1,
        starts: (word >> 16 & 1) as usize,
        old_lock: word >> 17 & 1 == 1,
    }
}

impl Conn {
    fn code(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Lost => 1,
            Self::To(k) => 2 + k as u32,
        }
    }

    fn decode(code: u32) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Lost,
            k => Self::To(k as usize - 2),
        }
    }
}

impl Sock {
    fn code(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Stale => 1,
            Self::Of(k) => 2 + k as u32,
        }
    }

    fn decode(code: u32) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Stale,
            k => Self::Of(k as usize - 2),
        }
    }
}

impl Tree {
    fn code(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Dying => 1,
            Self::Lingering => 2,
            Self::Whole(k) => 4 + k as u32,
            Self::Stump(k) => 6 + k as u32,
        }
    }

    fn decode(code: u32) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Dying,
            2 => Self::Lingering,
            4 | 5 => Self::Whole(code as usize - 4),
            _ => Self::Stump(code as usize - 6),
        }
    }
}

/// Fields of a packed state, lowest first.
#[derive(Default)]
struct Bits {
    word: u128,
    at: u32,
}

impl Bits {
    fn push(&mut self, value: u32, width: u32) {
        debug_assert!(value >> width == 0, "field overflows its width");
        self.word |= u128::from(value) << self.at;
        self.at += width;
    }

    fn flag(&mut self, value: bool) {
        self.push(u32::from(value), 1);
    }

    fn pull(&mut self, width: u32) -> u32 {
        let value = (self.word >> self.at) as u32 & ((1 << width) - 1);
        self.at += width;
        value
    }

    fn pull_flag(&mut self) -> bool {
        self.pull(1) == 1
    }
}
