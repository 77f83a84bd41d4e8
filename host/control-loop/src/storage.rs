//! The storage: reads the current state of an id.

use std::sync::Arc;

use crate::{BoxError, Ctx, Id};

/// Reads the object of an id.
pub trait Storage<I: Id>: Send + Sync + 'static {
    /// The type of the objects.
    type Object: Send + 'static;

    /// Reads the current object; `None` if it does not exist.
    ///
    /// It is called for every id just before the handler, and `None` makes the handler clean up. So if it is unknown whether the
    /// object exists, return an error, never `None`.
    fn get(
        &self,
        ctx: &Ctx,
        id: &I,
    ) -> impl Future<Output = Result<Option<Self::Object>, BoxError>> + Send;
}

impl<I: Id, T: Storage<I>> Storage<I> for Arc<T> {
    type Object = T::Object;

    fn get(
        &self,
        ctx: &Ctx,
        id: &I,
    ) -> impl Future<Output = Result<Option<Self::Object>, BoxError>> + Send {
        (**self).get(ctx, id)
    }
}

/// Makes a closure a storage.
///
/// ```
/// use podloom_control_loop::storage_fn;
///
/// let storage = storage_fn(|_ctx, id: u32| async move { Ok((id < 10).then(|| format!("object {id}"))) });
/// # fn is_storage(_: impl podloom_control_loop::Storage<u32, Object = String>) {}
/// # is_storage(storage);
/// ```
pub fn storage_fn<I, O, G, Got>(get: G) -> StorageFn<G>
where
    I: Id,
    O: Send + 'static,
    G: Fn(Ctx, I) -> Got + Send + Sync + 'static,
    Got: Future<Output = Result<Option<O>, BoxError>> + Send,
{
    StorageFn { get }
}

/// What [`storage_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct StorageFn<G> {
    get: G,
}

impl<I, O, G, Got> Storage<I> for StorageFn<G>
where
    I: Id,
    O: Send + 'static,
    G: Fn(Ctx, I) -> Got + Send + Sync + 'static,
    Got: Future<Output = Result<Option<O>, BoxError>> + Send,
{
    type Object = O;

    async fn get(&self, ctx: &Ctx, id: &I) -> Result<Option<O>, BoxError> {
        (self.get)(ctx.clone(), id.clone()).await
    }
}
