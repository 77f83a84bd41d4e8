//! Secrets that live as long as the control plane: tokens, and the key that signs the tokens of service accounts.

use std::fs::File;
use std::io::{self, Read};

/// A random token of 32 hexadecimal digits.
///
/// # Errors
///
/// Fails if the system gives no random bytes.
pub fn token() -> io::Result<String> {
    Ok(random::<16>()?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// A random number, for choosing a port.
pub(crate) fn random_u16() -> io::Result<u16> {
    random().map(u16::from_le_bytes)
}

/// A private key on the curve P-256, as PEM.
///
/// RFC 5915 requires only the scalar and the curve's name; the API server computes the public key from them. So a key is 32 random
/// bytes between constants, and no cryptography library is needed.
///
/// # Errors
///
/// Fails if the system gives no random bytes.
pub fn signing_key() -> io::Result<String> {
    const BEFORE: [u8; 7] = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    const CURVE: [u8; 12] = [
        0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    let [first, rest @ ..] = random::<32>()?;
    let mut der = Vec::from(BEFORE);
    // A scalar must be less than the curve's order, which starts with ff, and not zero.
    der.push(first & 0x7f | 1);
    der.extend(rest);
    der.extend(CURVE);
    Ok(format!(
        "-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n",
        base64(&der)
    ))
}

/// RFC 4648, with padding, in one line.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: [char; 64] = alphabet();
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .chain(std::iter::repeat(&0))
            .take(3)
            .fold(0_usize, |group, byte| group << 8 | usize::from(*byte));
        for index in 0..4 {
            let letter = ALPHABET.get(group >> (18 - 6 * index) & 63);
            let is_data = index <= chunk.len();
            text.push(*letter.filter(|_| is_data).unwrap_or(&'='));
        }
    }
    text
}

const fn alphabet() -> [char; 64] {
    let mut letters = ['='; 64];
    let text = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut index = 0;
    // Evaluated at compile time, so an index out of bounds would not compile.
    while index < letters.len() {
        letters[index] = text[index] as char;
        index += 1;
    }
    letters
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
