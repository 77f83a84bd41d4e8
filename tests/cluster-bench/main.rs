//! Measures the operator on a real control plane, against a bare client that makes the same writes.
//!
//! The bare client goes first, alone on the cluster; then the operator gets the same number of Browsers.
//! The difference between the two is the cost of the operator.

mod audit;
mod bare;
mod browsers;
mod operator;
mod plane;
mod report;
mod warm;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use podloom_api::SelenosisApi;
use podloom_control_plane::{ControlPlane, Options};

use crate::audit::AuditLog;
use crate::browsers::Workplace;

/// Measure the operator on a real control plane, against a bare client that makes the same writes.
#[derive(Parser)]
#[command(name = "cluster-bench")]
struct Arguments {
    /// The number of Browsers to create at once.
    #[arg(long, default_value_t = 1000)]
    browsers: usize,
    /// The number of concurrent requests: for creating and deleting Browsers, by the bare client, and by the operator.
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// How long to measure the operator at rest, in seconds.
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// The number of further Browsers for measuring the memory of each; 0 skips this.
    #[arg(long, default_value_t = 3000)]
    growth: usize,
    /// Measure instead how soon sessions run, with pods that wait and without, at 1, 10 and 50 a second.
    #[arg(long)]
    warm: bool,
    /// Leave out the bare client: with many Browsers it takes as long as everything else.
    #[arg(long)]
    operator_alone: bool,
    /// The operator's binary.
    #[arg(long, value_name = "FILE")]
    podloom: PathBuf,
    /// The directory of plugins and their chain.
    #[arg(long, value_name = "DIR")]
    plugins: PathBuf,
    /// The API groups of Browsers.
    #[arg(long, value_name = "GROUPS", default_value = "seed", value_parser = ["seed", "split"])]
    selenosis_api: String,
    /// Measure this process, which already serves Browsers on the cluster of --kubeconfig, instead of starting an operator.
    #[arg(long, value_name = "PID", requires = "kubeconfig")]
    controller_pid: Option<u32>,
    /// A running cluster with the CRDs; by default a new one is started.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The audit log of that cluster; without it requests are not counted.
    #[arg(long, value_name = "FILE", requires = "kubeconfig")]
    audit_log: Option<PathBuf>,
    /// Also write the figures to this file, as one JSON object.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let api: SelenosisApi = arguments.selenosis_api.parse()?;
    let (plane, kubeconfig, log) = match &arguments.kubeconfig {
        Some(path) => (None, path.clone(), arguments.audit_log.clone()),
        None => {
            eprintln!("starting a control plane");
            let plane = ControlPlane::start(&Options {
                audit: true,
                ..Options::default()
            })?;
            let log = plane.audit_log();
            operator::install(&plane, api)?;
            let kubeconfig = plane.kubeconfig();
            (Some(plane), kubeconfig, Some(log))
        }
    };
    let client = client(&kubeconfig).await?;
    let workplace = Workplace {
        client: client.clone(),
        api,
        browsers: arguments.browsers,
        concurrency: arguments.concurrency,
    };
    let log = AuditLog::new(log);

    let launcher = operator::Launcher {
        arguments: &arguments,
        plane: plane.as_ref(),
        kubeconfig: &kubeconfig,
    };
    if arguments.warm {
        let (sessions, pool) = warm::measure(&workplace, &launcher, &log).await?;
        return show(&report::warm(&sessions, &pool), &arguments);
    }
    let pod = operator::pod_template(&arguments.podloom, &arguments.plugins, api)?;
    // A controller that runs already would also handle the bare client's Browsers.
    let with_bare_client = arguments.controller_pid.is_none() && !arguments.operator_alone;
    let bare = bare::measure(&workplace, &pod, with_bare_client).await?;
    let figures = operator::measure(
        &workplace,
        &launcher,
        &log,
        &operator::Extent {
            rest: Duration::from_secs(arguments.rest),
            growth: arguments.growth,
        },
    )
    .await?;
    let table = report::table(bare.as_ref(), &figures, arguments.browsers);
    show(&table, &arguments)
}

fn show(table: &[report::Row], arguments: &Arguments) -> Result<()> {
    report::print(table);
    if let Some(path) = &arguments.json {
        report::write(table, path)?;
    }
    Ok(())
}

async fn client(kubeconfig: &std::path::Path) -> Result<Client> {
    let text =
        Kubeconfig::read_from(kubeconfig).with_context(|| kubeconfig.display().to_string())?;
    let config = kube::Config::from_custom_kubeconfig(text, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
