//! What random guests do, and how a script says it.

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

/// Texts in every guest's memory, one after the other: paths, values, lists of fields as JSON pointers, words.
pub(super) const TEXTS: [&str; 40] = [
    "/metadata/labels",
    "/metadata/labels/a",
    "/metadata/labels/app",
    "/metadata/labels/selenosis.io~1x",
    "/metadata/annotations",
    "/metadata/name",
    "/spec",
    "/spec/containers",
    "/spec/containers/0/image",
    "/spec/containers/[name=proxy]/image",
    "/spec/containers/[image=app:1]/env/[name=A]",
    "/spec/containers/0/env/[name=A]/value",
    "/spec/containers/0/env/[value=secret]/name",
    "/spec/containers/[name=new]",
    "/spec/containers/-",
    "/spec/volumes/-",
    "/spec/volumes/0",
    "/spec/hostNetwork/x",
    "",
    "*",
    "/*/image",
    "/containers/*/image",
    "/image",
    "{}",
    "\"x\"",
    "{\"name\":\"new\"}",
    "{\"name\":1}",
    "[[[[",
    "true",
    "\u{e9}\u{202e}\n",
    "/spec/tomorrow",
    "/spec/tomorrow/a~1b~0c/~01/0",
    "/metadata/labels/example.com~1a~0b",
    "{\"a/b~c\":{\"~1\":[null,{\"x\":null}]},\"a/b~c\":{\"y\":-0.0,\"z\":null}}",
    "{\"name\":\"old\",\"name\":\"new\",\"env\":null}",
    "-0",
    "1.5e300",
    "0.30000000000000004",
    "[1e15,-0.0,5e-324,1E2,123456789.12345679,18446744073709551615]",
    "\"\\u0001\\ud83d\\ude00\\/\"",
];
/// Where they begin.
pub(super) const TEXTS_AT: u32 = 4096;
/// Where the pointers and lengths of all texts stand, as lists of strings have them.
pub(super) const TABLE_AT: u32 = 8192;
/// Where guests let the host put its answers.
pub(super) const ANSWER_AT: u32 = 512;
/// Pages of memory that a guest begins with.
pub(super) const PAGES: u32 = 4;

/// One thing that a guest does: a function by its number, and what it is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct GuestAction {
    pub(super) code: u8,
    pub(super) arguments: [u32; 6],
}

/// The guest's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Allocator {
    Plain,
    Misaligned,
    BeyondMemory,
    Trapping,
    /// It calls the host.
    Calling,
    /// Every allocation is at the same place, where the guest's texts are.
    Overlapping,
    Growing,
}

pub(super) const LOG: u8 = 0;
pub(super) const NOTE: u8 = 1;
pub(super) const CONFIG: u8 = 2;
pub(super) const KIND: u8 = 3;
pub(super) const LABEL: u8 = 4;
pub(super) const DRY_RUN: u8 = 5;
pub(super) const GET: u8 = 6;
pub(super) const VIEW: u8 = 7;
pub(super) const KEYS: u8 = 8;
pub(super) const SET: u8 = 9;
pub(super) const INSERT: u8 = 10;
pub(super) const REMOVE: u8 = 11;
pub(super) const DROP: u8 = 12;
pub(super) const TRAP: u8 = 13;
pub(super) const GROW: u8 = 14;
pub(super) const RECURSE: u8 = 15;
pub(super) const STORE: u8 = 16;
/// Notes what the host answered: a text, or the words of a refusal.
pub(super) const NOTE_ANSWER: u8 = 17;
pub(super) const RETURN: u8 = 18;
pub(super) const REJECT: u8 = 19;
pub(super) const ALLOCATE_BY: u8 = 20;
/// How many functions there are.
pub(super) const CODES: u8 = 21;

impl GuestAction {
    fn new(code: u8, arguments: [u32; 6]) -> Self {
        Self { code, arguments }
    }

    pub(super) fn note(text: usize) -> Self {
        let (at, length) = place(text);
        Self::new(NOTE, [at, length, 0, 0, 0, 0])
    }

    /// A view of the pod with these of the texts, and its answer as a note.
    pub(super) fn view_and_note(first: u32, count: u32) -> [Self; 2] {
        let (at, length) = place(18);
        [
            Self::new(
                VIEW,
                [1, at, length, TABLE_AT + 8 * first, count, ANSWER_AT],
            ),
            Self::new(NOTE_ANSWER, [ANSWER_AT + 8, 0, 0, 0, 0, 0]),
        ]
    }

    /// One text written at the path that another is.
    pub(super) fn set(path: usize, value: usize) -> Self {
        let ((path, length), (value, bytes)) = (place(path), place(value));
        Self::new(SET, [1, path, length, value, bytes, ANSWER_AT])
    }

    pub(super) fn trap() -> Self {
        Self::new(TRAP, [0; 6])
    }

    pub(super) fn one_of_each_import() -> impl Iterator<Item = Self> {
        (LOG..=DROP).map(|code| Self::new(code, [1, TEXTS_AT, 1, ANSWER_AT, ANSWER_AT, ANSWER_AT]))
    }
}

/// Address and length of a text.
pub(super) fn place(text: usize) -> (u32, u32) {
    let length = |text: &&str| u32::try_from(text.len()).expect("texts are short");
    let before: u32 = TEXTS.iter().take(text).map(length).sum();
    (TEXTS_AT + before, TEXTS.get(text).map_or(0, length))
}

/// A script as text: the allocator, then each action, in hexadecimal.
pub(super) fn encode(allocator: Allocator, actions: &[GuestAction]) -> String {
    let mut bytes = vec![allocator as u8];
    for action in actions {
        bytes.push(action.code);
        bytes.extend(
            action
                .arguments
                .iter()
                .flat_map(|argument| argument.to_le_bytes()),
        );
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn allocator() -> impl Strategy<Value = Allocator> {
    use Allocator::{BeyondMemory, Calling, Growing, Misaligned, Overlapping, Plain, Trapping};
    prop_oneof![
        8 => Just(Plain),
        1 => select(vec![Misaligned, BeyondMemory, Trapping, Calling, Overlapping, Growing]),
    ]
}

/// Mostly of the contract; now and then with a number that is odd.
pub(super) fn action() -> impl Strategy<Value = GuestAction> {
    let odd = (0..40_usize, odd_number());
    (sound_action(), odd).prop_map(|(mut action, (at, number))| {
        if let Some(argument) = action.arguments.get_mut(at) {
            *argument = number;
        }
        action
    })
}

fn odd_number() -> impl Strategy<Value = u32> {
    let memory = PAGES * 65536;
    let edges = vec![
        0,
        1,
        2,
        3,
        5,
        511,
        513,
        600,
        601,
        memory - 8,
        memory - 1,
        memory,
        memory + 1,
        1 << 20,
        (1 << 20) + 1,
        i32::MAX as u32,
        1 << 31,
        u32::MAX - 3,
        u32::MAX,
    ];
    prop_oneof![3 => select(edges), 1 => any::<u32>()]
}

fn sound_action() -> impl Strategy<Value = GuestAction> {
    let text = || (0..TEXTS.len()).prop_map(place);
    let pod = 1;
    prop_oneof![
        2 => (0..5_u32, text()).prop_map(|(level, (at, length))| GuestAction::new(LOG, [level, at, length, 0, 0, 0])),
        2 => text().prop_map(|(at, length)| GuestAction::new(NOTE, [at, length, 0, 0, 0, 0])),
        2 => select(vec![CONFIG, KIND]).prop_map(|code| GuestAction::new(code, [ANSWER_AT, 0, 0, 0, 0, 0])),
        1 => text().prop_map(|(at, length)| GuestAction::new(LABEL, [at, length, ANSWER_AT, 0, 0, 0])),
        1 => Just(GuestAction::new(DRY_RUN, [0; 6])),
        8 => (select(vec![GET, KEYS, REMOVE]), text())
            .prop_map(move |(code, (at, length))| GuestAction::new(code, [pod, at, length, ANSWER_AT, 0, 0])),
        6 => (text(), 0..TEXTS.len(), 0..5_u32).prop_map(move |((at, length), first, count)| {
            let first = u32::try_from(first).expect("few texts");
            GuestAction::new(VIEW, [pod, at, length, TABLE_AT + 8 * first, count, ANSWER_AT])
        }),
        10 => (select(vec![SET, INSERT]), text(), text())
            .prop_map(move |(code, (at, length), (value, bytes))| GuestAction::new(code, [pod, at, length, value, bytes, ANSWER_AT])),
        12 => Just(GuestAction::new(NOTE_ANSWER, [ANSWER_AT + 8, 0, 0, 0, 0, 0])),
        1 => Just(GuestAction::new(DROP, [pod, 0, 0, 0, 0, 0])),
        1 => select(vec![TRAP, RECURSE]).prop_map(|code| GuestAction::new(code, [0; 6])),
        1 => select(vec![0, 1, 3, 28, 29, 100, 65535]).prop_map(|pages| GuestAction::new(GROW, [pages, 0, 0, 0, 0, 0])),
        1 => (ANSWER_AT..700, any::<u32>()).prop_map(|(at, value)| GuestAction::new(STORE, [at, value, 0, 0, 0, 0])),
        1 => select(vec![600, 604, 602, 0]).prop_map(|at| GuestAction::new(RETURN, [at, 0, 0, 0, 0, 0])),
        1 => (0..2_u32, text()).prop_map(|(kind, (at, length))| GuestAction::new(REJECT, [kind, at, length, 0, 0, 0])),
        1 => (0..7_u32).prop_map(|allocator| GuestAction::new(ALLOCATE_BY, [allocator, 0, 0, 0, 0, 0])),
    ]
}
