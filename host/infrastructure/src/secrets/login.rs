//! How an Infrastructure Manager logs in at a cloud.

use std::collections::BTreeMap;

use podloom_api::names::infrastructure::key;
use podloom_api::{CloudSpec, GenericCloud, IdentityVersion, OpenStackAuth, OpenStackCloud};
use podloom_engine::shown::shown;

use super::{TargetError, Values, missing};
use crate::im::{CloudLogin, Hidden};
use crate::resolve::{Backend, SecretUse};

/// Infrastructure Managers demand a project even where an application credential implies it.
const NO_PROJECT: &str = "none";

/// The parameters of a login.
#[derive(Default)]
struct Parameters {
    open: BTreeMap<String, String>,
    secret: BTreeMap<String, Hidden>,
}

/// Returns the login of a Cloud.
pub(super) fn login(backend: &Backend, values: &Values) -> Result<CloudLogin, TargetError> {
    let CloudSpec {
        openstack, generic, ..
    } = &backend.login;
    let name = backend.cloud.name.clone();
    let namespace = &backend.secret_namespace;
    let (kind, host, parameters) = match (openstack, generic) {
        (Some(openstack), _) => (
            "OpenStack".to_owned(),
            Some(openstack.url.clone()),
            of_openstack(openstack, namespace, values)?,
        ),
        (None, Some(generic)) => (
            generic.type_.clone(),
            generic.host.clone(),
            of_generic(generic, namespace, values)?,
        ),
        // The API server accepts no such Cloud.
        (None, None) => {
            return Err(missing(format!(
                "{} {} has neither spec.openstack nor spec.generic",
                backend.cloud.kind.as_str(),
                shown(&name)
            )));
        }
    };
    Ok(CloudLogin {
        name,
        kind,
        host,
        parameters: parameters.open,
        secrets: parameters.secret,
    })
}

fn of_openstack(
    cloud: &OpenStackCloud,
    namespace: &str,
    values: &Values,
) -> Result<Parameters, TargetError> {
    let mut login = Parameters::default();
    let mut put = |key: &str, value: &str| {
        login.open.insert(key.to_owned(), value.to_owned());
    };
    let OpenStackAuth {
        password,
        application_credential,
    } = &cloud.auth;
    let mut secret = None;
    if let Some(user) = password {
        // The names of Apache Libcloud, with which IM logs in; it has no 2.x_password.
        let version = match user.identity_version {
            IdentityVersion::V2 => "2.0_password",
            IdentityVersion::V3 => "3.x_password",
        };
        put("auth_version", version);
        put("username", &user.username);
        put("tenant", &user.project_name);
        put("domain", &user.user_domain_name);
        put("tenant_domain_id", &user.project_domain_id);
        secret = Some((&user.password_secret_ref, key::PASSWORD));
    } else if let Some(credential) = application_credential {
        let project = credential.project_name.as_deref();
        put("auth_version", "3.x_appcred");
        put("username", &credential.id);
        put("tenant", project.unwrap_or(NO_PROJECT));
        secret = Some((&credential.secret_ref, key::SECRET));
    }
    if let Some(region) = &cloud.region {
        put("service_region", region);
    }
    if let Some((reference, key)) = secret {
        let value = values.get(&SecretUse::of(namespace, reference, key))?;
        login.secret.insert("password".to_owned(), value);
    }
    Ok(login)
}

fn of_generic(
    cloud: &GenericCloud,
    namespace: &str,
    values: &Values,
) -> Result<Parameters, TargetError> {
    let mut login = Parameters {
        open: cloud.parameters.clone().unwrap_or_default(),
        secret: BTreeMap::new(),
    };
    for (name, reference) in cloud.secret_parameters.iter().flatten() {
        let value = values.get(&SecretUse::of(namespace, reference, key::VALUE))?;
        login.secret.insert(name.clone(), value);
    }
    Ok(login)
}
