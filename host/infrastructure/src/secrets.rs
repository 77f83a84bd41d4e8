//! The values of Secrets: read from the API server at the moment of a request, and kept for some seconds at most, see [`lately`].
//!
//! So a new password or token counts from the next request on. What is missing is a sentence that names the Secret and the key, and
//! never the value.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use futures::future::try_join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::core::ApiResource;
use podloom_api::names::infrastructure::{FIELD_MANAGER, reason};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::outbound::{Pem, Roots, Tls, TlsError};
use podloom_engine::shown::shown;
use podloom_engine::write::Target as Read;
use podloom_turns::lock;

use super::im::{CloudLogin, Hidden, Owner, Target};
use super::resolve::{Backend, ImEndpoint, OwnerUse, SecretKey, SecretUse, Unresolved};
use super::secret_metas::SecretMetas;

mod lately;
mod login;

use self::lately::Lately;

/// The largest value, in bytes: a token with many claims has a few KiB, a certificate too.
const VALUE_MAX: usize = 64 * 1024;
/// How many TLS configurations are kept.
const TLS_MAX: usize = 100;
/// Reading a Secret. What the API server says about it may quote its values.
const READ: Attempt = Attempt::at_secret("ReadSecret", "read Secret");

/// Reads Secrets, and makes of them what requests need. Cheap to clone; all clones share the TLS configurations.
#[derive(Clone)]
pub(crate) struct Secrets {
    client: Client,
    /// What was read lately; none if nothing is kept.
    lately: Option<Lately>,
    tls: Arc<Mutex<HashMap<Trust, Tls>>>,
}

/// Which certificates are accepted.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Trust {
    Public,
    PublicAnd(String),
    Any,
}

/// Why there is no target for a request.
#[derive(Debug)]
pub(crate) enum TargetError {
    /// Something is missing that a user must write.
    Missing(Unresolved),
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
        let login = login::login(backend, &values);
        self.of(&backend.im, owner?, Some(login?))
    }

    /// Reads the same with the previous password of the owner; none if there is no such password.
    ///
    /// # Errors
    ///
    /// Returns an error if a Secret, a key or a certificate is missing, or if the API server does not answer.
    pub(crate) async fn previous(&self, backend: &Backend) -> Result<Option<Target>, TargetError> {
        let OwnerUse::Basic {
            username,
            previous: Some(previous),
            ..
        } = &backend.im.owner
        else {
            return Ok(None);
        };
        let mut uses = backend.secrets.clone();
        uses.push(previous.clone());
        let values = self.values(&uses).await?;
        let owner = values.owner(&OwnerUse::Basic {
            username: username.clone(),
            password: previous.clone(),
            previous: None,
        });
        let login = login::login(backend, &values);
        self.of(&backend.im, owner?, Some(login?)).map(Some)
    }

    /// Reads what requests about no Cloud need.
    ///
    /// # Errors
    ///
    /// Returns an error if a Secret, a key or a certificate is missing, or if the API server does not answer.
    pub(crate) async fn owner(&self, im: &ImEndpoint) -> Result<Target, TargetError> {
        let uses: Vec<SecretUse> = im.owner.required().cloned().collect();
        let values = self.values(&uses).await?;
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
        let trust = match (&im.ca_bundle, im.insecure_skip_tls_verify) {
            (_, true) => Trust::Any,
            (Some(pem), false) => Trust::PublicAnd(pem.clone()),
            (None, false) => Trust::Public,
        };
        if let Some(tls) = lock(&self.tls).get(&trust) {
            return Ok(tls.clone());
        }
        let tls = match &trust {
            Trust::Any => Tls::new(&Roots::Unchecked, None)?,
            Trust::Public => Tls::new(&Roots::Public, None)?,
            Trust::PublicAnd(text) => {
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
        let secrets: BTreeSet<SecretKey> = uses.iter().map(SecretUse::secret).collect();
        let reads = secrets.iter().map(|secret| self.read(secret));
        let read = try_join_all(reads).await.map_err(TargetError::Request)?;
        let read: BTreeMap<&SecretKey, Option<Entries>> = secrets.iter().zip(read).collect();
        let values = uses.iter().map(|it| {
            let entries = read.get(&it.secret()).and_then(Option::as_ref);
            Ok((it.clone(), value(it, entries)?))
        });
        values
            .collect::<Result<_, _>>()
            .map(Values)
            .map_err(missing)
    }

    /// Reads the values of a Secret; none if there is no such Secret.
    async fn read(&self, secret: &SecretKey) -> Result<Option<Entries>, Error> {
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
        namespace,
        name,
        key,
    } = wanted;
    let place = format!("Secret {} in namespace {}", shown(name), shown(namespace));
    let Some(entries) = entries else {
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
    TargetError::Missing(Unresolved {
        reason: reason::SECRET_NOT_FOUND,
        message,
    })
}

impl Values {
    /// The value of a use; each that was asked for was found.
    fn get(&self, wanted: &SecretUse) -> Result<Hidden, TargetError> {
        let value = self.0.get(wanted).cloned();
        value.ok_or_else(|| missing(format!("Secret {} was not read", shown(&wanted.name))))
    }

    fn owner(&self, owner: &OwnerUse) -> Result<Owner, TargetError> {
        Ok(match owner {
            OwnerUse::Basic {
                username, password, ..
            } => Owner::Basic {
                username: username.clone(),
                password: self.get(password)?,
            },
            OwnerUse::Token(token) => Owner::Token(self.get(token)?),
        })
    }
}

#[cfg(test)]
mod tests;
