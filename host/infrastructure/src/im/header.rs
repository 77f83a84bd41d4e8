//! The header `Authorization`: a JSON array with a login to IM and one to the cloud.

use std::fmt::Write;

use super::target::{CloudLogin, Owner, Target};

/// Returns the header for a target.
pub(super) fn authorization(target: &Target) -> String {
    let mut im = vec![("id", "im"), ("type", "InfrastructureManager")];
    match &target.owner {
        Owner::Basic { username, password } => {
            im.extend([
                ("username", username.as_str()),
                ("password", password.reveal()),
            ]);
        }
        Owner::Token(token) => im.push(("token", token.reveal())),
    }
    let mut header = format!("[{}", object(&im));
    if let Some(cloud) = &target.cloud {
        header.push(',');
        header += &login(cloud);
    }
    header.push(']');
    header
}

fn login(cloud: &CloudLogin) -> String {
    let id = cloud.id();
    let mut fields = vec![("id", id.as_str()), ("type", cloud.kind.as_str())];
    fields.extend(cloud.host.iter().map(|host| ("host", host.as_str())));
    let parameters = cloud.parameters.iter();
    fields.extend(parameters.map(|(name, value)| (name.as_str(), value.as_str())));
    let secrets = cloud.secrets.iter();
    fields.extend(secrets.map(|(name, value)| (name.as_str(), value.reveal())));
    object(&fields)
}

fn object(fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes all but the plainest characters, as JSON allows it.
///
/// IM takes the two characters `\n` in the header for the end of a line, and reads bytes that are not ASCII as Latin-1.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii_alphanumeric() || " -_.:/@,".contains(char) {
            escaped.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            // Writing into a String does not fail.
            let _written = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}
