//! The table of metrics, the dashboard and the alerts agree with each other, and with what a real Prometheus scrapes of a real run.

mod files;
mod run;
mod workload;
