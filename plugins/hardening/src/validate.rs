//! What is wrong with a configuration beyond what its schema says.

use crate::config::{Config, EmptyDir, Exemption, SeccompProfile, SeccompType};

/// Everything that is wrong with a configuration and that its schema does not say.
pub(crate) fn errors(config: &Config) -> Vec<String> {
    let mut errors = Vec::new();
    if config.automount_service_account_token == Some(true) {
        errors.push("automountServiceAccountToken: only false is a hardening: leave it out to let the pod and its service account decide".to_owned());
    }
    if config.named_accounts.is_some() && config.automount_service_account_token.is_none() {
        errors.push("namedAccounts: has no effect without automountServiceAccountToken: false: add that, or remove this".to_owned());
    }
    if config.enable_service_links == Some(true) {
        errors.push(
            "enableServiceLinks: only false is a hardening: leave it out to let the pod decide"
                .to_owned(),
        );
    }
    if let Some(seccomp) = &config.seccomp_profile {
        validate_seccomp(seccomp, &mut errors);
    }
    if let Some(read_only) = &config.read_only_root_filesystem {
        for directory in read_only.empty_dirs.iter().flatten() {
            validate_empty_dir(directory, &mut errors);
        }
    }
    for exemption in &config.exemptions {
        validate_exemption(exemption, &mut errors);
    }
    errors
}

fn validate_seccomp(seccomp: &SeccompProfile, errors: &mut Vec<String>) {
    let complaint = match (seccomp.r#type, seccomp.localhost_profile.as_deref()) {
        (SeccompType::RuntimeDefault, Some(_)) => {
            "only a profile of type Localhost has a file: remove it"
        }
        (SeccompType::Localhost, None) => {
            "a profile of type Localhost needs the file's path below the kubelet's seccomp directory"
        }
        (SeccompType::Localhost, Some(file))
            if file.is_empty()
                || file.starts_with('/')
                || file.split('/').any(|part| part == "..")
                || !is_plain(file) =>
        {
            "must be a path below the kubelet's seccomp directory, without quotes, backslashes, control characters or parts .."
        }
        _ => return,
    };
    errors.push(format!("seccompProfile.localhostProfile: {complaint}"));
}

fn validate_empty_dir(directory: &EmptyDir, errors: &mut Vec<String>) {
    let path = &directory.mount_path;
    let mut complain = |complaint: &str| {
        errors.push(format!(
            "readOnlyRootFilesystem.emptyDirs: {path}: {complaint}"
        ));
    };
    if !path.starts_with('/') || path.trim_end_matches('/').is_empty() {
        complain("mountPath must be an absolute path below the root");
    }
    if path.contains(':') || !is_plain(path) {
        complain("mountPath must have no colon, quote, backslash or control character");
    }
    if directory
        .size_limit
        .as_deref()
        .is_some_and(|size| !is_size(size))
    {
        complain("sizeLimit must be a quantity of bytes, such as 64Mi");
    }
}

fn validate_exemption(exemption: &Exemption, errors: &mut Vec<String>) {
    if exemption.reason.trim().is_empty() {
        errors.push("exemptions: each needs a reason".to_owned());
    }
    let dimensions = [
        &exemption.namespaces,
        &exemption.service_accounts,
        &exemption.containers,
    ];
    if dimensions.iter().all(|names| names.is_empty()) && exemption.match_labels.is_empty() {
        errors.push(
            "exemptions: one without namespaces, serviceAccounts, matchLabels and containers spares everything: use mode off for that"
                .to_owned(),
        );
    }
}

/// Whether text has no quotes, backslashes or control characters.
fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|character| !character.is_control() && character != '"' && character != '\\')
}

/// Whether text is a whole number of bytes, of at most twelve digits, with a suffix that Kubernetes knows.
fn is_size(text: &str) -> bool {
    let suffix = text.trim_start_matches(|character: char| character.is_ascii_digit());
    let digits = text.len() - suffix.len();
    (1..=12).contains(&digits)
        && ["", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"].contains(&suffix)
}
