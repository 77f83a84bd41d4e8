//! What grants parse to.
