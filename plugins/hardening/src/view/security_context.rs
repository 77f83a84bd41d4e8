//! Security contexts.

use std::borrow::Cow;

use super::Named;
use super::read::{Fields, List, Object, Target};

/// A security context, of the pod or of a container: each has some of these fields.
#[derive(Default)]
pub(crate) struct SecurityContext<'p> {
    /// Its path in the pod.
    pub(crate) path: String,
    /// Whether it is there at all.
    pub(crate) present: bool,
    pub(crate) privileged: Option<bool>,
    pub(crate) allow_privilege_escalation: Option<bool>,
    pub(crate) capabilities: Capabilities<'p>,
    pub(crate) proc_mount: Option<Cow<'p, str>>,
    pub(crate) read_only_root_filesystem: Option<bool>,
    pub(crate) run_as_non_root: Option<bool>,
    pub(crate) run_as_user: Option<i64>,
    pub(crate) run_as_group: Option<i64>,
    pub(crate) fs_group: Option<i64>,
    pub(crate) seccomp_profile: Options<'p>,
    pub(crate) app_armor_profile: Options<'p>,
    pub(crate) se_linux_options: Options<'p>,
    pub(crate) windows_options: Options<'p>,
    pub(crate) sysctls: Vec<Named<'p>>,
}

impl<'p> Fields<'p> for SecurityContext<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "privileged" => Target::Flag(&mut self.privileged),
            "allowPrivilegeEscalation" => Target::Flag(&mut self.allow_privilege_escalation),
            "capabilities" => Target::Object(Object::Capabilities(&mut self.capabilities)),
            "procMount" => Target::Text(&mut self.proc_mount),
            "readOnlyRootFilesystem" => Target::Flag(&mut self.read_only_root_filesystem),
            "runAsNonRoot" => Target::Flag(&mut self.run_as_non_root),
            "runAsUser" => Target::Integer(&mut self.run_as_user),
            "runAsGroup" => Target::Integer(&mut self.run_as_group),
            "fsGroup" => Target::Integer(&mut self.fs_group),
            "seccompProfile" => Target::Object(Object::Options(&mut self.seccomp_profile)),
            "appArmorProfile" => Target::Object(Object::Options(&mut self.app_armor_profile)),
            "seLinuxOptions" => Target::Object(Object::Options(&mut self.se_linux_options)),
            "windowsOptions" => Target::Object(Object::Options(&mut self.windows_options)),
            "sysctls" => Target::List(List::Sysctls(&mut self.sysctls)),
            _ => Target::Nothing,
        }
    }
}

/// The objects inside a security context: each has some of these fields.
#[derive(Default)]
pub(crate) struct Options<'p> {
    /// Whether the object is there at all.
    pub(crate) present: bool,
    pub(crate) r#type: Option<Cow<'p, str>>,
    pub(crate) user: Option<Cow<'p, str>>,
    pub(crate) role: Option<Cow<'p, str>>,
    pub(crate) host_process: Option<bool>,
}

impl<'p> Fields<'p> for Options<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "type" => Target::Text(&mut self.r#type),
            "user" => Target::Text(&mut self.user),
            "role" => Target::Text(&mut self.role),
            "hostProcess" => Target::Flag(&mut self.host_process),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Capabilities<'p> {
    pub(crate) present: bool,
    pub(crate) add: Vec<Option<Cow<'p, str>>>,
    pub(crate) drop: Vec<Option<Cow<'p, str>>>,
}

impl<'p> Fields<'p> for Capabilities<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "add" => Target::List(List::Texts(&mut self.add)),
            "drop" => Target::List(List::Texts(&mut self.drop)),
            _ => Target::Nothing,
        }
    }
}
