mod state;
