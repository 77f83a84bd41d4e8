//! Asks IM.

use podloom_engine::error::Error;
use podloom_engine::kind::Context;

use super::super::action::{Ask, Asked, Reply};
use super::super::change::Change;
use super::super::edit::{Edit, edit};
use super::super::kind::ClusterKind;
use super::super::silent::unasked;
use super::super::world::{Prepared, World};
use super::is_too_late;
use crate::im::{Call, Owner, Target};
use crate::secrets::TargetError;
use crate::template::to_send;

impl ClusterKind {
    /// Asks IM one question.
    pub(super) async fn ask(
        &self,
        ctx: &Context,
        world: &World,
        ask: &Ask,
    ) -> Result<Asked, Error> {
        let reply = match self.reply(ctx, world, ask).await {
            Ok(reply) => reply,
            Err(TargetError::Missing(missing)) => Reply::Missing(missing),
            Err(TargetError::Request(error)) => return Err(error),
        };
        Ok(Asked {
            ask: ask.clone(),
            reply,
            at: ctx.clock.now(),
        })
    }

    async fn target(&self, world: &World) -> Result<Target, TargetError> {
        if let Some(Prepared(Some(target))) = &world.learned.prepared {
            return Ok(target.clone());
        }
        match world.resolved() {
            Some(backend) => self.secrets.target(backend).await,
            // No plan asks without one.
            None => Err(TargetError::Request(Error::Endless)),
        }
    }

    async fn reply(&self, ctx: &Context, world: &World, ask: &Ask) -> Result<Reply, TargetError> {
        let target = &self.target(world).await?;
        if matches!(ask, Ask::Change(_)) && is_too_late(world, ctx.clock.now()) {
            return Ok(Reply::TooLate);
        }
        let Some(turn) = self.silent.turn(target) else {
            return Ok(unasked());
        };
        let reply = self.answer(world, ask, target).await?;
        turn.end(&reply);
        Ok(reply)
    }

    async fn answer(
        &self,
        world: &World,
        ask: &Ask,
        target: &Target,
    ) -> Result<Reply, TargetError> {
        match ask {
            Ask::Search { skip } => self.search(world, target, skip).await,
            Ask::Left(id) => self.left(world, target, id).await,
            Ask::AddOwner(_) => self.add_owner(world, ask, target).await,
            _ => match call(world, ask) {
                Some(call) => Ok(self.send(target, &call).await),
                None => Ok(Reply::TooLate),
            },
        }
    }

    async fn send(&self, target: &Target, call: &Call) -> Reply {
        match self.im.call(target, call).await {
            Ok(answer) => Reply::Answer(answer),
            Err(failure) => Reply::Failure(failure),
        }
    }

    /// Lets the account of now own the infrastructure. Only who owns it may say so: the account with the previous password.
    async fn add_owner(
        &self,
        world: &World,
        ask: &Ask,
        target: &Target,
    ) -> Result<Reply, TargetError> {
        let (Ask::AddOwner(id), Owner::Basic { username, password }) = (ask, &target.owner) else {
            return Ok(Reply::TooLate);
        };
        let previous = self.previous(world, target).await?;
        let Some(previous) = previous.first() else {
            return Ok(Reply::TooLate);
        };
        let call = Call::AddOwner {
            id: id.clone(),
            username: username.clone(),
            password: password.clone(),
        };
        Ok(self.send(previous, &call).await)
    }
}

/// The call for a question; none if the world has no such infrastructure or template.
pub(super) fn call(world: &World, ask: &Ask) -> Option<Call> {
    let id = || world.durable.id.clone();
    Some(match ask {
        Ask::Change(Change::Create) => Call::Create {
            template: whole(world)?,
        },
        Ask::Change(Change::Update) => {
            let Edit::Send(update) = edit(world) else {
                return None;
            };
            Call::Update {
                id: id()?,
                template: to_send(&update.sent, &world.infrastructure_name()),
            }
        }
        Ask::Change(Change::Resend) => Call::Update {
            id: id()?,
            template: whole(world)?,
        },
        Ask::Change(Change::Reconfigure) => Call::Reconfigure { id: id()? },
        Ask::Change(Change::Start) => Call::Start { id: id()? },
        Ask::Change(Change::Delete { force }) => Call::Delete {
            id: id()?,
            force: *force,
        },
        Ask::Name(id) => Call::Template { id: id.clone() },
        Ask::State(id) | Ask::Adopt(id) => Call::State { id: id.clone() },
        Ask::Outputs(id) => Call::Outputs { id: id.clone() },
        Ask::Log(id) => Call::Log { id: id.clone() },
        Ask::Search { .. } | Ask::Left(_) | Ask::AddOwner(_) => return None,
    })
}

/// The template that IM has, or gets now.
fn whole(world: &World) -> Option<String> {
    let template = world.whole()?;
    Some(to_send(template, &world.infrastructure_name()))
}
