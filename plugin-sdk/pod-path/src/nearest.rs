//! Suggestions for misspelt words.

/// Longer words are nobody's slip of the pen, and would take long to compare.
const LONGEST: usize = 256;

/// Returns the known word that is most similar to an unknown one; none if none is similar enough.
///
/// ```
/// use podloom_pod_path::nearest;
///
/// assert_eq!(nearest("imgae", ["image", "env"]), Some("image"));
/// assert_eq!(nearest("zone", ["image", "env"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if unknown.len() > LONGEST {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let most = match unknown.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .filter(|word| word.len() <= LONGEST)
        .map(|word| (distance(&unknown, &word.to_lowercase()), word))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// How many letters must be inserted, deleted, replaced or swapped with their neighbour (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, here) in left.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, there) in right.iter().enumerate() {
            let replaced = cell(&last, column) + usize::from(here != there);
            let best = replaced
                .min(cell(&last, column + 1) + 1)
                .min(cell(&next, column) + 1);
            let swapped = row > 0
                && column > 0
                && left.get(row - 1) == Some(there)
                && right.get(column - 1) == Some(here);
            next.push(if swapped {
                best.min(cell(&before, column - 1) + 1)
            } else {
                best
            });
        }
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

fn cell(row: &[usize], column: usize) -> usize {
    row.get(column).copied().unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests;
