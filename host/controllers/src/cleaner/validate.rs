//! What is wrong with a Cleaner before it is stored, and what its author should know: pure, for the admission webhook and the command
//! line.
