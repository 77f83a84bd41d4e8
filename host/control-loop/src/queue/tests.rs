//! The tables, row by row, and the laws.
