//! The variables of conditions: the time, and the targets by their names.

/// The variable with the time of the evaluation.
pub const TIME_VARIABLE: &str = "time";

/// What no target can be called: the variable of the time, and the keywords, reserved words and names of types of CEL.
pub(super) const RESERVED_NAMES: [&str; 36] = [
    TIME_VARIABLE,
    // Keywords, and words that CEL reserves for other languages.
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
    // Types.
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "optional_type",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// How many characters the name of a target may have.
pub(super) const CHARACTERS: usize = 63;

/// An identifier of CEL.
pub(super) const PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// Returns whether conditions can have a variable of this name besides the time, so that a target can be called so.
///
/// ```
/// use podloom_api::is_variable_name;
///
/// assert!(is_variable_name("revisions"));
/// assert!(!is_variable_name("my-pods"));
/// assert!(!is_variable_name("time"));
/// ```
pub fn is_variable_name(name: &str) -> bool {
    let is_identifier = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name
            .bytes()
            .next()
            .is_some_and(|first| !first.is_ascii_digit());
    is_identifier && name.len() <= CHARACTERS && !RESERVED_NAMES.contains(&name)
}
