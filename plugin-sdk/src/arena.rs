//! The plugin's allocator: an arena that ends with the instance.
//!
//! An instance lives for one call, so freeing is work for nothing: allocating is moving a pointer, and the pages of a general
//! allocator's tables are never touched. A call costs about a quarter of what it costs with Rust's default.
//! A plugin that allocates without end meets the host's memory limit.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

const PAGE: usize = 65_536;
/// Pages asked for at a time: growing is a system call in the host, an untouched page costs nothing.
const GROWTH: usize = 4;

struct Arena {
    /// The first free byte; 0 before the first allocation.
    next: Cell<usize>,
    /// The end of the memory.
    end: Cell<usize>,
}

// SAFETY: a plugin has one thread; the contract is linked without shared memory.
unsafe impl Sync for Arena {}

#[global_allocator]
static ARENA: Arena = Arena {
    next: Cell::new(0),
    end: Cell::new(0),
};

unsafe extern "C" {
    /// Placed by the linker after the stack and the static data.
    static __heap_base: u8;
}

impl Arena {
    /// Makes sure that the memory reaches to `end`.
    #[inline]
    fn reserve(&self, end: usize) -> bool {
        end <= self.end.get() || self.grow(end)
    }

    #[cold]
    fn grow(&self, end: usize) -> bool {
        let pages = (end - self.end.get()).div_ceil(PAGE).max(GROWTH);
        if core::arch::wasm32::memory_grow(0, pages) == usize::MAX {
            return false;
        }
        self.end.set(core::arch::wasm32::memory_size(0) * PAGE);
        true
    }

    #[cold]
    fn start(&self) -> usize {
        self.end.set(core::arch::wasm32::memory_size(0) * PAGE);
        (&raw const __heap_base).addr()
    }
}

// SAFETY: blocks never overlap, since `next` only moves past what was handed out, except that the last block may shrink or
// grow; each is aligned as asked for and within the memory.
unsafe impl GlobalAlloc for Arena {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let next = match self.next.get() {
            0 => self.start(),
            next => next,
        };
        let Some(start) = next.checked_next_multiple_of(layout.align()) else {
            return core::ptr::null_mut();
        };
        let Some(end) = start.checked_add(layout.size()) else {
            return core::ptr::null_mut();
        };
        if !self.reserve(end) {
            return core::ptr::null_mut();
        }
        self.next.set(end);
        core::ptr::with_exposed_provenance_mut(start)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as `alloc`. What a block gave up as it shrank is handed out again, so it must be zeroed.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: the block was just handed out with this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_last = block.addr() + layout.size() == self.next.get();
        if is_last {
            // The last block grows where it is: texts that are built piece by piece are never copied.
            let Some(end) = block.addr().checked_add(size) else {
                return core::ptr::null_mut();
            };
            if !self.reserve(end) {
                return core::ptr::null_mut();
            }
            self.next.set(end);
            return block;
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller's layout is valid with the new size, and the blocks do not overlap.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(block, moved, layout.size());
            }
            moved
        }
    }
}
