mod prepared;
mod views;
