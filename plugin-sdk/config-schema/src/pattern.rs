//! Estimates the work of matching a pattern.
//!
//! Matching takes time linear in the text, but for each byte it may follow all states that the pattern can be in. With
//! `[ab]*a[ab]{3000}` these are thousands, and a kilobyte takes a tenth of a second.

/// About how many states a pattern can be in at once: its characters, multiplied by the repetitions around them.
pub(crate) fn states(pattern: &str) -> usize {
    let mut chars = pattern.chars();
    // The sums before each open group, the sum in the innermost group, and that of the last item, which a repetition multiplies.
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

/// The largest number in `{n}`, `{n,}` or `{n,m}`, and the text after it.
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
