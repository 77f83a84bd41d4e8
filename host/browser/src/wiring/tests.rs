mod changes;
mod configs;
