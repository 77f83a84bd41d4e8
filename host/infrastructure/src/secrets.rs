//! The values of Secrets: read from the API server at the moment of a request, and kept for some seconds at most, see [`Lately`].
//!
//! So a new password or token counts from the next request on. What is missing is a sentence that names the Secret and the key, and
//! never the value.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::core::{ApiResource, ObjectMeta, PartialObjectMeta};
use podloom_api::names::infrastructure::{FIELD_MANAGER, annotation, key, reason};
use podloom_api::{CloudSpec, GenericCloud, IdentityVersion, OpenStackAuth, OpenStackCloud};
use podloom_engine::cache::Cache;
use podloom_engine::error::{Attempt, Error};
use podloom_engine::outbound::{Pem, Roots, Tls, TlsError};
use podloom_engine::shown::shown;
use podloom_engine::write::Target as Read;
use podloom_syntax::names::dns_subdomain;
use podloom_turns::lock;
use tokio::time::{Instant, sleep};

use super::im::{CloudLogin, Hidden, Owner, Target};
use super::resolve::{Backend, ImEndpoint, SecretKey, SecretUse, Trouble};

/// The largest value, in bytes: a token with many claims has a few KiB, a certificate too.
const VALUE_MAX: usize = 64 * 1024;
/// How many TLS configurations are kept.
const TLS_MAX: usize = 100;
/// Reading a Secret. What the API server says about it may quote its values.
const READ: Attempt = Attempt::at_secret("ReadSecret", "read Secret");

/// What a TLS configuration is kept by: the authorities beside the public ones, and whether any certificate is accepted.
type Trust = (Option<String>, bool);

/// Reads Secrets, and makes of them what requests need. Cheap to clone; all clones share the TLS configurations.
#[derive(Clone)]
pub(crate) struct Secrets {
    client: Client,
    /// What was read lately; none if nothing is kept.
    lately: Option<Lately>,
    tls: Arc<Mutex<HashMap<Trust, Tls>>>,
}

/// Why there is no target for a request.
#[derive(Debug)]
pub(crate) enum TargetError {
    /// Something is missing that a user must write.
    Missing(Trouble),
    /// The API server did not say it.
    Request(Error),
}

/// The values of Secrets.
struct Values(BTreeMap<SecretUse, Hidden>);

impl Secrets {
    /// Returns a reader of Secrets that keeps nothing.
    #[cfg(test)]
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            lately: None,
            tls: Arc::default(),
        }
    }

    /// Returns a reader of Secrets that keeps what it read for some seconds, while the metadata shows that it is the same. Let
    /// [`Secrets::forget`] run beside it.
    pub(crate) fn remembering(client: Client, metas: &SecretMetas) -> Self {
        Self {
            client,
            lately: Some(Lately::new(metas.clone())),
            tls: Arc::default(),
        }
    }

    /// Forgets what was read some seconds ago, until it is dropped.
    pub(crate) async fn forget(&self) {
        match &self.lately {
            Some(lately) => lately.forget().await,
            None => std::future::pending().await,
        }
    }

    /// Reads what requests for the Clusters of a Cloud need.
    ///
    /// # Errors
    ///
    /// Returns an error if a Secret, a key or a certificate is missing, or if the API server does not answer.
    pub(crate) async fn target(&self, backend: &Backend) -> Result<Target, TargetError> {
        let values = self.values(&backend.secrets).await?;
        let owner = values.owner(&backend.im.owner);
        let login = login(backend, &values);
        self.of(&backend.im, owner?, Some(login?))
    }

    /// Reads the same with the previous password of the owner; none if there is no such password.
    ///
    /// # Errors
    ///
    /// Returns an error if a Secret, a key or a certificate is missing, or if the API server does not answer.
    pub(crate) async fn previous(&self, backend: &Backend) -> Result<Option<Target>, TargetError> {
        let ImEndpoint {
            owner: Owner::Basic { username, .. },
            previous: Some(previous),
            ..
        } = &backend.im
        else {
            return Ok(None);
        };
        let mut uses = backend.secrets.clone();
        uses.push(previous.clone());
        let values = self.values(&uses).await?;
        let owner = values.owner(&Owner::Basic {
            username: username.clone(),
            password: previous.clone(),
        });
        let login = login(backend, &values);
        self.of(&backend.im, owner?, Some(login?)).map(Some)
    }

    /// Reads what requests about no Cloud need.
    ///
    /// # Errors
    ///
    /// Returns an error if a Secret, a key or a certificate is missing, or if the API server does not answer.
    pub(crate) async fn owner(&self, im: &ImEndpoint) -> Result<Target, TargetError> {
        let values = self.values(&[im.owner.secret().clone()]).await?;
        self.of(im, values.owner(&im.owner)?, None)
    }
}

impl Secrets {
    fn of(
        &self,
        im: &ImEndpoint,
        owner: Owner,
        cloud: Option<CloudLogin>,
    ) -> Result<Target, TargetError> {
        let tls = self.tls(im).map_err(|error| {
            let message = format!(
                "{} {}: {error}",
                im.provider.kind.as_str(),
                shown(&im.provider.name)
            );
            missing(message)
        })?;
        Ok(Target {
            url: im.written_url.clone(),
            tls,
            tenant: im.namespace.clone().unwrap_or_default(),
            owner,
            cloud,
        })
    }

    /// The TLS configuration of an Infrastructure Manager. Making one reads the certificate store of this machine.
    fn tls(&self, im: &ImEndpoint) -> Result<Tls, TlsError> {
        let trust = (im.ca_bundle.clone(), im.insecure_skip_tls_verify);
        if let Some(tls) = lock(&self.tls).get(&trust) {
            return Ok(tls.clone());
        }
        let tls = match &trust {
            (_, true) => Tls::new(&Roots::Unchecked, None)?,
            (None, false) => Tls::new(&Roots::Public, None)?,
            (Some(text), false) => {
                let pem = Pem::new("spec.im.caBundle".to_owned(), text.clone().into_bytes())?;
                Tls::new(&Roots::PublicAnd(&pem), None)?
            }
        };
        let mut kept = lock(&self.tls);
        if kept.len() >= TLS_MAX {
            // Bundles that nobody names any more must not stay for ever.
            kept.clear();
        }
        kept.insert(trust, tls.clone());
        Ok(tls)
    }

    /// Reads values, each Secret once.
    async fn values(&self, uses: &[SecretUse]) -> Result<Values, TargetError> {
        let secrets: BTreeSet<&SecretKey> = uses.iter().map(|it| &it.secret).collect();
        let reads = secrets.iter().map(|secret| self.read(secret));
        let read = try_join_all(reads).await.map_err(TargetError::Request)?;
        let read: BTreeMap<&SecretKey, Option<Entries>> = secrets.into_iter().zip(read).collect();
        let values = uses.iter().map(|it| {
            let entries = read.get(&it.secret).and_then(Option::as_ref);
            Ok((it.clone(), value(it, entries)?))
        });
        values
            .collect::<Result<_, _>>()
            .map(Values)
            .map_err(missing)
    }

    /// Reads the values of a Secret; none if there is no such Secret.
    async fn read(&self, secret: &SecretKey) -> Result<Option<Entries>, Error> {
        // The name becomes a part of a URL: account?x would be read as account, and two words cannot be asked for.
        if dns_subdomain(&secret.name).is_err() {
            return Ok(None);
        }
        let lately = self.lately.as_ref();
        if let Some(entries) = lately.and_then(|lately| lately.get(secret)) {
            return Ok(Some(entries));
        }
        let resource = ApiResource::erase::<Secret>(&());
        let read = Read {
            client: &self.client,
            resource: &resource,
            namespace: Some(&secret.namespace),
            name: &secret.name,
            field_manager: FIELD_MANAGER,
        };
        let read: Option<Secret> = read.read(READ).await?;
        Ok(read.map(|read| {
            let entries = read.data.unwrap_or_default();
            if let Some(lately) = lately {
                lately.put(secret, &read.metadata, &entries);
            }
            entries
        }))
    }
}

/// The values of one Secret, by key.
type Entries = BTreeMap<String, ByteString>;

/// One value, without a newline at its end.
fn value(wanted: &SecretUse, entries: Option<&Entries>) -> Result<Hidden, String> {
    let SecretUse {
        secret: SecretKey { namespace, name },
        key,
    } = wanted;
    let place = format!("Secret {} in namespace {}", shown(name), shown(namespace));
    let Some(entries) = entries else {
        if let Err(why) = dns_subdomain(name) {
            return Err(format!("{place} cannot exist: its name {why}"));
        }
        return Err(format!(
            "{place} does not exist; create it with the key {}",
            shown(key)
        ));
    };
    let key = shown(key);
    let Some(ByteString(bytes)) = entries.get(&wanted.key) else {
        return Err(format!("{place} has no key {key}"));
    };
    if bytes.len() > VALUE_MAX {
        return Err(format!(
            "the value of the key {key} of {place} is larger than {VALUE_MAX} bytes"
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| format!("the value of the key {key} of {place} is no text in UTF-8"))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    match text.is_empty() {
        true => Err(format!("the value of the key {key} of {place} is empty")),
        false => Ok(Hidden::new(text)),
    }
}

fn missing(message: String) -> TargetError {
    TargetError::Missing(Trouble {
        reason: reason::SECRET_NOT_FOUND,
        message,
    })
}

impl Values {
    /// The value of a use; each that was asked for was found.
    fn get(&self, wanted: &SecretUse) -> Result<Hidden, TargetError> {
        let value = self.0.get(wanted).cloned();
        value.ok_or_else(|| {
            missing(format!(
                "Secret {} was not read",
                shown(&wanted.secret.name)
            ))
        })
    }

    fn owner(&self, owner: &Owner<SecretUse>) -> Result<Owner, TargetError> {
        Ok(match owner {
            Owner::Basic { username, password } => Owner::Basic {
                username: username.clone(),
                password: self.get(password)?,
            },
            Owner::Token(token) => Owner::Token(self.get(token)?),
        })
    }
}

// How an Infrastructure Manager logs in at a cloud.

/// Infrastructure Managers demand a project even where an application credential implies it.
const NO_PROJECT: &str = "none";

/// Returns the login of a Cloud.
fn login(backend: &Backend, values: &Values) -> Result<CloudLogin, TargetError> {
    let CloudSpec {
        openstack, generic, ..
    } = &backend.login;
    let namespace = &backend.secret_namespace;
    let mut login = match (openstack, generic) {
        (Some(openstack), _) => of_openstack(openstack, namespace, values)?,
        (None, Some(generic)) => of_generic(generic, namespace, values)?,
        // The API server accepts no such Cloud.
        (None, None) => {
            return Err(missing(format!(
                "{} {} has neither spec.openstack nor spec.generic",
                backend.cloud.kind.as_str(),
                shown(&backend.cloud.name)
            )));
        }
    };
    login.name.clone_from(&backend.cloud.name);
    Ok(login)
}

fn of_openstack(
    cloud: &OpenStackCloud,
    namespace: &str,
    values: &Values,
) -> Result<CloudLogin, TargetError> {
    let mut login = CloudLogin {
        kind: "OpenStack".to_owned(),
        host: Some(cloud.url.clone()),
        ..CloudLogin::default()
    };
    let mut put = |key: &str, value: &str| {
        login.parameters.insert(key.to_owned(), value.to_owned());
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
        login.secrets.insert("password".to_owned(), value);
    }
    Ok(login)
}

fn of_generic(
    cloud: &GenericCloud,
    namespace: &str,
    values: &Values,
) -> Result<CloudLogin, TargetError> {
    let mut login = CloudLogin {
        kind: cloud.type_.clone(),
        host: cloud.host.clone(),
        parameters: cloud.parameters.clone().unwrap_or_default(),
        ..CloudLogin::default()
    };
    for (name, reference) in cloud.secret_parameters.iter().flatten() {
        let value = values.get(&SecretUse::of(namespace, reference, key::VALUE))?;
        login.secrets.insert(name.clone(), value);
    }
    Ok(login)
}

// Secrets that were read lately, so that the Clusters of an account do not all read the same one at the same time.
//
// A value is kept for some seconds, and counts only while the watch of metadata shows the very version that it is from. Where Secrets
// may not be watched, nothing is kept.

/// How long a value counts. A watch that has stopped shows an old version, so this is short.
const KEPT: Duration = Duration::from_secs(10);

/// How large a Secret may be that is kept, in bytes. Those with passwords are small.
const LARGEST: usize = 16 * 1024;

/// Secrets that were read lately. Cheap to clone; all clones share them.
#[derive(Clone)]
struct Lately {
    /// Which versions there are.
    metas: SecretMetas,
    all: Arc<Mutex<HashMap<SecretKey, Kept>>>,
}

struct Kept {
    version: Version,
    entries: Entries,
    until: Instant,
}

/// The UID and the resource version of a Secret.
type Version = [String; 2];

fn size(entries: &Entries) -> usize {
    entries.values().map(|value| value.0.len()).sum()
}

fn version(secret: &ObjectMeta) -> Option<Version> {
    Some([secret.uid.clone()?, secret.resource_version.clone()?])
}

impl Lately {
    fn new(metas: SecretMetas) -> Self {
        Self {
            metas,
            all: Arc::default(),
        }
    }

    /// Returns the values of a Secret, if they were read lately and it did not change since.
    fn get(&self, secret: &SecretKey) -> Option<Entries> {
        let seen = self.seen(secret)?;
        let all = lock(&self.all);
        let kept = all.get(secret)?;
        let counts = kept.version == seen && Instant::now() < kept.until;
        counts.then(|| kept.entries.clone())
    }

    /// Keeps the values of a Secret, if the watch shows the version that was read.
    fn put(&self, secret: &SecretKey, read: &ObjectMeta, entries: &Entries) {
        let Some(version) = version(read).filter(|_| size(entries) <= LARGEST) else {
            return;
        };
        if self.seen(secret).as_ref() == Some(&version) {
            let kept = Kept {
                version,
                entries: entries.clone(),
                until: Instant::now() + KEPT,
            };
            lock(&self.all).insert(secret.clone(), kept);
        }
    }

    /// Forgets what does not count any more, again and again.
    async fn forget(&self) {
        loop {
            sleep(KEPT).await;
            let now = Instant::now();
            lock(&self.all).retain(|_, kept| now < kept.until);
        }
    }

    /// The version that the watch shows.
    fn seen(&self, secret: &SecretKey) -> Option<Version> {
        version(&self.metas.get(secret)?.metadata)
    }

    /// How many are kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        lock(&self.all).len()
    }
}

// Which Secrets there are: their metadata, never their values, and only where it may be read.

/// The metadata of a Secret.
pub(crate) type SecretMeta = PartialObjectMeta<Secret>;

/// The metadata of all Secrets that our objects may name, where Secrets may be listed and watched. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SecretMetas(pub(crate) Cache<SecretMeta>);

impl SecretMetas {
    /// Returns whether the Secrets of a namespace may be read.
    pub(crate) fn are_known(&self, namespace: &str) -> bool {
        self.0.is_known(Some(namespace))
    }

    /// Returns the metadata of a Secret; none if there is none, or if it may not be read.
    pub(crate) fn get(&self, secret: &SecretKey) -> Option<Arc<SecretMeta>> {
        self.0.get(Some(&secret.namespace), &secret.name)
    }

    /// Returns the version of a Secret.
    pub(crate) fn version(&self, secret: &SecretKey) -> Option<String> {
        let found = self.get(secret)?;
        found.metadata.resource_version.clone()
    }

    /// Returns the Secrets that a test picks by their metadata.
    pub(crate) fn pick(&self, picks: impl Fn(&ObjectMeta) -> bool) -> Vec<SecretKey> {
        let picked = self.0.pick(|it| picks(&it.metadata));
        picked
            .iter()
            .map(|it| SecretKey::of(&it.metadata))
            .collect()
    }
}

/// Keeps what is read of a Secret.
pub(crate) fn prune(secret: &mut SecretMeta) {
    secret.metadata = ObjectMeta {
        name: secret.metadata.name.take(),
        namespace: secret.metadata.namespace.take(),
        uid: secret.metadata.uid.take(),
        resource_version: secret.metadata.resource_version.take(),
        deletion_timestamp: secret.metadata.deletion_timestamp.take(),
        owner_references: secret.metadata.owner_references.take(),
        finalizers: secret.metadata.finalizers.take(),
        annotations: secret.metadata.annotations.take().map(|mut annotations| {
            annotations.retain(|key, _| key == annotation::OPERATION);
            annotations
        }),
        ..ObjectMeta::default()
    };
}

#[cfg(test)]
mod tests;
