//! How much work a pattern can be.
//!
//! Matching takes time linear in the text, but each byte may have to be followed from every state that the pattern can be in:
//! with `[ab]*a[ab]{3000}` these are thousands, and a kilobyte takes a tenth of a second.

/// The states that a pattern can be in at once, about: its letters, each as often as the repetitions around it say.
pub(super) fn states(pattern: &str) -> usize {
    let mut chars = pattern.chars();
    // What stands before each group that is open, then in the innermost, and in what a repetition would repeat.
    let mut before = Vec::new();
    let (mut sum, mut last) = (0_usize, 0_usize);
    while let Some(char) = chars.next() {
        match char {
            '(' => {
                before.push(sum);
                (sum, last) = (0, 0);
            }
            ')' => {
                last = sum;
                sum = sum.saturating_add(before.pop().unwrap_or(0));
            }
            '{' => {
                let Some((times, rest)) = repetition(chars.as_str()) else {
                    continue;
                };
                let repeated = last.saturating_mul(times);
                sum = sum.saturating_add(repeated);
                last = repeated;
                chars = rest.chars();
            }
            '*' | '+' | '?' => {}
            _ => {
                match char {
                    '\\' => drop(chars.next()),
                    '[' => skip_class(&mut chars),
                    _ => {}
                }
                sum = sum.saturating_add(1);
                last = 1;
            }
        }
    }
    before.into_iter().fold(sum, usize::saturating_add)
}

/// How often `{n}`, `{n,}` or `{n,m}` repeats at most, and what follows it.
fn repetition(text: &str) -> Option<(usize, &str)> {
    let (times, rest) = text.split_once('}')?;
    let most = times
        .split(',')
        .filter_map(|times| times.trim().parse().ok());
    Some((most.max()?, rest))
}

fn skip_class(chars: &mut std::str::Chars<'_>) {
    while let Some(char) = chars.next() {
        match char {
            ']' => break,
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
