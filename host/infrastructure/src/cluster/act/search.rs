//! Looks for the infrastructure of a Cluster's name.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};

use super::super::action::{Found, Reply};
use super::super::kind::ClusterKind;
use super::super::world::World;
use crate::im::{Answer, Call, Failure, FailureKind, InfrastructureId, Sent, Target};
use crate::secrets::TargetError;
use crate::template::is_named;

/// How many templates one pass reads.
const READS: usize = 50;
/// How many at a time: the client sends four at a time to an Infrastructure Manager, for all Clusters.
const AT_ONCE: usize = 2;
/// How many infrastructures of an account a search looks at. One that lists other ids each time would be searched for ever.
const MOST: usize = 10_000;

/// A template that was read.
enum Read {
    Match(InfrastructureId),
    /// It has another name, none, or is gone.
    Another(InfrastructureId),
}

impl ClusterKind {
    /// Reads the names of infrastructures that no other Cluster has. Any failure fails the search: what could not be read may be it.
    pub(super) async fn search(
        &self,
        world: &World,
        target: &Target,
        skip: &[InfrastructureId],
    ) -> Result<Reply, TargetError> {
        let owners = self.owners(world, target).await?;
        Ok(match self.found(world, &owners, skip).await {
            Ok(found) => Reply::Found(found),
            Err(failure) => Reply::Failure(failure),
        })
    }

    /// Looks whether the account lists an infrastructure.
    pub(super) async fn left(
        &self,
        world: &World,
        target: &Target,
        id: &InfrastructureId,
    ) -> Result<Reply, TargetError> {
        let owners = self.owners(world, target).await?;
        let mut found = Found {
            is_complete: true,
            ..Found::default()
        };
        for (number, owner) in owners.iter().enumerate() {
            match self.listed(number, owner).await {
                Ok(listed) if listed.contains(id) => found.matches = vec![id.clone()],
                Ok(_) => {}
                Err(failure) => return Ok(Reply::Failure(failure)),
            }
        }
        Ok(Reply::Found(found))
    }

    /// Whose infrastructures are looked at: a request may have been signed with the password from before its change.
    async fn owners(&self, world: &World, target: &Target) -> Result<Vec<Target>, TargetError> {
        let mut owners = vec![target.clone()];
        owners.extend(self.previous(world, target).await?);
        Ok(owners)
    }

    /// As whom requests were sent before the password was changed: as it was seen, and as the provider says.
    pub(super) async fn previous(
        &self,
        world: &World,
        target: &Target,
    ) -> Result<Vec<Target>, TargetError> {
        let sent_as = world.known.sent_as.clone().map(|owner| Target {
            owner,
            ..target.clone()
        });
        let named = match world.resolved() {
            Some(backend) => self.secrets.previous(backend).await?,
            None => None,
        };
        let others = sent_as.into_iter().chain(named);
        let mut previous: Vec<Target> = others.filter(|it| it.owner != target.owner).collect();
        previous.dedup_by(|one, other| one.owner == other.owner);
        Ok(previous)
    }

    /// What the owner of this number has.
    async fn listed(
        &self,
        number: usize,
        owner: &Target,
    ) -> Result<Vec<InfrastructureId>, Failure> {
        match self.im.call(owner, &Call::List).await {
            Ok(Answer::List(listed)) => Ok(listed),
            Ok(_) => Err(unexpected()),
            // An account with a previous password that IM does not accept any more owns nothing.
            Err(failure) if number > 0 && is_unknown(&failure) => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    async fn found(
        &self,
        world: &World,
        owners: &[Target],
        skip: &[InfrastructureId],
    ) -> Result<Found, Failure> {
        let mut seen: BTreeSet<InfrastructureId> = skip.iter().cloned().collect();
        let mut found = Found {
            is_complete: true,
            ..Found::default()
        };
        for (number, owner) in owners.iter().enumerate() {
            let mut left = self.listed(number, owner).await?;
            left.retain(|id| {
                !self.claims.is_anothers(id, &world.cluster) && seen.insert(id.clone())
            });
            if skip.len().saturating_add(left.len()) > MOST {
                return Err(Failure {
                    message: format!(
                        "the account has more than {MOST} infrastructures that no Cluster has; delete some, or use an account for Clusters alone"
                    ),
                    ..unexpected()
                });
            }
            let room = READS.saturating_sub(found.read.len());
            found.is_complete &= left.len() <= room;
            left.truncate(room);
            self.read_names(world, owner, left, &mut found).await?;
        }
        Ok(found)
    }

    async fn read_names(
        &self,
        world: &World,
        owner: &Target,
        ids: Vec<InfrastructureId>,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let name = world.infrastructure_name();
        let name = name.as_str();
        let mut reads = stream::iter(ids)
            .map(|id| async move { self.read_name(owner, id, name).await })
            .buffer_unordered(AT_ONCE);
        while let Some(read) = reads.next().await {
            match read {
                Ok(Read::Match(id)) => {
                    found.matches.push(id.clone());
                    found.read.push(id);
                }
                Ok(Read::Another(id)) => found.read.push(id),
                // What was read is kept. The next pass goes on with what was not.
                Err(_) if !found.read.is_empty() => {
                    found.is_complete = false;
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    async fn read_name(
        &self,
        owner: &Target,
        id: InfrastructureId,
        name: &str,
    ) -> Result<Read, Failure> {
        let call = Call::Template { id: id.clone() };
        let read = match self.im.call(owner, &call).await {
            Ok(Answer::Template(text)) => is_named(&text, name).ok_or_else(unexpected),
            Ok(_) => Err(unexpected()),
            Err(failure) if is_nameless(&failure) => Ok(false),
            Err(failure) => Err(failure),
        };
        match read {
            Ok(true) => Ok(Read::Match(id)),
            Ok(false) => Ok(Read::Another(id)),
            Err(failure) => Err(Failure {
                message: format!("infrastructure {id}: {}", failure.message),
                ..failure
            }),
        }
    }
}

/// Whether an infrastructure has no name that could be read, now or later.
fn is_nameless(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::NotFound | FailureKind::NoTemplate
    )
}

fn is_unknown(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::CredentialsRejected | FailureKind::NotGranted
    )
}

fn unexpected() -> Failure {
    Failure {
        kind: FailureKind::Unreachable,
        message: "the answer is none of an Infrastructure Manager".to_owned(),
        sent: Sent::Unknown,
    }
}
