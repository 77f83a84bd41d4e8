mod reply;
