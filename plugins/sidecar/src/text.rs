//! Texts made of parts. Functions of their own, so that their code is there once.

use podloom_plugin_sdk::path;

/// Tells the user why something was done or left.
#[inline(never)]
pub(crate) fn note(parts: &[&str]) {
    podloom_plugin_sdk::note(&parts.concat());
}

/// Adds a message to a list.
#[inline(never)]
pub(crate) fn push(messages: &mut Vec<String>, parts: &[&str]) {
    messages.push(parts.concat());
}

/// Puts a separator between texts.
#[inline(never)]
pub(crate) fn join(texts: &[String], separator: &str) -> String {
    let mut joined = String::new();
    for text in texts {
        if !joined.is_empty() {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    joined
}

/// The path of a list's element.
#[inline(never)]
pub(crate) fn element(list: &str, key: &str, value: &str) -> String {
    let mut place = list.to_owned();
    path::push_element(&mut place, key, value);
    place
}

/// A number as text.
#[inline(never)]
pub(crate) fn decimal(mut number: usize) -> String {
    let mut digits = Vec::new();
    loop {
        // The remainder is a digit.
        digits.push(char::from(b'0' + (number % 10) as u8));
        number /= 10;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}
