//! Columns for people.

use std::fmt::Write;

/// Rows whose columns are aligned. The last one is not padded.
pub(super) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|cell| cell.chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |row: &[String; COLUMNS]| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _infallible = write!(line, "{cell:width$}  ");
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
