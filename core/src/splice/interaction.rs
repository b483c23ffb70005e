//! The messages of a held call: its questions on their way to the caller, and the answers on their way back.

use heapless::Vec;

use super::refusal::without_elicitation_id;
use super::{Piece, Pieces, RequestParts, TooManyPieces, pieces};
use crate::held::{Kind, MAX_QUESTIONS, Name, Question, State};
use crate::span::Span;

/// A question of the server that its caller is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    name: Name,
    method: &'a [u8],
    params: [&'a [u8]; 2],
}

impl<'a> Shown<'a> {
    /// From the frame in which the server asked.
    #[must_use]
    pub fn new(question: Question, frame: &'a [u8], parts: &RequestParts) -> Self {
        let params = parts.params.map_or([b"{}".as_slice(), b""], |params| match question.kind {
            Kind::Url => without_elicitation_id(frame, params),
            _ => [params.of(frame), b""],
        });
        Self { name: question.name(), method: parts.method.of(frame), params }
    }
}

/// Slices for the head and the end of an `input_required` answer, and for each question.
const SLICES: usize = 3 + 7 * MAX_QUESTIONS + 3;

/// The answer to a call that is held: an `input_required` result, as slices to be written one after the other.
/// `caller_id` is the id of the caller's request, raw. More than [`MAX_QUESTIONS`] are not shown.
#[must_use]
pub fn input_required<'a>(
    caller_id: &'a [u8],
    shown: &'a [Shown<'a>],
    state: &'a State,
) -> Vec<&'a [u8], SLICES> {
    let mut out = Vec::new();
    let mut put = |bytes| {
        // Exactly what is put below fits.
        let _ = out.push(bytes);
    };
    put(br#"{"jsonrpc":"2.0","id":"#.as_slice());
    put(caller_id);
    put(br#","result":{"resultType":"input_required","inputRequests":{"#);
    let mut open: &[u8] = b"\"";
    let mut end: &[u8] = br#"},"requestState":""#;
    for question in shown.iter().take(MAX_QUESTIONS) {
        put(open);
        put(question.name.as_str().as_bytes());
        put(br#"":{"method":"#);
        put(question.method);
        put(br#","params":"#);
        question.params.into_iter().for_each(&mut put);
        open = b"},\"";
        end = br#"}},"requestState":""#;
    }
    put(end);
    put(state.as_bytes());
    put(b"\"}}");
    out
}

/// The response to a server's question. The frame is that of the caller's retry, with the answer in it; the other one is
/// the frame in which the server asked, with its id.
///
/// # Errors
/// Never; the type is that of all rewriting.
pub fn answer_question(question_id: Span, answer: Span) -> Result<Pieces, TooManyPieces> {
    pieces([
        Piece::Fixed(br#"{"jsonrpc":"2.0","id":"#),
        Piece::Other(question_id),
        Piece::Fixed(br#","result":"#),
        Piece::Frame(answer),
        Piece::Fixed(b"}"),
    ])
}

/// Why a question of a server has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NoAnswer {
    /// The client cannot be asked for that.
    Declined,
    /// Nobody was asked, or nobody answered.
    Cancelled,
}

/// The response to a server's question that nobody answers. The frame is the one in which the server asked.
///
/// # Errors
/// Never; the type is that of all rewriting.
pub fn refused(question_id: Span, kind: Kind, why: NoAnswer) -> Result<Pieces, TooManyPieces> {
    let end: &[u8] = match (kind, why) {
        (Kind::Form | Kind::Url, NoAnswer::Declined) => br#","result":{"action":"decline"}}"#,
        (Kind::Form | Kind::Url, NoAnswer::Cancelled) => br#","result":{"action":"cancel"}}"#,
        // -1 is what a client says when its user refuses (2025-11-25, client/sampling, Error Handling).
        (Kind::Sampling | Kind::SamplingWithTools, NoAnswer::Declined) => {
            br#","error":{"code":-1,"message":"the client offers no sampling"}}"#
        }
        (Kind::Sampling | Kind::SamplingWithTools, NoAnswer::Cancelled) => {
            br#","error":{"code":-1,"message":"nobody answered"}}"#
        }
    };
    pieces([Piece::Fixed(br#"{"jsonrpc":"2.0","id":"#), Piece::Frame(question_id), Piece::Fixed(end)])
}
