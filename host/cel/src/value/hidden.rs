//! A value that conditions must not read.

use std::any::Any;

use cel::common::types::Type;
use cel::common::value::{StaticVal, Val};

static TYPE: Type = Type::new_unspecified_type("hidden");

/// A value that conditions must not read: a map that has it gives it to nobody, and it equals nothing, not even itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden;

impl Val for Hidden {
    fn get_type(&self) -> &Type {
        &TYPE
    }

    fn cel_type() -> &'static Type {
        &TYPE
    }

    fn equals(&self, _: &dyn Val) -> bool {
        false
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Hidden {}
