//! The canonical ABI of the Component Model, for core modules that the host calls without a component around them.
//!
//! The rules are in WebAssembly/component-model, `design/mvp/CanonicalABI.md`, for 32-bit memories and UTF-8; names in
//! parentheses are functions there. Every pointer and length from the guest is checked:
//!
//! - Numbers are little-endian. A pointer to anything wider than a byte is aligned to it (`load`, `store`: `trap_if(ptr !=
//!   align_to(...))`), and all that it points to lies within the memory as it is at that moment.
//! - A string is a pointer and a length in bytes, and it is UTF-8 (`load_string_from_range`).
//! - A list is a pointer and a count of elements, each at a multiple of the element's size (`load_list_from_range`).
//! - A variant is its case's number, then the payload at the payload's alignment (`load_variant`, `store_variant`); an option and
//!   a result are variants. A number without a case is an error.
//! - A string or list for the guest goes into memory from the guest's own `cabi_realloc`, one call for each, since the guest
//!   frees them one by one (`store_string_copy`, `store_list_into_range`). The address that it returns is checked for alignment
//!   and bounds too. While `cabi_realloc` runs, the guest must not call imports (`may_leave`).
//! - The bytes that the guest passes in one call are limited, and counted before anything is allocated.

use podloom_mutation::CallFailure;
use podloom_pod_path::AccessError;
use wasmtime::{Caller, Memory, Trap, TypedFunc};

use super::{Guest, payload};
use crate::limits::PAYLOAD_BYTES;

/// `cabi_realloc(old pointer, old size, alignment, new size) -> pointer`
pub(super) type Realloc = TypedFunc<(u32, u32, u32, u32), u32>;

/// A pointer and a length.
const PAIR: usize = 8;
/// The ABI has no longer strings and lists (`MAX_STRING_BYTE_LENGTH`).
const MAX_BYTES: usize = (1 << 31) - 1;

/// Lifts what the guest passes in one call, up to a limit of bytes.
pub(super) struct GuestReader<'m> {
    memory: &'m [u8],
    left: usize,
}

impl<'m> GuestReader<'m> {
    pub(super) fn new(memory: &'m [u8]) -> Self {
        Self {
            memory,
            left: PAYLOAD_BYTES,
        }
    }

    pub(super) fn string(&mut self, (address, length): (u32, u32)) -> Result<&'m str, CallFailure> {
        let bytes = range(self.memory, address, length as usize)
            .ok_or_else(|| broken("string pointer/length out of bounds of memory"))?;
        self.take(bytes.len())?;
        std::str::from_utf8(bytes).map_err(|error| CallFailure::BrokeContract(error.to_string()))
    }

    /// A list of strings, which are not lifted yet.
    pub(super) fn list(
        &mut self,
        (address, count): (u32, u32),
    ) -> Result<StringList<'m>, CallFailure> {
        let count = count as usize;
        let pairs = count
            .checked_mul(PAIR)
            .and_then(|size| range(self.memory, address, size))
            .ok_or_else(|| broken("list pointer/length out of bounds of memory"))?;
        // Charged with the size of an element in the host, so a list of empty strings is not free.
        self.take(count.saturating_mul(size_of::<String>()))?;
        if !address.is_multiple_of(4) {
            return Err(broken("list pointer is not aligned"));
        }
        Ok(StringList {
            memory: self.memory,
            pairs: pairs.as_chunks().0,
        })
    }

    pub(super) fn strings(&mut self, list: StringList<'m>) -> Result<Vec<&'m str>, CallFailure> {
        let pairs = list.pairs.iter();
        pairs.map(|pair| self.string(pair_of(pair))).collect()
    }

    /// The value that an export returned a pointer to; its fields are read by their offsets.
    pub(super) fn returned<const N: usize>(
        &self,
        address: u32,
    ) -> Result<&'m [u8; N], CallFailure> {
        if !address.is_multiple_of(4) {
            return Err(broken("return pointer not aligned"));
        }
        range(self.memory, address, N)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(|| broken("pointer out of bounds of memory"))
    }

    fn take(&mut self, bytes: usize) -> Result<(), CallFailure> {
        self.left = self.left.checked_sub(bytes).ok_or_else(payload)?;
        Ok(())
    }
}

/// Pointers and lengths of a list's strings.
#[derive(Clone, Copy)]
pub(super) struct StringList<'m> {
    memory: &'m [u8],
    pairs: &'m [[u8; PAIR]],
}

impl StringList<'_> {
    /// Whether the list holds exactly these strings. Equal bytes need no other check.
    pub(super) fn holds(self, texts: &[String]) -> bool {
        let is_text = |(pair, text): (&[u8; PAIR], &String)| {
            let (address, length) = pair_of(pair);
            range(self.memory, address, length as usize) == Some(text.as_bytes())
        };
        self.pairs.len() == texts.len() && self.pairs.iter().zip(texts).all(is_text)
    }
}

/// The number of a variant's case.
pub(super) fn case(value: &[u8], offset: usize) -> u8 {
    value.get(offset).copied().unwrap_or_default()
}

/// Pointer and length of a string or list.
pub(super) fn pair(value: &[u8], offset: usize) -> (u32, u32) {
    let pair = value.get(offset..).and_then(<[u8]>::first_chunk);
    pair.map(pair_of).unwrap_or_default()
}

/// Lowers values into the guest's memory, with the guest's own allocator.
pub(super) struct GuestWriter<'c, 'g> {
    caller: &'c mut Caller<'g, Guest>,
    memory: Memory,
}

impl<'c, 'g> GuestWriter<'c, 'g> {
    /// Prepares to write a result of this size to the address that the guest passed.
    pub(super) fn result<const N: usize>(
        caller: &'c mut Caller<'g, Guest>,
        memory: Memory,
        address: u32,
    ) -> Result<Self, CallFailure> {
        if !address.is_multiple_of(4) {
            return Err(broken("pointer not aligned"));
        }
        range(memory.data(&*caller), address, N).ok_or_else(|| broken("pointer out of bounds"))?;
        Ok(Self { caller, memory })
    }

    /// Writes a string, and its pointer and length to `at`.
    pub(super) fn string(&mut self, at: u32, text: &str) -> wasmtime::Result<()> {
        let address = self.allocate(1, text.len())?;
        self.store(address, text.as_bytes())?;
        self.pair(at, address, text.len())
    }

    /// Writes a list of strings, and its pointer and length to `at`.
    pub(super) fn strings(&mut self, at: u32, texts: &[String]) -> wasmtime::Result<()> {
        let address = self.allocate(4, texts.len().saturating_mul(PAIR))?;
        let mut element = address;
        for text in texts {
            self.string(element, text)?;
            element = element.saturating_add(8);
        }
        self.pair(at, address, texts.len())
    }

    pub(super) fn option(&mut self, at: u32, text: Option<&str>) -> wasmtime::Result<()> {
        self.case(at, u8::from(text.is_some()))?;
        text.map_or(Ok(()), |text| self.string(at.saturating_add(4), text))
    }

    pub(super) fn error(&mut self, at: u32, error: &AccessError) -> wasmtime::Result<()> {
        let (case, text) = match error {
            AccessError::InvalidPath(text) => (0, text),
            AccessError::NotFound(text) => (1, text),
            AccessError::Forbidden(text) => (2, text),
            AccessError::InvalidValue(text) => (3, text),
        };
        self.case(at, case)?;
        self.string(at.saturating_add(4), text)
    }

    /// The number of a variant's case, or a bool.
    pub(super) fn case(&mut self, at: u32, case: u8) -> wasmtime::Result<()> {
        self.store(at, &[case])
    }

    fn pair(&mut self, at: u32, address: u32, length: usize) -> wasmtime::Result<()> {
        let length = u32::try_from(length).map_err(|_| too_large(length))?;
        let [a, b, c, d] = address.to_le_bytes();
        let [e, f, g, h] = length.to_le_bytes();
        self.store(at, &[a, b, c, d, e, f, g, h])
    }

    fn store(&mut self, at: u32, bytes: &[u8]) -> wasmtime::Result<()> {
        let start = at as usize;
        let place = start
            .checked_add(bytes.len())
            .and_then(|end| self.memory.data_mut(&mut *self.caller).get_mut(start..end))
            .ok_or_else(|| broken("pointer out of bounds"))?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Takes the allocator out of the state while it runs, which makes imports refuse to be called.
    fn allocate(&mut self, alignment: u32, size: usize) -> wasmtime::Result<u32> {
        let size = u32::try_from(size)
            .ok()
            .filter(|_| size <= MAX_BYTES)
            .ok_or_else(|| too_large(size))?;
        let realloc = self
            .caller
            .data_mut()
            .module
            .as_mut()
            .and_then(|module| module.realloc.take());
        let realloc = realloc.ok_or(Trap::CannotLeaveComponent)?;
        let address = realloc.call(&mut *self.caller, (0, 0, alignment, size))?;
        if let Some(module) = &mut self.caller.data_mut().module {
            module.realloc = Some(realloc);
        }
        if !address.is_multiple_of(alignment) {
            return Err(broken("realloc return: result not aligned").into());
        }
        range(self.memory.data(&*self.caller), address, size as usize)
            .ok_or_else(|| broken("realloc return: beyond end of memory"))?;
        Ok(address)
    }
}

fn range(memory: &[u8], address: u32, length: usize) -> Option<&[u8]> {
    let start = address as usize;
    memory.get(start..start.checked_add(length)?)
}

/// Little-endian pointer and length.
fn pair_of(&[a, b, c, d, e, f, g, h]: &[u8; PAIR]) -> (u32, u32) {
    (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    )
}

pub(super) fn broken(rule: &str) -> CallFailure {
    CallFailure::BrokeContract(rule.to_owned())
}

/// An undefined case of a variant.
pub(super) fn unexpected_case(case: impl Into<u32>) -> CallFailure {
    CallFailure::BrokeContract(format!("unexpected discriminant: {}", case.into()))
}

fn too_large(bytes: usize) -> CallFailure {
    CallFailure::OverLimit(format!("it asked for {bytes} bytes at once"))
}
