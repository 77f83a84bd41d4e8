mod phase;
