//! What a bridge does: B1 to B5, serving, D1 to D3; and what its server does.
//!
//! Owns the steps of bridges and of the server's tree, and how a bridge process ends. Never decides for a caller.

use super::search::{Steps, Who};
use super::world::{
    At, Bridge, CALLERS, COMMANDS, CommandAt, Conn, Down, Op, Phase, Record, Sock, Tree, Up, World,
};
use super::{Command, Config, Variant, Violation};

/// All steps that bridge `k` can take.
pub(super) fn steps(world: &World, config: &Config, k: usize, out: &mut Steps) {
    let me = world.bridges[k];
    if !me.phase.lives() {
        clear_away(world, k, out);
        return;
    }
    if me.wedged {
        return;
    }
    if me.phase.accepts() {
        accept(world, k, out);
        notice_eof(world, k, out);
        read_close(world, config, k, out);
    }
    if me.phase == Phase::Live {
        serve(world, k, out);
        go_idle(world, config, k, out);
    }
    if me.phase == Phase::Leaving {
        notice_eof(world, k, out);
        serve(world, k, out);
    }
    if matches!(
        me.phase,
        Phase::Negotiating | Phase::Negotiated | Phase::SaidReady | Phase::Live | Phase::Leaving
    ) && world.tree != Tree::Whole(k)
    {
        let mut next = *world;
        next.record = Record::Crashed;
        next.bridges[k].phase = Phase::Crashed;
        out.push(Who::Bridge(k), "the server is lost, write crashed", next);
        return;
    }
    advance(world, config, k, out);
}

/// The one next step of a bridge that follows from its phase alone.
fn advance(world: &World, config: &Config, k: usize, out: &mut Steps) {
    let who = Who::Bridge(k);
    let variant = config.variant;
    let mut next = *world;
    let phase = &mut next.bridges[k].phase;
    match world.bridges[k].phase {
        Phase::Free | Phase::Live | Phase::Exiting | Phase::Exited => {}
        Phase::Unfed => {
            let fed_by = |at: At, starts: usize| at == At::Feed && starts == k;
            let starter = world.callers.iter().any(|c| fed_by(c.at, c.starts))
                || world.commands.iter().any(|c| c.at == CommandAt::Feed && c.starts == k);
            if !starter {
                bury(world, config, k, |world| out.push(who, "B0 no configuration came, exit", world));
            }
        }
        Phase::Fed => {
            if world.b_free(config) {
                *phase = Phase::Locked;
                next.bridges[k].has_b = true;
                out.push(who, "B1 lock B", next);
            } else if variant == Variant::BridgeTriesB {
                tell_starter(&mut next, k, At::StartFailed, CommandAt::StartFailed);
                bury(&next, config, k, |world| out.push(who, "B1 B is taken, say failed, exit", world));
            }
        }
        Phase::Locked => {
            if world.sock == Sock::None {
                *phase = Phase::Bound;
                next.sock = Sock::Of(k);
                out.push(who, "B2 bind", next);
            } else {
                tell_starter(&mut next, k, At::StartFailed, CommandAt::StartFailed);
                bury(&next, config, k, |world| out.push(who, "B2 cannot bind, say failed, exit", world));
            }
        }
        Phase::Bound => {
            *phase = Phase::Listening;
            out.push(who, "B2 listen", next);
        }
        Phase::Listening if variant == Variant::ForkBeforeState => {
            *phase = Phase::Persisted;
            fork(&mut next, k, false);
            out.push(who, "B4 fork", next);
        }
        Phase::Listening => {
            *phase = Phase::Persisted;
            write_generation(&mut next, false);
            out.push(who, "B3 write the next generation", next);
        }
        Phase::Persisted if variant == Variant::ForkBeforeState => {
            *phase = Phase::Negotiating;
            write_generation(&mut next, true);
            out.push(who, "B3 write the next generation", next);
        }
        Phase::Persisted => {
            *phase = Phase::Negotiating;
            fork(&mut next, k, true);
            out.push(who, "B4 fork", next);
        }
        Phase::Negotiating => {
            *phase = Phase::Negotiated;
            next.record = Record::Live;
            out.push(who, "B4 negotiated, write live", next);
        }
        Phase::Negotiated => {
            *phase = if world.bridges[k].has_l { Phase::SaidReady } else { Phase::Live };
            tell_starter(&mut next, k, At::Ready, CommandAt::Ready);
            out.push(who, "B5 say ready to whoever waits for it", next);
        }
        Phase::SaidReady => {
            *phase = Phase::Live;
            next.bridges[k].has_l = false;
            next.bridges[k].old_lock = false;
            out.push(who, "B5 close L", next);
        }
        Phase::Draining => {
            *phase = Phase::Drained;
            next.tree = Tree::None;
            out.push(who, "D1 the tree is gone", next);
        }
        Phase::Drained => {
            let pending = (0..CALLERS).any(|i| world.callers[i].in_flight(k));
            if pending && variant != Variant::DrainDrops {
                *phase = Phase::Listening;
                out.push(who, "D2 an operation came", next);
            } else if config.listens {
                if !world.ended {
                    next.ended = true;
                    out.push(who, "D3 nothing pending, write ended, stay as the listener", next);
                }
            } else {
                *phase = Phase::Unlinking;
                next.ended = true;
                for c in next.callers.iter_mut().filter(|c| c.conn == Conn::To(k)) {
                    c.op = Op::Away;
                }
                out.push(who, "D3 nothing pending, write ended", next);
            }
        }
        Phase::Crashed => {
            if fail_in_flight(world, k, Down::LostNo, Down::LostUnknown, out) {
                *phase = Phase::CrashedStop;
                tell_starter(&mut next, k, At::StartFailed, CommandAt::StartFailed);
                out.push(who, "say failed to whoever waits for ready", next);
            }
        }
        Phase::Leaving => {
            if !(0..CALLERS).any(|i| world.callers[i].in_flight(k)) {
                *phase = Phase::Closing;
                out.push(who, "nothing is in flight, leave", next);
            }
        }
        Phase::Closing if !fail_in_flight(world, k, Down::ShutNo, Down::ShutUnknown, out) => {}
        Phase::CrashedStop | Phase::Closing => {
            // One that was never ready has a starter who is told, and goes.
            let stays =
                config.listens && world.bridges[k].phase == Phase::CrashedStop && !world.bridges[k].has_l;
            *phase = if stays { Phase::Drained } else { Phase::Unlinking };
            if world.tree_owner() == Some(k) {
                next.tree = Tree::None;
            }
            next.ended = true;
            if world.bridges[k].phase == Phase::Closing {
                next.record = Record::Idle;
            }
            out.push(who, "end the tree, write ended", next);
        }
        Phase::Unlinking => {
            *phase = Phase::CloseListener;
            if let Sock::Of(other) = world.sock
                && other != k
            {
                next.violate(Violation::UnlinkedLiving);
            }
            next.sock = Sock::None;
            out.push(who, "D3 unlink the socket", next);
        }
        Phase::CloseListener => {
            *phase = Phase::GoingAway;
            close_listener(&mut next, variant, k);
            out.push(who, "D3 close the listener", next);
        }
        Phase::GoingAway => {
            let mut told_all = true;
            for i in 0..CALLERS {
                let peer = world.callers[i];
                let told = peer.at.finished() || !matches!(peer.down, Down::Nothing | Down::Hello);
                if peer.conn == Conn::To(k) && !told && variant != Variant::NoGoaway {
                    let mut next = *world;
                    say_goaway(&mut next, i);
                    out.push(who, "D3 GOAWAY", next);
                    told_all = false;
                }
            }
            if told_all {
                bury(world, config, k, |world| out.push(who, "D3 exit", world));
            }
        }
    }
}

/// Answers hellos, reads operations.
fn accept(world: &World, k: usize, out: &mut Steps) {
    let who = Who::Bridge(k);
    for i in 0..CALLERS {
        let caller = world.callers[i];
        if caller.conn != Conn::To(k) {
            continue;
        }
        let mut next = *world;
        let peer = &mut next.callers[i];
        peer.up = Up::Nothing;
        match caller.up {
            Up::Nothing => {}
            Up::Hello => {
                peer.down = Down::Hello;
                out.push(who, "answer a hello", next);
            }
            // The operation behind it is read in a step of its own. The caller, if it is still there, has its answer.
            Up::Both => {
                peer.up = Up::Operation;
                if peer.at == At::Hello {
                    peer.at = At::Wait;
                }
                out.push(who, "answer a hello with an operation behind it", next);
            }
            Up::Operation => {
                peer.op = Op::Held;
                if caller.op != Op::Away {
                    next.violate(Violation::SentTwice);
                }
                out.push(who, "read an operation", next);
            }
        }
    }
    for j in 0..COMMANDS {
        let command = world.commands[j];
        if command.at == CommandAt::AwaitHello && command.conn == Conn::To(k) {
            let mut next = *world;
            next.commands[j].at = CommandAt::Succeeded;
            out.push(who, "answer the hello of connect", next);
        }
    }
}

/// A caller that vanished is cancelled, and its activity ends. The server may run its operation all the same.
fn notice_eof(world: &World, k: usize, out: &mut Steps) {
    for i in 0..CALLERS {
        let caller = world.callers[i];
        if caller.conn == Conn::To(k)
            && caller.at.finished()
            && !matches!(caller.up, Up::Operation | Up::Both)
        {
            let mut next = *world;
            let peer = &mut next.callers[i];
            peer.conn = Conn::None;
            peer.up = Up::Nothing;
            if peer.op != Op::AtServer {
                peer.op = Op::Away;
            }
            out.push(Who::Bridge(k), "cancel the operation of a caller that is gone", next);
        }
    }
}

/// `close` and `restart` end the bridge; `replace` asks it to leave, which it hears while it serves, or listens.
fn read_close(world: &World, config: &Config, k: usize, out: &mut Steps) {
    for j in 0..COMMANDS {
        let (phase, what) = match config.commands[j] {
            Some(Command::Close | Command::Restart) => (Phase::Closing, "read close"),
            Some(Command::Replace) if config.variant == Variant::ReplaceAtOnce => {
                (Phase::Closing, "read leave")
            }
            Some(Command::Replace) if world.bridges[k].phase == Phase::Live => (Phase::Leaving, "read leave"),
            // A listener hears it while its server sleeps, too. What was read before is served first.
            Some(Command::Replace)
                if config.listens
                    && world.bridges[k].phase == Phase::Drained
                    && !(0..CALLERS).any(|i| world.callers[i].in_flight(k)) =>
            {
                (Phase::Closing, "read leave")
            }
            _ => continue,
        };
        if world.commands[j].conn == Conn::To(k) {
            let mut next = *world;
            next.commands[j].conn = Conn::None;
            next.bridges[k].phase = phase;
            out.push(Who::Bridge(k), what, next);
        }
    }
}

/// Passes operations to the server and answers to callers.
fn serve(world: &World, k: usize, out: &mut Steps) {
    for i in 0..CALLERS {
        let caller = world.callers[i];
        if caller.conn != Conn::To(k) {
            continue;
        }
        let mut next = *world;
        let peer = &mut next.callers[i];
        match caller.op {
            Op::Held if world.tree == Tree::Whole(k) => {
                peer.op = Op::AtServer;
                out.push(Who::Bridge(k), "pass an operation to the server", next);
            }
            Op::Answered => {
                peer.op = Op::Away;
                peer.down = Down::Answer;
                out.push(Who::Bridge(k), "pass an answer to its caller", next);
            }
            _ => {}
        }
    }
}

/// D1: the deadline fires. It may at any moment at which nothing is in flight.
fn go_idle(world: &World, config: &Config, k: usize, out: &mut Steps) {
    if !config.idles || (0..CALLERS).any(|i| world.callers[i].in_flight(k)) {
        return;
    }
    let mut next = *world;
    next.bridges[k].phase = Phase::Draining;
    next.record = Record::Idle;
    match config.variant {
        Variant::IdleForgetsGeneration => next.named = false,
        Variant::EndedTooEarly => next.ended = true,
        _ => {}
    }
    out.push_idle(Who::Bridge(k), "D1 deadline, write idle", next);
}

/// What the server's tree does by itself.
pub(super) fn server_steps(world: &World, out: &mut Steps) {
    if world.tree == Tree::None {
        return;
    }
    for i in 0..CALLERS {
        let caller = world.callers[i];
        if caller.op != Op::AtServer {
            continue;
        }
        let mut next = *world;
        if caller.ran {
            next.violate(Violation::RanTwice);
        }
        let owner = world.tree_owner().map(Conn::To);
        let peer = &mut next.callers[i];
        peer.ran = true;
        peer.op = if owner == Some(caller.conn) { Op::Answered } else { Op::Away };
        out.push(Who::Server, "run an operation", next);
    }
    if world.tree == Tree::Dying {
        let mut next = *world;
        next.tree = Tree::None;
        out.push(Who::Server, "die with the bridge", next);
    }
}

/// Bridge `k` exits or is killed: what it has in memory is gone, and its server with it or not. `push` gets each state
/// that this can lead to. The kernel is not done with its descriptors then: see `clear_away`.
pub(super) fn bury(world: &World, config: &Config, k: usize, mut push: impl FnMut(World)) {
    let mut next = *world;
    for caller in next.callers.iter_mut().filter(|c| c.conn == Conn::To(k)) {
        if caller.op != Op::AtServer {
            caller.op = Op::Away;
        }
        if caller.at.finished() {
            caller.conn = Conn::None;
            caller.up = Up::Nothing;
        }
    }
    for command in next.commands.iter_mut().filter(|c| c.conn == Conn::To(k)) {
        command.conn = Conn::None;
    }
    next.bridges[k].phase = Phase::Exiting;
    next.bridges[k].wedged = false;
    match world.tree {
        Tree::Whole(owner) if owner == k => {
            next.tree = Tree::Dying;
            push(next);
            if config.incomplete_reaping {
                next.tree = Tree::Lingering;
                push(next);
            }
        }
        Tree::Stump(owner) if owner == k => {
            next.tree = Tree::Lingering;
            push(next);
        }
        _ => push(next),
    }
}

/// The kernel closes the descriptors of a dead bridge: locks, sockets and the ready pipe, in any order. What lies in
/// its connections on the way to callers stays readable; what it had not read is lost.
fn clear_away(world: &World, k: usize, out: &mut Steps) {
    let who = Who::Bridge(k);
    let me = world.bridges[k];
    if me.phase == Phase::Free {
        return;
    }
    if me.has_l {
        let mut next = *world;
        next.bridges[k].has_l = false;
        next.bridges[k].old_lock = false;
        out.push(who, "(dead) L goes", next);
    }
    if me.has_b {
        let mut next = *world;
        next.bridges[k].has_b = false;
        out.push(who, "(dead) B goes", next);
    }
    let mut next = *world;
    tell_starter(&mut next, k, At::StartEof, CommandAt::StartEof);
    let pipe = next != *world;
    if pipe {
        out.push(who, "(dead) the ready pipe goes", next);
    }
    if me.phase == Phase::Exiting {
        let mut next = *world;
        next.bridges[k].phase = Phase::Exited;
        for caller in next.callers.iter_mut().filter(|c| c.conn == Conn::To(k)) {
            caller.conn = if caller.at.finished() { Conn::None } else { Conn::Lost };
            caller.up = Up::Nothing;
        }
        for command in next.commands.iter_mut().filter(|c| c.conn == Conn::To(k)) {
            command.conn = Conn::None;
        }
        if next.sock == Sock::Of(k) {
            next.sock = Sock::Stale;
        }
        out.push(who, "(dead) its sockets go", next);
    } else if !me.has_l && !me.has_b && !pipe {
        let mut next = *world;
        next.bridges[k] = Bridge::FREE;
        out.push(who, "(dead) gone", next);
    }
}

/// Puts `ready`, `failed` or the end into the pipe of whoever started bridge `k`.
fn tell_starter(world: &mut World, k: usize, caller: At, command: CommandAt) {
    for c in &mut world.callers {
        if matches!(c.at, At::Feed | At::AwaitReady) && c.starts == k {
            c.at = caller;
            c.starts = 0;
        }
    }
    for c in &mut world.commands {
        if matches!(c.at, CommandAt::Feed | CommandAt::AwaitReady) && c.starts == k {
            c.at = command;
            c.starts = 0;
        }
    }
}

/// B3. `of_tree`: the generation is that of the tree which runs already.
fn write_generation(world: &mut World, of_tree: bool) {
    world.record = Record::Connecting;
    world.named = of_tree && world.tree != Tree::None;
    world.ended = false;
}

/// B4.
fn fork(world: &mut World, k: usize, named: bool) {
    if world.tree != Tree::None {
        world.violate(Violation::SecondServer);
    }
    world.tree = Tree::Whole(k);
    world.named = named;
}

/// Answers what is in flight, one after the other: what the server has answered with that, what was passed to it with
/// `unknown`, the rest with `no`. True when all is answered.
fn fail_in_flight(world: &World, k: usize, no: Down, unknown: Down, out: &mut Steps) -> bool {
    let mut all = true;
    for i in 0..CALLERS {
        let caller = world.callers[i];
        if !caller.in_flight(k) || caller.at.finished() || caller.down != Down::Nothing {
            continue;
        }
        all = false;
        let mut next = *world;
        let peer = &mut next.callers[i];
        peer.down = match caller.op {
            Op::Away | Op::Held => no,
            Op::AtServer => unknown,
            Op::Answered => Down::Answer,
        };
        if caller.op != Op::AtServer {
            peer.op = Op::Away;
        }
        out.push(Who::Bridge(k), "answer or fail what is in flight", next);
    }
    all
}

/// D3: connections that were not yet accepted end with the listener.
fn close_listener(world: &mut World, variant: Variant, k: usize) {
    for i in 0..CALLERS {
        let caller = world.callers[i];
        if caller.conn != Conn::To(k) {
            continue;
        }
        let unanswered = matches!(caller.at, At::Greet | At::LockedGreet | At::Hello | At::LockedHello)
            && caller.down == Down::Nothing;
        let unread = variant == Variant::NoHello && caller.up == Up::Operation;
        if caller.at.finished() {
            let peer = &mut world.callers[i];
            peer.up = Up::Nothing;
            if peer.op != Op::AtServer {
                peer.op = Op::Away;
            }
            peer.conn = Conn::None;
        } else if unanswered || unread {
            world.callers[i].conn = Conn::Lost;
            world.callers[i].up = Up::Nothing;
        }
    }
    for command in world.commands.iter_mut().filter(|c| c.conn == Conn::To(k)) {
        command.conn = Conn::None;
    }
}

/// D3 on the connection of caller `i`.
fn say_goaway(world: &mut World, i: usize) {
    let peer = &mut world.callers[i];
    peer.down = match peer.at {
        At::Hello | At::LockedHello => Down::HelloGoaway,
        At::Wait if peer.up == Up::Nothing => Down::Goaway1,
        _ => Down::Goaway0,
    };
}
