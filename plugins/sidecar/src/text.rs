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
pub(crate) fn list<T: AsRef<str>>(texts: &[T], separator: &str) -> String {
    let mut list = String::new();
    for text in texts {
        list.push_str(if list.is_empty() { "" } else { separator });
        list.push_str(text.as_ref());
    }
    list
}

/// The path of a list's element.
#[inline(never)]
pub(crate) fn element(list: &str, key: &str, value: &str) -> String {
    let mut place = list.to_owned();
    path::push_element(&mut place, key, value);
    place
}

/// A number as text.
pub(crate) fn decimal(number: usize) -> String {
    let mut text = if number < 10 {
        String::new()
    } else {
        decimal(number / 10)
    };
    // The remainder is a digit.
    text.push(char::from(b'0' + (number % 10) as u8));
    text
}
